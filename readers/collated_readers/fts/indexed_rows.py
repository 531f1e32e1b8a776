"""The rows of an FTS5 index: whose they are, how long and how many (formats/contextpull.md §4.3)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.contract import StoreError

__all__ = ["IndexedRow", "IndexedRows", "damaged", "totals_of"]

_TOTALS = "SELECT block FROM {}_data WHERE id = 1"

IndexedRow = tuple[str, str, int, object]
"""A record's id, its document's path, its rowid in the index, its columns' lengths as FTS5 keeps them."""


class IndexedRows(Struct, frozen=True):
    """The records of an index's rows, in id order."""

    ids: list[str]
    docs: list[str]
    locators: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    by_locator: NDArray[np.int64]

    @classmethod
    def of(cls, found: Iterable[IndexedRow], width: int) -> IndexedRows:
        """Return what was *found*; the index has *width* columns.

        Raises:
            StoreError: `damaged`.
        """
        ordered = sorted(found, key=lambda row: row[0])
        ids = [row[0] for row in ordered]
        if len(set(ids)) != len(ids):
            raise damaged("the index holds a record twice")
        paths: dict[str, str] = {}  # one string for all records of a document
        locators = np.fromiter((row[2] for row in ordered), np.int64, len(ordered))
        return cls(
            ids=ids,
            docs=[paths.setdefault(row[1], row[1]) for row in ordered],
            locators=locators,
            lengths=_lengths([row[3] for row in ordered], width),
            by_locator=np.argsort(locators),
        )

    def rows(self, locators: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of *locators*.

        Raises:
            StoreError: `damaged`: one of them is nobody's.
        """
        places = np.searchsorted(self.locators, locators, sorter=self.by_locator)
        rows = self.by_locator.take(places, mode="clip") if len(self.ids) else places
        if len(locators) and not (len(self.ids) and np.array_equal(self.locators[rows], locators)):
            raise damaged("the index holds words of a record that is not there")
        return rows


def _lengths(sizes: Sequence[object], width: int) -> NDArray[np.uint32]:
    """Return the sum of the *width* numbers in each of *sizes*: the tokens of each column."""
    blobs = [_blob(size) for size in sizes]
    numbers, ends = _varints(b"".join(blobs))
    edges = np.cumsum(np.fromiter(map(len, blobs), np.int64, len(blobs)))
    if not np.array_equal(ends[width - 1 :: width], edges) or len(numbers) != width * len(blobs):
        raise damaged("the index holds the length of a record in no known form")
    lengths: NDArray[np.int64] = numbers.reshape(-1, width).sum(axis=1)
    if len(lengths) and lengths.max() > np.iinfo(np.uint32).max:
        raise damaged("the index holds a record of an impossible length")
    return lengths.astype(np.uint32)


def totals_of(db: sqlite3.Connection, table: str, width: int) -> tuple[int, int]:
    """Return rows and tokens of the whole index, which FTS5 keeps as varints: rows, tokens by column.

    Raises:
        StoreError: `damaged`.
    """
    row = db.execute(_TOTALS.format(table)).fetchone()
    numbers = _varints(_blob(row[0] if row else b""))[0].tolist() or [0] * (width + 1)
    if len(numbers) != width + 1:
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
