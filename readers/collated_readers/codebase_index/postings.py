"""The index as arrays: where each of its terms stands, and which chunks define or use a name.

A name is a term in a column of its own, as often as the chunk weighs in the tier `symbol`. Neither
lengths nor totals know of it. This module brings in numpy, so `reader` imports it only when asked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from collated_readers.fts.fulltext import FullText, Pairs, postings_of_all, postings_of_some
from collated_readers.fts.indexed_rows import IndexedRow, IndexedRows, damaged
from collated_readers.postings import Postings

from .names import every_name, key_in, name_term, named
from .places import Place, every_place, places_at
from .vocabulary import has_known_index

__all__ = ["postings_of"]

_NAMES = 2
_INDEX = FullText("fts_chunks", columns=("content", "symbol_names"), width=3, weights=(1, 1, 1))
_COUNTS = "SELECT (SELECT count(*) FROM chunks), (SELECT count(*) FROM fts_chunks_docsize)"
_LENGTHS = "SELECT id, sz FROM fts_chunks_docsize"
_AMONG = " WHERE id IN (SELECT value FROM json_each(?))"


def postings_of(db: sqlite3.Connection, terms: Sequence[bytes] | None) -> Postings | None:
    """Return the instances of *terms*, all for None; None for an index that is not the format's.

    Raises:
        StoreError: `damaged`.
    """
    if not has_known_index(db):
        return None
    if terms is None:
        names = sorted((name_term(key), rows) for key, rows in every_name(db).items())
        extra = [(term, _pairs(rows)) for term, rows in names]
        return postings_of_all(db, _INDEX, _all_chunks(db), extra)
    keys = {term: key_in(term) for term in set(terms)}
    named_here = [(term, _pairs(named(db, key))) for term, key in sorted(keys.items()) if key is not None]
    words = sorted(term for term, key in keys.items() if key is None)
    return postings_of_some(db, _INDEX, words, lambda locators: _among(db, locators), named_here)


def _pairs(weights: Mapping[int, int]) -> Pairs:
    rows = sorted(weights)
    counts = [weights[row] for row in rows]
    pairs = np.empty((sum(counts), 2), np.int64)
    pairs[:, 0] = np.repeat(np.array(rows, np.int64), counts)
    pairs[:, 1] = np.fromiter((_NAMES << 32 | at for count in counts for at in range(count)), np.int64)
    return pairs


def _all_chunks(db: sqlite3.Connection) -> IndexedRows:
    """Return all chunks, of which the index must have one row each."""
    places = every_place(db)
    if db.execute(_COUNTS).fetchone() != (len(places), len(places)):
        raise damaged("the index and the chunks do not belong together")
    return IndexedRows.of(_rows(places, dict(db.execute(_LENGTHS))), _INDEX.width)


def _among(db: sqlite3.Connection, locators: NDArray[np.int64]) -> IndexedRows:
    """Return those of the chunks at *locators* that are there."""
    places = list(places_at(db, locators.tolist()).values())
    sizes = db.execute(_LENGTHS + _AMONG, (json.dumps(locators.tolist()),))
    return IndexedRows.of(_rows(places, dict(sizes)), _INDEX.width)


def _rows(places: Sequence[Place], sizes: Mapping[int, object]) -> list[IndexedRow]:
    return [(place.id, place.path, place.row, sizes.get(place.row)) for place in places]
