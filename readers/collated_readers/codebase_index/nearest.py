"""The nearest chunks by the program's metric: L2, the extension's default.

Compared are squares of distances: their order is the same, and they need no root. Each is a sum of 64-bit
numbers in one order of operations, a function of the two vectors alone, so that equal vectors tie.

This module brings in numpy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from collated_readers.contract import RequestError
from collated_readers.opening import StoreConnection
from collated_readers.values import integer

from .places import Place, places_at
from .stored import Batch, invalid_vector

__all__ = ["nearest"]

_KNOWN = "SELECT c.id FROM chunks AS c JOIN files AS f ON f.id = c.file_id"

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


def nearest(
    db: sqlite3.Connection, batches: Iterable[Batch], wanted: Sequence[float], depth: int
) -> list[Place]:
    """Return the places of the *depth* chunks nearest to *wanted*, nearest first, ties by record id.

    Some 24 bytes are held for each chunk.

    Raises:
        RequestError: `query_model_mismatch`: another length; `invalid_query_vector`: not finite.
        StoreError: `invalid_vector`, naming the record; `damaged`, `deadline_exceeded`.
    """
    rows, distances = _distances(db, batches, _asked(wanted))
    is_known = np.isin(rows, np.fromiter(_known(db), np.int64))
    rows, distances = rows[is_known], distances[is_known]
    wrong = rows[~np.isfinite(distances)]
    if len(wrong):
        raise invalid_vector(db, int(wrong.min()), "it holds numbers that are not finite")
    if len(rows) > depth:  # with all that tie with the last
        is_near = distances <= np.partition(distances, depth - 1)[depth - 1]
        rows, distances = rows[is_near], distances[is_near]
    far = dict(zip(rows.tolist(), distances.tolist(), strict=True))
    places = places_at(db, far).values()
    return sorted(places, key=lambda place: (far[place.row], place.id))[:depth]


def _asked(wanted: Sequence[float]) -> Numbers:
    with np.errstate(over="ignore"):
        asked = np.asarray(wanted, np.float64).astype(np.float32)  # what the extension would be given
    if not np.isfinite(asked).all():
        raise RequestError("invalid_query_vector", "the query's vector holds numbers that are not finite")
    return asked.astype(np.float64)


def _known(db: sqlite3.Connection) -> Generator[int, None, None]:
    for (row,) in db.execute(_KNOWN):
        yield integer(row)


def _distances(db: sqlite3.Connection, batches: Iterable[Batch], asked: Numbers) -> tuple[Rows, Numbers]:
    rows: list[Rows] = [np.empty(0, np.int64)]
    distances: list[Numbers] = [np.empty(0)]
    for batch in batches:
        _check_time(db)
        count = batch.vectors.shape[1]
        if count != len(asked):
            if len(rows) > 1:
                what = f"it has {count} numbers, and others have {len(asked)}"
                raise invalid_vector(db, int(batch.rows[0]), what)
            message = f"its vectors have {count} numbers, the query's has {len(asked)}"
            raise RequestError("query_model_mismatch", message)
        rows.append(batch.rows)
        distances.append(_squares(batch.vectors, asked))
    return np.concatenate(rows), np.concatenate(distances)


def _check_time(db: sqlite3.Connection) -> None:
    # SQLite looks at the time after so many steps of its own, and here it makes few.
    if isinstance(db, StoreConnection) and db.budget is not None:
        db.budget.check()


def _squares(vectors: NDArray[np.float32], asked: Numbers) -> Numbers:
    with np.errstate(invalid="ignore", over="ignore"):
        apart = vectors.astype(np.float64)
        apart -= asked
        squares: Numbers = np.square(apart, out=apart).sum(axis=1)
    return squares
