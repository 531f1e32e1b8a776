"""Grep: the first matching line of each chunk of the files' own text, in id order.

Derived chunks (`doc`) hold what stands nowhere in a file like that, so they are not looked at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from collated_readers.contract import Budget, Match, Matches, Pattern
from collated_readers.matching.lines import line_finder
from collated_readers.matching.literals import fold
from collated_readers.matching.within import filter_argument
from collated_readers.secrets import redacted
from collated_readers.values import optional_text, text

from .bodies import LONGEST
from .places import Place, every_place, places_at, row_of

__all__ = ["matches_of", "texts_of"]

# A plain pattern is looked for by SQLite, which hands out what has it only; the last column is for a hit.
_TEXT = """
SELECT c.content, coalesce(s.qualified, s.name) FROM chunks AS c
LEFT JOIN symbols AS s ON s.id = c.symbol_id AND s.file_id = c.file_id
WHERE c.id = ? AND (? IS NULL OR instr(lower(c.content), lower(?)) > 0)"""
_CONTENT = "SELECT content FROM chunks WHERE id = ?"


def matches_of(db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
    """Return the first matching line of each chunk that has one, up to the limit.

    Raises:
        RequestError: `pattern_rejected`, `invalid_params` (path filter).
        StoreError: `deadline_exceeded`, `damaged`.
    """
    find_line = line_finder(pattern, budget)
    wanted = None if pattern.is_regex else pattern.text
    found: list[Match] = []
    for place in _candidates(db, pattern):
        budget.check()
        for body, name in db.execute(_TEXT, (place.row, wanted, wanted)).fetchall():
            line = find_line(text(body))
            if line is None:
                continue
            if len(found) == pattern.limit:
                return Matches(tuple(found), is_truncated=True)
            found.append(_match(place, body, line, optional_text(name) or ""))
    return Matches(tuple(found))


def _candidates(db: sqlite3.Connection, pattern: Pattern) -> Sequence[Place]:
    within = filter_argument(pattern.within)
    if pattern.among is None or within is not None:
        among = None if pattern.among is None else set(pattern.among)
        every = every_place(db, within)
    else:
        among = set(pattern.among)
        rows = [row for row in (row_of(db, record_id) for record_id in among) if row is not None]
        every = sorted(places_at(db, rows).values(), key=lambda place: place.id)
    return [place for place in every if not place.is_derived and (among is None or place.id in among)]


def _match(place: Place, body: str, line: str, name: str) -> Match:
    lines = body.splitlines()
    shown = redacted(body).splitlines() if len(body) <= LONGEST else []
    at = lines.index(line)  # the first line that matches is the first of those that are like it
    # A line of a private key is known for one only among the others.
    is_parallel = len(lines) == len(shown)
    return Match(
        id=place.id,
        doc=place.path,
        heading_path=redacted(name),
        line=(shown[at] if is_parallel else redacted(line)).strip(),
        line_number=place.line_start + at,
    )


def texts_of(db: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    """Yield each chunk's id and folded text, in id order; nothing for derived text, which no grep finds.

    Raises:
        StoreError: `damaged`.
    """
    for place in every_place(db):
        row = None if place.is_derived else db.execute(_CONTENT, (place.row,)).fetchone()
        yield place.id, fold(text(row[0])) if row else b""
