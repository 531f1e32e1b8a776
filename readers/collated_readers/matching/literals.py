"""What the lines that a pattern matches must hold, so that an index of trigrams can narrow a grep. Pure.

Only what is sure counts: a construct that is not known here makes the whole pattern unknown. The
patterns are those of the `regex` module (version 0, `IGNORECASE`), whose letters without regard to
case go beyond ASCII; `fold` takes all of them for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

__all__ = ["fold", "required_literals"]

_SHORTEST_BYTES = 3  # a trigram; less narrows nothing
_DEEPEST = 20  # groups within groups
_LARGEST_REPEATED = 50  # elements: what repeats is written down twice, and repeats may be nested

# The letters outside of ASCII that `regex` takes for one in it: dotted and dotless i, long s, Kelvin.
_LIKE_ASCII = {
    letter.encode(): like for letter, like in {"İ": b"i", "ı": b"i", "ſ": b"s", "\u212a": b"k"}.items()
}

_QUANTIFIER = re.compile(r"(?:[*+?]|\{(?P<least>\d+)(?:,\d*)?\}|\{,\d+\})[+?]?")
_GROUP = re.compile(r"\((?:\?:|\?>|\?P<[A-Za-z_]\w*>|(?!\?))", re.ASCII)
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_SET = re.compile(r"\[\^?(?![\^\]])(?:[^\]\[\\]|\\[dDwWsStnrfva]|\\[^\w])+\]", re.ASCII)
_ONE_OF = re.compile(r"[.^$\]}]|\\[dDwWsSbBAZtnrfva]")  # one of several characters, a place, or white space
_ESCAPED = re.compile(r"\\[^\w]", re.ASCII)

Element = str | None
"""A character that must be there, in lower case; None where anything or nothing may be."""


def fold(text: str) -> bytes:
    """Return *text* as UTF-8 in which letters are alike that a grep without regard to case may take for one.

    Whatever a grep finds in a line, its fold is in the fold of the line.
    """
    folded = text.encode().lower()  # ASCII letters alone, as SQLite's lower() does it
    if not text.isascii():
        for letter, like in _LIKE_ASCII.items():
            folded = folded.replace(letter, like)
    return folded


def required_literals(pattern: str) -> tuple[bytes, ...]:
    """Return strings of 3 bytes and more that the fold of every line holds in which *pattern* is found.

    Empty where none is sure, and for what is no pattern.
    """
    try:
        elements = _Parser(pattern.removeprefix("(?i)")).whole()
    except _Unknown:
        return ()
    runs = [run for run in _runs(elements) if len(run) >= _SHORTEST_BYTES]
    longest = [run for run in runs if not any(run in other and run != other for other in runs)]
    return tuple(dict.fromkeys(longest))


def _runs(elements: Sequence[Element]) -> Iterator[bytes]:
    for is_run, group in groupby(elements, key=lambda element: element is not None):
        if is_run:
            yield "".join(filter(None, group)).encode()


class _Unknown(Exception):
    """The pattern holds something of which it is not known here what it means."""


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> list[Element]:
        """Return the elements of the whole pattern."""
        elements = self._branches()
        if self._at < len(self._pattern):
            raise _Unknown
        return elements

    def _branches(self) -> list[Element]:
        """Read to the end of a group. Of several branches nothing is sure."""
        elements = self._sequence()
        if self._peek() != "|":
            return elements
        while self._peek() == "|":
            self._at += 1
            self._sequence()
        return [None]

    def _sequence(self) -> list[Element]:
        elements: list[Element] = []
        while self._peek() not in ("", "|", ")"):
            elements += self._repeated(self._atom())
        return elements

    def _repeated(self, atom: list[Element]) -> list[Element]:
        found = self._take(_QUANTIFIER)
        if found is None:
            return atom
        if self._peek() in ("*", "+", "?", "{"):
            raise _Unknown
        sign = found[0][0]
        if sign in "*?" or (sign == "{" and int(found["least"] or 0) == 0):
            return [None]
        # The first time follows on what is before, the last one comes before what is after.
        return [*atom, None, *atom] if len(atom) <= _LARGEST_REPEATED else [None, *atom, None]

    def _atom(self) -> list[Element]:
        if self._peek() == "(":
            return self._group()
        if self._take(_ONE_OF) or self._take(_SET):
            return [None]
        escaped = self._take(_ESCAPED)
        character = escaped[0][1] if escaped else self._peek()
        if not escaped:
            if character in "*+?{[\\":
                raise _Unknown
            self._at += 1
        return [character.lower() if character.isascii() else None]

    def _group(self) -> list[Element]:
        is_lookaround = self._take(_LOOKAROUND) is not None
        if not is_lookaround and self._take(_GROUP) is None:
            raise _Unknown
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unknown
        elements = self._branches()
        if self._peek() != ")":
            raise _Unknown
        self._at += 1
        self._depth -= 1
        return [None] if is_lookaround else elements

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._pattern, self._at)
        if found is not None:
            self._at = found.end()
        return found
