"""The words of a query, the parts of identifiers, and the FTS5 expressions made of them.

The index's tokenizer takes `_` and `-` for separators and no notice of capitals, so that
`get_params` is two terms and `getParams` one (formats/codebase-index.md T10).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from collated_readers.contract import Phrase, Tier
from collated_readers.fts.tokens import LONGEST_TERM_BYTES, Tokenizer

__all__ = ["TOKENIZER", "key_of", "match_of", "parts_of", "phrases_of", "tiers_of", "words_of"]

TOKENIZER = "unicode61 remove_diacritics 2"
"""The tokenizer of every index of the format, as `tokenize` names it."""

_WORD = re.compile(r"[^\W_]+(?:[_-]+[^\W_]+)*")
_BETWEEN = re.compile(r"[\W_]+")
_ASCII_PART = re.compile(r"[A-Z]+(?![a-z])[a-z0-9]*|[A-Z]?[a-z0-9]+")
_TOKENIZER = Tokenizer(TOKENIZER)


def words_of(text: str) -> list[str]:
    """Return the words of *text* as written, in order, repeated ones too; an identifier is one word."""
    return _WORD.findall(text)


def parts_of(name: str) -> list[str]:
    """Return what *name* is composed of: `HTTPServer_v2` of `HTTP`, `Server` and `v2`."""
    if name.isascii():  # nearly all: what `_humps` says, ten times as fast
        return _ASCII_PART.findall(name)
    return [part for run in _BETWEEN.split(name) if run for part in _humps(run)]


def _humps(run: str) -> list[str]:
    """Split before a capital that follows a small letter or a digit, or that begins a word after capitals."""
    edges = [0]
    for at in range(1, len(run)):
        before, this, after = run[at - 1], run[at], run[at + 1 : at + 2]
        if this.isupper() and (not before.isupper() or after.islower()):
            edges.append(at)
    return [run[first:last] for first, last in zip(edges, [*edges[1:], len(run)], strict=True)]


def key_of(name: str) -> str:
    """Return what names have in common that differ in case and in what stands between their parts only."""
    return _BETWEEN.sub("", name.casefold())


def tiers_of(words: Sequence[str]) -> tuple[Tier, ...]:
    """Return the passes that *words* allow, best first."""
    if not words:
        return ()
    return ("symbol", "any") if len(words) == 1 else ("symbol", "phrase", "all", "any")


def phrases_of(words: Sequence[str]) -> tuple[Phrase, ...]:
    """Return the terms of each word that `match_of` looks for.

    Raises:
        StoreError: `fts5_missing`; never for ASCII.
    """
    return tuple(_phrase(word) for word in _spelt(words))


def match_of(words: Sequence[str], tier: Tier) -> str:
    """Return the MATCH string of one pass. A word never holds a `"`, so nothing needs doubling."""
    if tier == "phrase":
        return f'"{" ".join(words)}"'
    operator = " AND " if tier == "all" else " OR "
    return operator.join(f'"{word}"' for word in _spelt(words))


def _spelt(words: Sequence[str]) -> list[str]:
    """Return *words*, but one identifier alone as it may be spelt: in one, in parts, and each part."""
    parts = parts_of(words[0]) if len(words) == 1 else []
    return ["".join(parts), " ".join(parts), *parts] if len(parts) > 1 else list(words)


def _phrase(word: str) -> Phrase:
    if not word.isascii():
        return _TOKENIZER.terms(word)
    return tuple(term.encode()[:LONGEST_TERM_BYTES] for term in _BETWEEN.split(word.lower()))
