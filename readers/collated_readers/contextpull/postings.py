"""The index as arrays: where each of its terms stands (formats/contextpull.md §4.3).

This module brings in numpy, so `reader` imports it only when it is first asked.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from collated_readers.contract import StoreError
from collated_readers.postings import COLUMN_SHIFT, Postings

from .indexed import Sections, all_sections, damaged, sections_among, totals_of
from .vocabulary import has_known_index, vocabulary_table

__all__ = ["postings_of"]

_WEIGHTS = (2, 1)  # of heading_path and text
_CHUNK = 1 << 19  # instances that are read or sorted at a time: some 30 MB on the way
_LONGEST_COLUMN = (1 << COLUMN_SHIFT) - 1  # tokens; one less than fits, so that no column follows another

_TERMS = "SELECT CAST(term AS BLOB), cnt FROM {}"
_INSTANCES = """
SELECT doc, CASE col WHEN 'heading_path' THEN 0 WHEN 'text' THEN 1 ELSE 2 END << 32 | offset FROM {}"""
_OF_TERM = _INSTANCES + " WHERE term = CAST(? AS TEXT)"

Pairs = NDArray[np.int64]
"""Instances as fts5vocab gives them, one in a row: rowid of the index, column << 32 | offset."""


def postings_of(db: sqlite3.Connection, terms: Sequence[bytes] | None) -> Postings | None:
    """Return the instances of *terms*, all for None; None for an index that is not the format's.

    Raises:
        StoreError: `damaged`.
    """
    if not has_known_index(db):
        return None
    return _all(db) if terms is None else _some(db, sorted(set(terms)))


def _all(db: sqlite3.Connection) -> Postings:
    sections, totals = all_sections(db), totals_of(db)
    if totals != (len(sections.ids), int(sections.lengths.sum(dtype=np.int64))):
        raise damaged("the index counts other rows and words than it holds")
    terms, sizes = _terms(db)
    starts = _starts(sizes)
    count = int(starts[-1])
    if count != totals[1]:
        raise _unequal()
    rows, positions = np.empty(count, np.uint32), np.empty(count, np.uint32)
    with closing(db.execute(_INSTANCES.format(vocabulary_table(db, "instance")))) as cursor:
        stream: Iterator[int] = chain.from_iterable(cursor)
        for first in range(0, count, _CHUNK):
            part = slice(first, min(count, first + _CHUNK))
            found = _placed(sections, _pairs(islice(stream, 2 * (part.stop - first))))
            if len(found[0]) != part.stop - first:
                raise _unequal()
            rows[part], positions[part] = found
        if next(stream, None) is not None:
            raise _unequal()
    _sort(rows, positions, starts)
    return _postings(sections, totals, terms=terms, starts=starts, found=(rows, positions))


def _some(db: sqlite3.Connection, terms: Sequence[bytes]) -> Postings:
    sql = _OF_TERM.format(vocabulary_table(db, "instance"))
    every = [_pairs(chain.from_iterable(db.execute(sql, (term,)))) for term in terms]
    pairs = np.concatenate([np.empty((0, 2), np.int64), *every])
    sections = sections_among(db, np.unique(pairs[:, 0]))
    sizes = np.fromiter(map(len, every), np.int64, len(every))
    starts = _starts(sizes[sizes > 0])
    found = _placed(sections, pairs)
    _sort(*found, starts)
    names = [term for term, size in zip(terms, sizes, strict=True) if size]
    return _postings(sections, totals_of(db), terms=names, starts=starts, found=found)


def _postings(
    sections: Sections,
    totals: tuple[int, int],
    *,
    terms: list[bytes],
    starts: NDArray[np.int64],
    found: tuple[NDArray[np.uint32], NDArray[np.uint32]],
) -> Postings:
    return Postings(
        ids=sections.ids,
        docs=sections.docs,
        locators=sections.locators,
        lengths=sections.lengths,
        total_rows=totals[0],
        total_tokens=totals[1],
        weights=_WEIGHTS,
        terms=terms,
        starts=starts,
        rows=found[0],
        positions=found[1],
    )


# --------------------------------------------------------------------------- instances


def _terms(db: sqlite3.Connection) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return all terms, ascending, and the number of instances of each."""
    terms: list[bytes] = []
    sizes: array[int] = array("q")
    for term, size in db.execute(_TERMS.format(vocabulary_table(db, "row"))):
        terms.append(term)
        sizes.append(size)
    return terms, np.fromiter(sizes, np.int64, len(sizes))


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _pairs(numbers: Iterable[int]) -> Pairs:
    return np.fromiter(numbers, np.int64).reshape(-1, 2)


def _placed(sections: Sections, pairs: Pairs) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return rows and positions of *pairs*, in their order."""
    rows = sections.rows(pairs[:, 0])
    columns, offsets = pairs[:, 1] >> 32, pairs[:, 1] & 0xFFFF_FFFF
    if len(pairs) and (columns.max() >= len(_WEIGHTS) or offsets.max() >= _LONGEST_COLUMN):
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
