"""The first line of a text that a grep's pattern matches, whatever the format (store-format: Grep)."""

from __future__ import annotations

import time
from collections.abc import Callable

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

from collated_readers.contract import LONGEST_PATTERN, Budget, Pattern, RequestError

from .literals import fold, required_literals

__all__ = ["TEXT_SECONDS", "FindLine", "line_finder", "needles_of"]

TEXT_SECONDS = 0.25
"""How long a regular expression may look at one text."""

FindLine = Callable[[str], str | None]
"""Gives the first matching line of a text."""


def line_finder(pattern: Pattern, budget: Budget) -> FindLine:
    """Return what finds *pattern* in texts.

    Raises:
        RequestError: `pattern_rejected`, also by what is returned.
        StoreError: `deadline_exceeded`, by what is returned.
    """
    if not 1 <= len(pattern.text) <= LONGEST_PATTERN:
        raise _rejected(f"pattern must be 1–{LONGEST_PATTERN} characters", "narrow the pattern")
    return _regex(pattern.text, budget) if pattern.is_regex else _literal(pattern.text)


def needles_of(pattern: Pattern) -> tuple[bytes, ...]:
    """Return what the fold of every text holds in which *pattern* is found; empty if nothing is sure."""
    if pattern.is_regex:
        return required_literals(pattern.text)
    try:
        return (fold(pattern.text),)
    except UnicodeEncodeError:  # which is in no text at all
        return ()


def _literal(pattern: str) -> FindLine:
    # bytes.lower() changes ASCII letters alone, which is just what SQLite's lower() does.
    needle = pattern.encode().lower()

    def find(body: str) -> str | None:
        return next((line for line in body.splitlines() if needle in line.encode().lower()), None)

    return find


def _regex(pattern: str, budget: Budget) -> FindLine:
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except (regex.error, RecursionError) as error:
        raise _rejected(
            f"pattern does not compile: {error}", "set regex=false for a literal match"
        ) from error

    def find(body: str) -> str | None:
        end = time.monotonic() + TEXT_SECONDS
        for line in body.splitlines():
            left = min(end - time.monotonic(), budget.remaining())
            try:
                if compiled.search(line, timeout=max(left, 1e-6)):
                    return line
            except TimeoutError as error:
                budget.check()
                raise _rejected(
                    "pattern too expensive", "narrow with in= or use a literal pattern"
                ) from error
        return None

    return find


def _rejected(message: str, suggestion: str) -> RequestError:
    return RequestError("pattern_rejected", message, suggestion)
