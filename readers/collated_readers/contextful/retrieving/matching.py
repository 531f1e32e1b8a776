"""Whether and how often a token stands in a text, and whether all stand together (retrieve.md §3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

from .tokens import STOP_TOKENS, WORD

__all__ = ["Count", "counter", "counts_of", "takes_plural", "together"]

Count = Callable[[str], int]
"""How often one token stands in a text, which is in lower case; occurrences do not overlap."""

_SHORTEST_PLURAL = 4  # characters; `cat` does not find `cats`


def takes_plural(token: str) -> bool:
    """Tell whether *token* also finds itself with `s` or `es` after it."""
    return len(token) >= _SHORTEST_PLURAL and token.isascii()


def counter(token: str) -> Count:
    """Return what counts *token*: between boundaries when it is ASCII, else wherever it is contained."""
    if not token.isascii():
        return lambda text: text.count(token)
    find = re.compile(_word(token)).findall

    def count(text: str) -> int:
        return len(find(text)) if token in text else 0  # `in` is far cheaper, and mostly says no

    return count


def counts_of(counters: Sequence[Count], text: str) -> list[int]:
    """Return how often each token stands in *text* (lower case)."""
    return [count(text) for count in counters]


def together(tokens: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether *tokens* stand one after another in a text of lower case.

    What is no content token may stand between them, as it does in the question they were taken from.
    """
    skipped = "|".join(sorted(STOP_TOKENS))
    no_word = f"[^{WORD}]"
    between = f"{no_word}++(?:(?:{skipped}|[{WORD}]){no_word}++)*+"
    pattern = regex.compile(between.join(_word(token) if token.isascii() else token for token in tokens))
    return lambda text: pattern.search(text) is not None


def _word(token: str) -> str:
    # What stands before is looked at last: a pattern that begins with letters is found six times as fast.
    return f"{token}(?<![a-z0-9]{token}){'(?:s|es)?' if takes_plural(token) else ''}(?![a-z0-9])"
