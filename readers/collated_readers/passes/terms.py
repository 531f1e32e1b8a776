"""The words of a query as the index has them (formats/contextpull.md §3.4)."""

from __future__ import annotations

from collections.abc import Sequence

from collated_readers.contract import Phrase
from collated_readers.fts.tokens import LONGEST_TERM_BYTES, Tokenizer

__all__ = ["TOKENIZER", "phrases_of"]

TOKENIZER = "unicode61 remove_diacritics 2 tokenchars '-_.'"
"""The tokenizer of every ContextPull index, as `tokenize` names it."""

_TOKENIZER = Tokenizer(TOKENIZER)


def phrases_of(words: Sequence[str]) -> tuple[Phrase, ...]:
    """Return the terms of each of *words*, which are those of a query and so of lower case.

    Raises:
        StoreError: `fts5_missing`; never for ASCII.
    """
    return tuple(_phrase(word) for word in words)


def _phrase(word: str) -> Phrase:
    if word.isascii():  # letters, digits and `-_.` alone: one token, which is the word itself
        return (word.encode()[:LONGEST_TERM_BYTES],)
    return _TOKENIZER.terms(word)
