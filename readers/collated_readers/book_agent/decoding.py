"""Vectors out of a store, in batches, each number looked at (formats/book-agent.md E3, E8–E10, L10).

This module brings in numpy, so import it only when vectors are needed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.contract import Budget, StoreError

from .ids import NativeId, checked_id
from .layout import Columns, Layout, quoted
from .passages import bounded_id, named
from .texts import Undecodable

__all__ = [
    "Batch",
    "Matrix",
    "batches",
    "item_bytes",
    "matrix_of",
    "row_bytes",
    "selected_vector",
    "squared_norms",
]

Matrix = NDArray[Any]
"""One vector in each row, float32 or float64 as they are stored."""

_JSON_NUMBER = 64  # characters that a number may take, white space included
_JSON_ITEM_BYTES = 8
_ID_TYPES = {int, float, str, bytes}


class Batch(Struct, frozen=True):
    """The ids and vectors of some records; `squares` are the vectors' squared lengths, about."""

    ids: Sequence[NativeId]
    vectors: Matrix
    squares: NDArray[np.float64]


def item_bytes(layout: Layout) -> int:
    """Return the bytes of a number in memory."""
    return _JSON_ITEM_BYTES if layout.encoding == "json" else int(layout.encoding[-1])


def row_bytes(layout: Layout) -> int:
    """Return the bytes that a vector may take while a batch is read: as it is stored, and as numbers."""
    numbers = item_bytes(layout) * layout.dimensions
    return numbers + (_longest_json(layout) if layout.encoding == "json" else numbers)


def _longest_json(layout: Layout) -> int:
    return _JSON_NUMBER * (layout.dimensions + 1)


def selected_vector(layout: Layout) -> str:
    """Return the vector for SELECT; what is not of the right type and size is told, and not fetched."""
    name = quoted(layout.columns.vector)
    told = f"typeof({name}) || ' of length ' || coalesce(length({name}), 0)"
    if layout.encoding == "json":
        fits = f"typeof({name}) = 'text' AND length({name}) <= {_longest_json(layout)}"
        told = f"CAST({told} AS BLOB)"
    else:
        fits = f"typeof({name}) = 'blob' AND length({name}) = {item_bytes(layout) * layout.dimensions}"
    return f"CASE WHEN {fits} THEN {name} ELSE {told} END"


def batches(
    db: sqlite3.Connection, layout: Layout, rows: int, budget: Budget
) -> Generator[Batch, None, None]:
    """Yield all records, up to *rows* at a time, in the order in which they are stored.

    Raises:
        StoreError: `invalid_vector`, `invalid_record_id`, `invalid_text_encoding`, `deadline_exceeded`.
    """
    columns = layout.columns
    sql = f"SELECT {bounded_id(columns)}, {selected_vector(layout)} FROM {quoted(columns.table)}"  # noqa: S608 - quoted
    with closing(db.execute(sql)) as cursor:
        while found := cursor.fetchmany(rows):
            budget.check()
            ids, vectors = zip(*found, strict=True)
            del found
            if not _ID_TYPES.issuperset(map(type, ids)):
                _check_ids(ids, columns)
            matrix = matrix_of(layout, ids, vectors)
            del vectors
            yield Batch(ids, matrix, squared_norms(matrix, ids))


def _check_ids(ids: Sequence[object], columns: Columns) -> None:
    for each in ids:
        checked_id(each, f"a record of {columns.table!r:.80}")


def matrix_of(layout: Layout, ids: Sequence[object], vectors: Sequence[object]) -> Matrix:
    """Return vectors as `selected_vector` gave them, as an array.

    Raises:
        StoreError: `invalid_vector`, naming the record.
    """
    if layout.encoding == "json":
        return _of_json(layout, ids, vectors)
    try:
        joined = b"".join(vectors)  # type: ignore[arg-type]  # what is not bytes is found so
    except TypeError:
        for record_id, vector in zip(ids, vectors, strict=True):
            if not isinstance(vector, bytes):
                raise _invalid(record_id, f"{_wanted(layout)}, and is {_told(vector)}") from None
        raise
    matrix = np.frombuffer(joined, layout.encoding).reshape(len(ids), layout.dimensions)
    return matrix.astype(matrix.dtype.newbyteorder("="), copy=False)


def _of_json(layout: Layout, ids: Sequence[object], vectors: Sequence[object]) -> Matrix:
    matrix = np.empty((len(ids), layout.dimensions), np.float64)
    for row, (record_id, vector) in enumerate(zip(ids, vectors, strict=True)):
        if not isinstance(vector, str):
            raise _invalid(record_id, f"{_wanted(layout)}, and is {_told(vector)}")
        try:
            numbers = msgspec.json.decode(vector, type=list[float])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise _invalid(record_id, f"{_wanted(layout)}: {error}") from error
        if len(numbers) != layout.dimensions:
            raise _invalid(record_id, f"{_wanted(layout)}, and has {len(numbers)}")
        matrix[row] = numbers
    return matrix


def squared_norms(matrix: Matrix, ids: Sequence[object]) -> NDArray[np.float64]:
    """Return the squared length of each row, about: 0 or infinite where it is too small or large for that.

    Raises:
        StoreError: `invalid_vector`: a row of zeros, or numbers that are not finite.
    """
    with np.errstate(all="ignore"):
        squares: NDArray[np.float64] = np.vecdot(matrix, matrix).astype(np.float64)
    for row in np.flatnonzero(~((squares > 0) & (squares < np.inf))).tolist():
        if not np.isfinite(matrix[row]).all():
            raise _invalid(ids[row], "it holds numbers that are not finite")
        if not matrix[row].any():
            raise _invalid(ids[row], "all its numbers are zero")
    return squares


def _wanted(layout: Layout) -> str:
    if layout.encoding == "json":
        return f"it must be a JSON array of {layout.dimensions} numbers"
    size = item_bytes(layout) * layout.dimensions
    return f"it must be a BLOB of {size} bytes ({layout.dimensions} dimensions)"


def _told(vector: object) -> str:
    if isinstance(vector, Undecodable):
        return "text that is not UTF-8"
    return vector.decode() if isinstance(vector, bytes) else f"{vector}"


def _invalid(record_id: object, what: str) -> StoreError:
    return StoreError("invalid_vector", f"the vector of {named(record_id)} is wrong: {what:.200}")
