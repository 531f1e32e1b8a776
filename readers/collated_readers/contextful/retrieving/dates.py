"""When a row was published, and whether that is in the timeframe of a question (retrieve.md §10). Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from collated_readers.codes import RequestError
from collated_readers.contextful.instants import parse_instant

__all__ = ["NULL", "UNCASTABLE", "Timeframe", "instant_of", "published", "since_of"]

NULL = "null"
UNCASTABLE = "uncastable"
_TOLERANCE_NS = 24 * 3_600 * 1_000_000_000
_DATE_LENGTH = len("2030-01-31")


class Timeframe(Struct, frozen=True):
    """What a question is about: from *since* on, None for all times; it is asked at *anchor*."""

    since: int | None
    anchor: int

    def admits(self, at: int | None) -> bool:
        """Tell whether what was published *at* is in; unknown (None) is in only where nothing was asked."""
        if self.since is None:
            return True
        return at is not None and self.since <= at <= self.anchor + _TOLERANCE_NS


def instant_of(text: str) -> int | None:
    """Return the instant that *text* writes, or the start of its day in UTC; None for anything else."""
    text = text.strip()
    try:
        return parse_instant(f"{text}T00:00:00Z" if len(text) == _DATE_LENGTH else text)
    except ValueError:
        return None


def published(cell: Any, column: str) -> tuple[int | None, str]:
    """Return when a row was published, by the JSON of its cell of *column*, and what that says so."""
    if cell is None:
        return None, NULL
    at = instant_of(cell) if isinstance(cell, str) else None
    return at, UNCASTABLE if at is None else column


def since_of(text: str | None) -> int | None:
    """Return the lower bound that a caller writes, itself included; a day begins at midnight in UTC.

    Raises:
        RequestError: `invalid_params`.
    """
    at = None if text is None else instant_of(text)
    if text is not None and at is None:
        raise RequestError("invalid_params", f"since is no instant with an offset and no date: {text!r:.100}")
    return at
