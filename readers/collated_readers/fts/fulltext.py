"""FTS5 indexes as arrays, whatever the format: where each term stands, and how long the rows are.

The terms are read through fts5vocab, the lengths out of FTS5's own tables (formats/contextpull.md §4.3).
This module brings in numpy, so a reader imports it only when it is first asked.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.contract import StoreError
from collated_readers.postings import COLUMN_SHIFT, Postings

from .indexed_rows import IndexedRows, damaged, totals_of
from .vocabularies import vocabulary_table

__all__ = ["Extra", "FullText", "Pairs", "postings_of_all", "postings_of_some"]

_CHUNK = 1 << 19  # instances that are read or sorted at a time: some 30 MB on the way
_LONGEST_COLUMN = (1 << COLUMN_SHIFT) - 1  # tokens; one less than fits, so that no column follows another
_NO_COLUMN = 255

_TERMS = "SELECT CAST(term AS BLOB), cnt FROM {}"
_INSTANCES = "SELECT doc, CASE col {} ELSE {} END << 32 | offset FROM {}"
_OF_TERM = " WHERE term = CAST(? AS TEXT)"

Pairs = NDArray[np.int64]
"""Instances, one in a row: rowid of the index, column << 32 | offset."""

Extra = Sequence[tuple[bytes, Pairs]]
"""Terms that the index itself does not have, ascending and before all of its own, with their instances."""


class FullText(Struct, frozen=True):
    """An FTS5 table: its name, the columns that have terms, how many it has in all.

    `weights` are those of the columns in bm25, and then those of columns that extra terms alone have.
    """

    table: str
    columns: tuple[str, ...]
    width: int
    weights: tuple[int, ...]


def postings_of_all(
    db: sqlite3.Connection, index: FullText, records: IndexedRows, extra: Extra = ()
) -> Postings:
    """Return the instances of all terms in *records*, which are all that the index has.

    Raises:
        StoreError: `damaged`.
    """
    totals = totals_of(db, index.table, index.width)
    if totals != (len(records.ids), int(records.lengths.sum(dtype=np.int64))):
        raise damaged("the index counts other rows and words than it holds")
    terms, sizes = _terms(db, index)
    if int(sizes.sum()) != totals[1]:
        raise _unequal()
    names = [name for name, _ in extra]
    if names and terms and terms[0] <= names[-1]:
        raise damaged("the index holds a word that none can be")
    starts = _starts(np.concatenate([np.array([len(pairs) for _, pairs in extra], np.int64), sizes]))
    rows, positions = np.empty(int(starts[-1]), np.uint32), np.empty(int(starts[-1]), np.uint32)
    first = int(starts[len(names)])
    rows[:first], positions[:first] = _placed(index, records, _joined([pairs for _, pairs in extra]))
    _read_all(db, index, records, (rows[first:], positions[first:]))
    _sort(rows, positions, starts)
    return _postings(index, records, totals, _Instances([*names, *terms], starts, rows, positions))


def postings_of_some(
    db: sqlite3.Connection,
    index: FullText,
    terms: Sequence[bytes],
    among: Callable[[NDArray[np.int64]], IndexedRows],
    extra: Extra = (),
) -> Postings:
    """Return the instances of *terms*, ascending, in what *among* makes of the row ids that have any.

    Raises:
        StoreError: `damaged`.
    """
    sql = _instances(db, index) + _OF_TERM
    found = [(term, _pairs(chain.from_iterable(db.execute(sql, (term,))))) for term in terms]
    every = [(term, pairs) for term, pairs in (*extra, *found) if len(pairs)]
    pairs = _joined([pairs for _, pairs in every])
    records = among(np.unique(pairs[:, 0]))
    starts = _starts(np.array([len(pairs) for _, pairs in every], np.int64))
    placed = _placed(index, records, pairs)
    _sort(*placed, starts)
    totals = totals_of(db, index.table, index.width)
    return _postings(index, records, totals, _Instances([term for term, _ in every], starts, *placed))


class _Instances(Struct, frozen=True, eq=False):
    """Terms, and where their instances are: see `Postings`."""

    terms: list[bytes]
    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    positions: NDArray[np.uint32]


def _postings(index: FullText, records: IndexedRows, totals: tuple[int, int], found: _Instances) -> Postings:
    return Postings(
        ids=records.ids,
        docs=records.docs,
        locators=records.locators,
        lengths=records.lengths,
        total_rows=totals[0],
        total_tokens=totals[1],
        weights=index.weights,
        terms=found.terms,
        starts=found.starts,
        rows=found.rows,
        positions=found.positions,
    )


# --------------------------------------------------------------------------- instances


def _terms(db: sqlite3.Connection, index: FullText) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return all terms, ascending, and the number of instances of each."""
    terms: list[bytes] = []
    sizes: array[int] = array("q")
    for term, size in db.execute(_TERMS.format(vocabulary_table(db, index.table, "row"))):
        terms.append(term)
        sizes.append(size)
    return terms, np.fromiter(sizes, np.int64, len(sizes))


