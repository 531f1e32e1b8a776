"""The index as arrays: where each of its terms stands (formats/contextpull.md §4.3).

This module brings in numpy, so `reader` imports it only when it is first asked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from collated_readers.fts.fulltext import FullText, postings_of_all, postings_of_some
from collated_readers.fts.indexed_rows import IndexedRow, IndexedRows, damaged
from collated_readers.postings import Postings
from collated_readers.values import Row, integer, text

from .vocabulary import has_known_index

__all__ = ["postings_of"]

_INDEX = FullText("sections_fts", columns=("heading_path", "text"), width=3, weights=(2, 1))
_COUNTS = """
SELECT (SELECT count(*) FROM sections), (SELECT count(*) FROM sections_fts_content),
(SELECT count(*) FROM sections_fts_docsize)"""
_SECTIONS = """
SELECT f.c0, d.path, f.id, z.sz FROM sections_fts_content AS f
JOIN sections_fts_docsize AS z ON z.id = f.id
JOIN sections AS s ON s.id = f.c0 COLLATE BINARY JOIN documents AS d ON d.doc_id = s.doc_id
WHERE {}"""
_AMONG = "f.id IN (SELECT value FROM json_each(?))"


def postings_of(db: sqlite3.Connection, terms: Sequence[bytes] | None) -> Postings | None:
    """Return the instances of *terms*, all for None; None for an index that is not the format's.

    Raises:
        StoreError: `damaged`.
    """
    if not has_known_index(db):
        return None
    if terms is None:
        return postings_of_all(db, _INDEX, _all_sections(db))
    return postings_of_some(db, _INDEX, sorted(set(terms)), lambda locators: _among(db, locators))


def _all_sections(db: sqlite3.Connection) -> IndexedRows:
    """Return all sections, of which the index must have one row each."""
    sections = _sections(db.execute(_SECTIONS.format("1")))
    count = len(sections.ids)
    if db.execute(_COUNTS).fetchone() != (count, count, count):
        raise damaged("the index and the sections do not belong together")
    return sections


def _among(db: sqlite3.Connection, locators: NDArray[np.int64]) -> IndexedRows:
    """Return those of the sections at *locators* that are there."""
    return _sections(db.execute(_SECTIONS.format(_AMONG), (json.dumps(locators.tolist()),)))


def _sections(found: Iterable[Row]) -> IndexedRows:
    return IndexedRows.of(_checked(found), _INDEX.width)


def _checked(found: Iterable[Row]) -> Iterator[IndexedRow]:
    for record_id, path, row, sizes in found:
        yield text(record_id), text(path), integer(row), sizes
