"""Reading by id: one section, those around it, the table that it continues, what tells its text."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from itertools import dropwhile, pairwise

from msgspec import Struct

from collated_readers.contract import (
    CONTEXT_LIMITS,
    Neighbours,
    Ranked,
    Reading,
    Record,
    RequestError,
    clamped,
)
from collated_readers.shown import digest_of
from collated_readers.values import Row, integer, optional_text, text

__all__ = ["digests_of", "neighbours_of", "reading_of"]

_COLUMNS = "s.id, d.path, s.heading_path, s.kind, s.text, s.prev_id, s.next_id, s.doc_id, s.ordinal"
_FROM = "FROM sections AS s JOIN documents AS d ON d.doc_id = s.doc_id"
_TEXT = "SELECT text FROM sections WHERE id = ?"
_BY_ID = f"SELECT {_COLUMNS} {_FROM} WHERE s.id = ?"
_ABOVE = f"SELECT {_COLUMNS} {_FROM} WHERE s.doc_id = ? AND s.ordinal < ? ORDER BY s.ordinal DESC LIMIT ?"
_BELOW = f"SELECT {_COLUMNS} {_FROM} WHERE s.doc_id = ? AND s.ordinal > ? ORDER BY s.ordinal LIMIT ?"

# The sections of a table's run, from a given one backwards. UNION drops what was there before, so
# prev_ids that lead in a circle end; without ORDER BY the rows come out as they were found.
_RUN = """
WITH RECURSIVE run(id, prev_id) AS (
  SELECT id, prev_id FROM sections WHERE id = :id
  UNION
  SELECT s.id, s.prev_id FROM run JOIN sections AS s ON s.id = run.prev_id
  WHERE s.kind = 'table' AND s.heading_path = :heading_path
) SELECT id FROM run"""

_SEPARATOR = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*")


class _Section(Struct, frozen=True):
    """A record and where it stands in its document."""

    record: Record
    doc_id: int
    ordinal: int


def reading_of(db: sqlite3.Connection, record_id: str, context: int) -> Reading:
    """Return a section and *context* sections (0..5) on each side, in document order.

    A part of a table that was written without its header gets the header of its table.

    Raises:
        RequestError: `unknown_id`.
        StoreError: `damaged`.
    """
    section = _section(db, record_id)
    count = clamped(context, CONTEXT_LIMITS)
    place = (section.doc_id, section.ordinal, count)
    above = db.execute(_ABOVE, place).fetchall()[::-1] if count else []
    below = db.execute(_BELOW, place).fetchall() if count else []
    around = tuple(_of_row(row).record for row in above + below)
    return Reading(_with_header(db, section.record), around)


def neighbours_of(db: sqlite3.Connection, record_id: str, before: int, after: int) -> Neighbours:
    """Return a section among those that `prev_id` and `next_id` lead to, within its document.

    *before* and *after* are steps, 0..5. `header` is the first section of the table it continues.

    Raises:
        RequestError: `unknown_id`.
        StoreError: `damaged`.
    """
    section = _section(db, record_id)
    seen = {record_id}
    above = _walk(db, section, "prev_id", clamped(before, CONTEXT_LIMITS), seen)
    below = _walk(db, section, "next_id", clamped(after, CONTEXT_LIMITS), seen)
    return Neighbours((*above[::-1], section.record, *below), _first_of_run(db, section.record))


def digests_of(db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
    """Return 16 bytes for each of *ranked*, the same for the same text; none for a record that is gone.

    Raises:
        StoreError: `damaged`.
    """
    rows = (db.execute(_TEXT, (one.id,)).fetchone() for one in ranked)
    return [digest_of(text(row[0])) if row else b"" for row in rows]


def _section(db: sqlite3.Connection, record_id: str) -> _Section:
    section = _find(db, record_id)
    if section is None:
        raise RequestError(
            "unknown_id", f"no section '{record_id}'", "search for it first; ids look like path.md#3"
        )
    return section


def _find(db: sqlite3.Connection, record_id: str) -> _Section | None:
    row: Row | None = db.execute(_BY_ID, (record_id,)).fetchone()
    return None if row is None else _of_row(row)


def _of_row(row: Row) -> _Section:
    record_id, path, heading_path, kind, body, prev_id, next_id, doc_id, ordinal = row
    record = Record(
        id=text(record_id),
        doc=text(path),
        heading_path=text(heading_path),
        kind=text(kind),
        text=text(body),
        prev_id=optional_text(prev_id),
        next_id=optional_text(next_id),
    )
    return _Section(record, integer(doc_id), integer(ordinal))


def _walk(db: sqlite3.Connection, start: _Section, link: str, steps: int, seen: set[str]) -> list[Record]:
    found: list[Record] = []
    following: str | None = getattr(start.record, link)
    while len(found) < steps and following and following not in seen:
        section = _find(db, following)
        if section is None or section.doc_id != start.doc_id:
            break
        seen.add(following)
        found.append(section.record)
        following = getattr(section.record, link)
    return found


def _first_of_run(db: sqlite3.Connection, record: Record) -> Record | None:
    if record.kind != "table":
        return None
    run = db.execute(_RUN, {"id": record.id, "heading_path": record.heading_path}).fetchall()
    first = text(run[-1][0]) if run else record.id
    section = _find(db, first)
    return None if section is None or first == record.id else section.record


def _with_header(db: sqlite3.Connection, record: Record) -> Record:
    first = None if _has_own_header(record.text) else _first_of_run(db, record)
    header = () if first is None else _header_of(first.text.splitlines())
    if not header:
        return record
    return Record(
        id=record.id,
        doc=record.doc,
        heading_path=record.heading_path,
        kind=record.kind,
        text="\n".join((*header, record.text)),
        prev_id=record.prev_id,
        next_id=record.next_id,
    )


def _has_own_header(body: str) -> bool:
    # The first part of a table may stand below its heading, which for the writer ends with a line feed only.
    lines = dropwhile(lambda line: "|" not in line or line.startswith("#"), body.split("\n"))
    return _is_header(next(lines, ""), next(lines, ""))


def _header_of(lines: list[str]) -> tuple[str, ...]:
    return next((pair for pair in pairwise(lines) if _is_header(*pair)), ())


def _is_header(row: str, separator: str) -> bool:
    return "|" in row and "|" in separator and bool(_SEPARATOR.fullmatch(separator))
