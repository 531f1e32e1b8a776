"""What a query asks for: its content tokens, and how long a text is in the same units (retrieve.md §2)."""

from __future__ import annotations

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

__all__ = ["MOST_TOKENS", "STOP_TOKENS", "WORD", "content_tokens", "length_of", "runs_of"]

MOST_TOKENS = 12
_STOP = """
a an and are as at be but by did do does for from had has have how i in is it its of on or that the their
there these this to was we were what when where which who why will with"""
STOP_TOKENS = frozenset(_STOP.split())

WORD = r"\p{Alphabetic}\p{N}"  # what `str.isalnum` lacks are the vowel signs of Indic scripts and Thai
_RUN = regex.compile(f"[{WORD}]+")
_SHORTEST = 2
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ASCII_RUNS = str.maketrans({chr(code): " " for code in range(128) if chr(code) not in _LETTERS})


def runs_of(text: str) -> list[str]:
    """Return the maximal runs of alphanumeric characters of *text*, which is in lower case."""
    if text.isascii():  # ten times as fast
        return text.translate(_ASCII_RUNS).split()
    found: list[str] = _RUN.findall(text)
    return found


def length_of(text: str) -> int:
    """Return how many alphanumeric runs *text* (lower case) has, stop tokens included."""
    return len(runs_of(text))


def content_tokens(query: str) -> tuple[str, ...]:
    """Return the query's content tokens, each once, in order of first occurrence; twelve at most."""
    kept: dict[str, None] = {}
    for run in runs_of(query.lower()):
        if len(run) >= _SHORTEST and run not in STOP_TOKENS:
            kept[run] = None
            if len(kept) == MOST_TOKENS:
                break
    return tuple(kept)
