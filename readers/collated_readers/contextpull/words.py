"""The words of a query and the FTS5 expressions made of them (store-format: Tokenisation, Search)."""

from __future__ import annotations

import re

from collated_readers.contract import Tier

__all__ = ["match_of", "tiers_of", "words_of"]

# In Python `\w` is exactly the letters (L*), numbers (N*) and `_`, as the reference has it.
_WORD = re.compile(r"[^\W_][\w.\-]*")


def words_of(text: str) -> list[str]:
    """Return the words of *text* in order, repeated ones too.

    The contract normalises the text first; that was shown to change nothing for queries.
    """
    return [stripped for word in _WORD.findall(text.lower()) if (stripped := word.strip("._-"))]


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
