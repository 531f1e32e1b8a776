"""Reading by id: one chunk, and those of the file's own text around it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from collated_readers.contract import CONTEXT_LIMITS, Neighbours, Reading, Record, clamped
from collated_readers.secrets import redacted
from collated_readers.values import integer, optional_text

from .bodies import whole
from .places import Place, place_of, places_at

__all__ = ["neighbours_of", "reading_of"]

_TEXT = """
SELECT c.content, coalesce(s.qualified, s.name) FROM chunks AS c
LEFT JOIN symbols AS s ON s.id = c.symbol_id AND s.file_id = c.file_id WHERE c.id = ?"""
_ABOVE = """
SELECT c.id FROM chunks AS c JOIN files AS f ON f.id = c.file_id WHERE f.path = ? AND c.kind IS NOT 'doc'
AND (c.line_start, c.line_end, c.id) < (?, ?, ?)
ORDER BY c.line_start DESC, c.line_end DESC, c.id DESC LIMIT ?"""
_BELOW = """
SELECT c.id FROM chunks AS c JOIN files AS f ON f.id = c.file_id WHERE f.path = ? AND c.kind IS NOT 'doc'
AND (c.line_start, c.line_end, c.id) > (?, ?, ?)
ORDER BY c.line_start, c.line_end, c.id LIMIT ?"""


def reading_of(db: sqlite3.Connection, record_id: str, context: int) -> Reading:
    """Return a chunk and *context* chunks (0..5) of the file's own text on each side, in line order.

    Raises:
        RequestError: `unknown_id`.
        StoreError: `damaged`.
    """
    place = place_of(db, record_id)
    count = clamped(context, CONTEXT_LIMITS)
    around = (*_near(db, _ABOVE, place, count)[::-1], *_near(db, _BELOW, place, count))
    return Reading(_record(db, place), tuple(_record(db, each) for each in around))


def neighbours_of(db: sqlite3.Connection, record_id: str, before: int, after: int) -> Neighbours:
    """Return a chunk among those before and after it (0..5 each), in line order.

    Raises:
        RequestError: `unknown_id`.
        StoreError: `damaged`.
    """
    place = place_of(db, record_id)
    above = _near(db, _ABOVE, place, clamped(before, CONTEXT_LIMITS))[::-1]
    below = _near(db, _BELOW, place, clamped(after, CONTEXT_LIMITS))
    return Neighbours(tuple(_record(db, each) for each in (*above, place, *below)))


def _near(db: sqlite3.Connection, sql: str, place: Place, count: int) -> Sequence[Place]:
    """Return the nearest *count* chunks on one side, nearest first."""
    if not count:
        return ()
    found = db.execute(sql, (place.path, place.line_start, place.line_end, place.row, count)).fetchall()
    rows = [integer(row) for (row,) in found]
    places = places_at(db, rows)
    return [places[row] for row in rows if row in places]


def _record(db: sqlite3.Connection, place: Place) -> Record:
    body, name = db.execute(_TEXT, (place.row,)).fetchone()
    above, below = _near(db, _ABOVE, place, 1), _near(db, _BELOW, place, 1)
    return Record(
        id=place.id,
        doc=place.path,
        heading_path=redacted(optional_text(name) or ""),
        kind=place.kind,
        text=whole(body),
        prev_id=above[0].id if above else None,
        next_id=below[0].id if below else None,
    )
