"""The rows of the index: whose they are, how long and how many (formats/contextpull.md §4.3)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.contract import StoreError
from collated_readers.values import Row, integer, text

__all__ = ["Sections", "all_sections", "damaged", "sections_among", "totals_of"]

_COUNTS = """
SELECT (SELECT count(*) FROM sections), (SELECT count(*) FROM sections_fts_content),
(SELECT count(*) FROM sections_fts_docsize)"""
_SECTIONS = """
SELECT f.c0, d.path, f.id, z.sz FROM sections_fts_content AS f
JOIN sections_fts_docsize AS z ON z.id = f.id
JOIN sections AS s ON s.id = f.c0 COLLATE BINARY JOIN documents AS d ON d.doc_id = s.doc_id
WHERE {}"""
_AMONG = "f.id IN (SELECT value FROM json_each(?))"
_TOTALS = "SELECT block FROM sections_fts_data WHERE id = 1"


class Sections(Struct, frozen=True):
    """The sections of an index's rows, in id order."""

    ids: list[str]
    docs: list[str]
    locators: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    by_locator: NDArray[np.int64]

    def rows(self, locators: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of *locators*.

        Raises:
            StoreError: `damaged`: one of them is nobody's.
        """
        places = np.searchsorted(self.locators, locators, sorter=self.by_locator)
        rows = self.by_locator.take(places, mode="clip") if len(self.ids) else places
        if len(locators) and not (len(self.ids) and np.array_equal(self.locators[rows], locators)):
            raise damaged("the index holds words of a section that is not there")
        return rows


def all_sections(db: sqlite3.Connection) -> Sections:
    """Return all sections, of which the index must have one row each.

    Raises:
        StoreError: `damaged`.
    """
    sections = _sections(db.execute(_SECTIONS.format("1")).fetchall())
    count = len(sections.ids)
    if db.execute(_COUNTS).fetchone() != (count, count, count):
        raise damaged("the index and the sections do not belong together")
    return sections


def sections_among(db: sqlite3.Connection, locators: NDArray[np.int64]) -> Sections:
    """Return those of the sections at *locators* that are there.

    Raises:
        StoreError: `damaged`.
    """
    return _sections(db.execute(_SECTIONS.format(_AMONG), (json.dumps(locators.tolist()),)).fetchall())


def _sections(found: list[Row]) -> Sections:
    found.sort(key=_id_of)
    ids = [text(record_id) for record_id, *_ in found]
    if len(set(ids)) != len(ids):
        raise damaged("the index holds a section twice")
    paths: dict[str, str] = {}  # one string for all sections of a document
    locators = np.fromiter((integer(row[2]) for row in found), np.int64, len(found))
    return Sections(
        ids=ids,
        docs=[paths.setdefault(text(row[1]), row[1]) for row in found],
        locators=locators,
        lengths=_lengths([row[3] for row in found]),
        by_locator=np.argsort(locators),
    )


def _id_of(row: Row) -> str:
    return text(row[0])


def _lengths(sizes: Sequence[object]) -> NDArray[np.uint32]:
    """Return the sum of the three numbers in each of *sizes*: tokens of the three columns."""
    blobs = [_blob(size) for size in sizes]
    numbers, ends = _varints(b"".join(blobs))
    edges = np.cumsum(np.fromiter(map(len, blobs), np.int64, len(blobs)))
    if not np.array_equal(ends[2::3], edges) or len(numbers) != 3 * len(blobs):
        raise damaged("the index holds the length of a section in no known form")
    lengths: NDArray[np.int64] = numbers.reshape(-1, 3).sum(axis=1)
    if len(lengths) and lengths.max() > np.iinfo(np.uint32).max:
        raise damaged("the index holds a section of an impossible length")
    return lengths.astype(np.uint32)


def totals_of(db: sqlite3.Connection) -> tuple[int, int]:
    """Return rows and tokens of the whole index, which FTS5 keeps as varints: rows, tokens by column."""
    row = db.execute(_TOTALS).fetchone()
    numbers = _varints(_blob(row[0] if row else b""))[0].tolist() or [0, 0, 0, 0]
    if len(numbers) != 4:  # noqa: PLR2004 - rows, and three columns
        raise damaged("the index holds its totals in no known form")
    return numbers[0], sum(numbers[1:])


def _varints(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return SQLite's varints of up to eight bytes, and where each of them ends."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80) + 1  # noqa: PLR2004 - the last byte has no high bit
    starts = np.concatenate(([0], ends))
    sizes = np.diff(starts)
    if starts[-1] != len(octets) or (len(sizes) and sizes.max() > 8):  # noqa: PLR2004 - more is no count
        raise damaged("the index holds a number in no known form")
    if not len(ends):
        return np.empty(0, np.int64), ends
    shifts = 7 * (np.repeat(ends, sizes) - 1 - np.arange(len(octets)))
    return np.add.reduceat((octets & 0x7F).astype(np.int64) << shifts, starts[:-1]), ends


def _blob(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise damaged("the index holds something else where a count should be")


def damaged(what: str) -> StoreError:
    """Return the failure of a store whose index is not sound."""
    return StoreError("damaged", what)
