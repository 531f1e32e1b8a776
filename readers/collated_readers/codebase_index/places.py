"""Records by their place: `PATH:START-END`, since a store's row ids change with every rebuild (T3).

Chunks of the same lines are told apart by `#2`, `#3` …: the file's own text first, then in the order in
which the program cut them. `PATH:LINE` names a record too: what stands at that line.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby

from msgspec import Struct

from collated_readers.contract import RequestError, StoreError, clamped
from collated_readers.values import Row, integer, optional_text, text

__all__ = [
    "IN_FILTER",
    "Place",
    "every_place",
    "line_of",
    "place_of",
    "places_at",
    "record_id_of",
    "row_at",
    "row_of",
]

IN_FILTER = "f.id IN (SELECT x.id FROM json_each(?) AS entry JOIN files AS x ON x.path GLOB entry.value)"
"""One scan of files for all entries of a path filter."""

# The last column counts the chunks of the same lines up to this one.
_AT = """
SELECT c.id, f.path, c.line_start, c.line_end, c.kind, (
SELECT count(*) FROM chunks AS o WHERE o.file_id = c.file_id AND o.line_start = c.line_start
AND o.line_end = c.line_end AND (o.kind IS 'doc', o.id) <= (c.kind IS 'doc', c.id))
FROM chunks AS c JOIN files AS f ON f.id = c.file_id WHERE c.id IN (SELECT value FROM json_each(?))"""
_EVERY = """
SELECT c.id, f.path, c.line_start, c.line_end, c.kind, f.id
FROM chunks AS c JOIN files AS f ON f.id = c.file_id
WHERE {} ORDER BY f.id, c.line_start, c.line_end, c.kind IS 'doc', c.id"""
_ROW = """
SELECT c.id FROM chunks AS c JOIN files AS f ON f.id = c.file_id
WHERE f.path = ? AND c.line_start = ? AND c.line_end = ? ORDER BY c.kind IS 'doc', c.id LIMIT 1 OFFSET ?"""

# `doc` chunks are made up of pieces of the file; their lines say little about their text.
_AT_LINE = """
SELECT c.id FROM chunks AS c JOIN files AS f ON f.id = c.file_id
WHERE f.path = :path AND c.kind IS NOT 'doc' AND c.line_start <= :line AND c.line_end >= :line
ORDER BY c.line_end - c.line_start, c.line_start, c.id LIMIT 1"""

_ID = re.compile(r"(.*):(\d{1,10})-(\d{1,10})(?:#([1-9]\d{0,9}))?", re.DOTALL | re.ASCII)
_LINE = re.compile(r"(.*):([1-9]\d{0,9})", re.DOTALL | re.ASCII)
_LAST_LINE = 2**31
_DERIVED = "doc"


class Place(Struct, frozen=True, gc=False):
    """Where a chunk is; `number` counts those of the same lines, from 1.

    `row` is its row id, good within one snapshot of the store only.
    """

    row: int
    path: str
    line_start: int
    line_end: int
    kind: str
    number: int = 1

    @property
    def id(self) -> str:
        """Return the record's id."""
        return record_id_of(self.path, self.line_start, self.line_end, self.number)

    @property
    def is_derived(self) -> bool:
        """Tell whether the text was made up of pieces of the file, rather than cut out of it."""
        return self.kind == _DERIVED


def record_id_of(path: str, line_start: int, line_end: int, number: int = 1) -> str:
    """Return the id of the chunk that is the *number*-th of these lines. Pure."""
    return f"{path}:{line_start}-{line_end}" + (f"#{number}" if number > 1 else "")


def places_at(db: sqlite3.Connection, rows: Iterable[int]) -> dict[int, Place]:
    """Return the places of the chunks with these row ids, as far as they and their files are there.

    Raises:
        StoreError: `damaged`.
    """
    found = db.execute(_AT, (json.dumps(list(rows)),)).fetchall()
    return {integer(each[0]): _place(each[:5], integer(each[5])) for each in found}


def place_of(db: sqlite3.Connection, record_id: str) -> Place:
    """Return the place that *record_id* names, by its lines or by one of them.

    Raises:
        RequestError: `unknown_id`.
        StoreError: `damaged`.
    """
    row = row_of(db, record_id)
    if row is None and (found := _LINE.fullmatch(record_id)):
        row = row_at(db, found[1], int(found[2]))
    place = None if row is None else places_at(db, [row]).get(row)
    if place is None:
        raise RequestError(
            "unknown_id",
            f"no chunk '{record_id:.200}'",
            "search for it first; ids look like path.py:10-24, and path.py:12 is the text at that line",
        )
    return place


def row_of(db: sqlite3.Connection, record_id: str) -> int | None:
    """Return the row id of the chunk that *record_id* names, None if there is none."""
    found = _ID.fullmatch(record_id)
    if found is None or found[0] != record_id_of(found[1], int(found[2]), int(found[3]), int(found[4] or 1)):
        return None
    arguments = (found[1], int(found[2]), int(found[3]), int(found[4] or 1) - 1)
    try:
        row = db.execute(_ROW, arguments).fetchone()
    except UnicodeEncodeError:  # which is in no path at all
        return None
    return None if row is None else integer(row[0])


def row_at(db: sqlite3.Connection, path: str, line: int) -> int | None:
    """Return the row id of the smallest chunk of the file's own text around *line*, None if there is none."""
    try:
        row = db.execute(_AT_LINE, {"path": path, "line": clamped(line, (0, _LAST_LINE))}).fetchone()
    except UnicodeEncodeError:  # which is in no path at all
        return None
    return None if row is None else integer(row[0])


def every_place(db: sqlite3.Connection, within: str | None = None) -> list[Place]:
    """Return the places of all chunks that pass the filter, by id.

    Raises:
        StoreError: `damaged`.
    """
    condition, arguments = ("1", []) if within is None else (IN_FILTER, [within])
    with closing(db.execute(_EVERY.format(condition), arguments)) as rows:
        return sorted(_numbered(rows), key=lambda place: place.id)


def _numbered(rows: Iterable[Row]) -> Iterator[Place]:
    paths: dict[str, str] = {}  # one string for all chunks of a file
    for (_, start, end), group in groupby(rows, key=lambda row: (row[5], row[2], row[3])):
        for number, (row, path, _, _, kind, _) in enumerate(group, start=1):
            yield _place((row, paths.setdefault(text(path), path), start, end, kind), number)


def _place(columns: Sequence[object], number: int) -> Place:
    row, path, start, end, kind = columns
    return Place(
        row=integer(row),
        path=text(path),
        line_start=line_of(start),
        line_end=line_of(end),
        kind=optional_text(kind) or "window",
        number=number,
    )


def line_of(value: object) -> int:
    """Return *value* if it is the number of a line.

    Raises:
        StoreError: `damaged`.
    """
    number = integer(value)
    if not 0 <= number < _LAST_LINE:
        raise StoreError("damaged", f"the store has a chunk at line {number}")
    return number
