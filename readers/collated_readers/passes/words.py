"""The words of a query and the FTS5 expressions made of them (store-format: Tokenisation, Search)."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache

from msgspec.structs import replace

from collated_readers.contract import Query, Tier

__all__ = ["loosened_of", "match_of", "normalised", "tiers_of", "words_of"]

# In Python `\w` is exactly the letters (L*), numbers (N*) and `_`, as the reference has it.
_WORD = re.compile(r"[^\W_][\w.\-]*")
_QUERIES = 16
_LEADING = re.compile(r"(?<![\w.\-])[\-_.]+(?=\w)")
_TRAILING = re.compile(r"(?<=\w)[\-_.]+(?![\w.\-])")


def words_of(text: str) -> list[str]:
    """Return the words of *text* in order, repeated ones too.

    The contract normalises the text first; that was shown to change nothing for queries.
    """
    return list(_words(text))


@lru_cache(_QUERIES)  # every store of a request asks for the same
def _words(text: str) -> tuple[str, ...]:
    return tuple(stripped for word in _WORD.findall(text.lower()) if (stripped := word.strip("._-")))


def normalised(text: str) -> str:
    """Return *text* as it is indexed: `-_.` where a word begins or ends are no part of it."""
    return _TRAILING.sub("", _LEADING.sub("", text))


def tiers_of(words: list[str]) -> tuple[Tier, ...]:
    """Return the passes that *words* allow, best first."""
    if not words:
        return ()
    return ("any",) if len(words) == 1 else ("phrase", "all", "any")


def match_of(words: list[str], tier: Tier) -> str:
    """Return the MATCH string of one pass. A word never holds a `"`, so nothing needs doubling."""
    if tier == "phrase":
        return f'"{" ".join(words)}"'
    operator = " AND " if tier == "all" else " OR "
    return operator.join(f'"{word}"' for word in words)


def loosened_of(query: Query, ignored: Set[str], least: int) -> Query:
    """Return *query*, if it has *least* words or more, without those *ignored*, if any are left."""
    words = words_of(query.text)
    kept = [word for word in words if word not in ignored]
    return query if len(words) < least or not kept else replace(query, text=" ".join(kept))