def _instances(db: sqlite3.Connection, index: FullText) -> str:
    cases = " ".join(f"WHEN '{column}' THEN {number}" for number, column in enumerate(index.columns))
    return _INSTANCES.format(cases, _NO_COLUMN, vocabulary_table(db, index.table, "instance"))


def _read_all(
    db: sqlite3.Connection,
    index: FullText,
    records: IndexedRows,
    into: tuple[NDArray[np.uint32], NDArray[np.uint32]],
) -> None:
    rows, positions = into
    with closing(db.execute(_instances(db, index))) as cursor:
        stream: Iterator[int] = chain.from_iterable(cursor)
        for first in range(0, len(rows), _CHUNK):
            part = slice(first, min(len(rows), first + _CHUNK))
            found = _placed(index, records, _pairs(islice(stream, 2 * (part.stop - first))))
            if len(found[0]) != part.stop - first:
                raise _unequal()
            rows[part], positions[part] = found
        if next(stream, None) is not None:
            raise _unequal()


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _pairs(numbers: Iterable[int]) -> Pairs:
    return np.fromiter(numbers, np.int64).reshape(-1, 2)


def _joined(every: Sequence[Pairs]) -> Pairs:
    return np.concatenate([np.empty((0, 2), np.int64), *every])


def _placed(
    index: FullText, records: IndexedRows, pairs: Pairs
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return rows and positions of *pairs*, in their order."""
    rows = records.rows(pairs[:, 0])
    columns, offsets = pairs[:, 1] >> 32, pairs[:, 1] & 0xFFFF_FFFF
    if len(pairs) and (columns.max() >= len(index.weights) or offsets.max() >= _LONGEST_COLUMN):
        raise damaged("the index holds a word where none can be")
    return rows.astype(np.uint32), (columns << COLUMN_SHIFT | offsets).astype(np.uint32)


def _sort(rows: NDArray[np.uint32], positions: NDArray[np.uint32], starts: NDArray[np.int64]) -> None:
    """Sort each term's instances by row; those of a row are in the order of positions already."""
    for first, last in _runs(starts):
        part = slice(int(starts[first]), int(starts[last]))
        terms = np.repeat(np.arange(last - first, dtype=np.int64), np.diff(starts[first : last + 1]))
        order = np.argsort(terms << 32 | rows[part], kind="stable")
        rows[part], positions[part] = rows[part][order], positions[part][order]


def _runs(starts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of whole terms of at most `_CHUNK` instances, or of one term."""
    first, count = 0, len(starts) - 1
    while first < count:
        last = int(np.searchsorted(starts, int(starts[first]) + _CHUNK, "right")) - 1
        last = max(first + 1, last)
        yield first, last
        first = last


def _unequal() -> StoreError:
    return damaged("the index holds other words than it counts")
