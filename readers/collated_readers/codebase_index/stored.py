"""Vectors as a store has them, in batches: in the shadow tables of `vec_chunks`, or by text in `vec_cache`.

This module brings in numpy.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator
from contextlib import closing

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.contract import StoreError
from collated_readers.values import Row, integer, text

from .places import places_at

__all__ = ["Batch", "cached", "invalid_vector", "shadowed"]

_ROWS = 256
_NUMBER_BYTES = 4
_MOST_NUMBERS = 8_192
"""The longest vector that the extension takes."""

_BLOCKS = """
SELECT c.size, c.validity, c.rowids, v.vectors FROM vec_chunks_chunks AS c
LEFT JOIN vec_chunks_vector_chunks00 AS v ON v.rowid = c.chunk_id ORDER BY c.chunk_id"""
_CONTENTS = """
SELECT c.id, c.content FROM chunks AS c JOIN files AS f ON f.id = c.file_id ORDER BY c.id"""
_CACHED = "SELECT embedding FROM vec_cache WHERE model = ? AND content_sha = ?"


class Batch(Struct, frozen=True):
    """Row ids of chunks, which need not be there any more, and their vectors, one in each row."""

    rows: NDArray[np.int64]
    vectors: NDArray[np.float32]


Batches = Generator[Batch, None, None]


def shadowed(db: sqlite3.Connection) -> Batches:
    """Yield what the shadow tables hold; one of the extension's blocks is in memory at a time.

    Raises:
        StoreError: `invalid_vector`, naming a record; `damaged`.
    """
    with closing(db.execute(_BLOCKS)) as blocks:
        for block in blocks:
            yield from _of_block(db, block)


def _of_block(db: sqlite3.Connection, block: Row) -> Batches:
    """Yield the vectors of a block that are in use: bits from the lowest on say which are."""
    size, validity, rowids, vectors = block
    if not _is_directory(size, validity, rowids):
        raise StoreError("damaged", "the store does not say whose its vectors are")
    bits = np.frombuffer(validity, np.uint8)
    used = np.flatnonzero(np.unpackbits(bits, count=size, bitorder="little"))
    if not len(used):
        return
    rows = np.frombuffer(rowids, "<i8")[used].astype(np.int64, copy=False)
    count = _numbers(vectors, size)
    if not count:
        raise invalid_vector(db, int(rows[0]), f"it must be one of {size} in a BLOB, of 32-bit numbers")
    matrix = np.frombuffer(vectors, "<f4").reshape(size, count)
    for at in range(0, len(used), _ROWS):
        some = slice(at, at + _ROWS)
        yield Batch(rows[some], matrix[used[some]].astype(np.float32, copy=False))


def _is_directory(size: object, validity: object, rowids: object) -> bool:
    if not (isinstance(size, int) and isinstance(validity, bytes) and isinstance(rowids, bytes)):
        return False
    return 0 < size <= 8 * len(validity) and len(rowids) == 8 * size


def _numbers(vectors: object, count: int = 1) -> int:
    """Return how many numbers each of *count* vectors has, 0 if they are none."""
    if not isinstance(vectors, bytes) or len(vectors) % (_NUMBER_BYTES * count):
        return 0
    numbers = len(vectors) // (_NUMBER_BYTES * count)
    return numbers if numbers <= _MOST_NUMBERS else 0


def cached(db: sqlite3.Connection, model: str) -> Batches:
    """Yield the vectors that *model* gave the texts of chunks, as far as they are kept.

    Raises:
        StoreError: `invalid_vector`, naming the record; `damaged`.
    """
    rows: list[int] = []
    vectors: list[bytes] = []
    with closing(db.execute(_CONTENTS)) as contents:
        for row, content in contents:
            digest = hashlib.sha256(text(content).encode()).hexdigest()
            found = db.execute(_CACHED, (model, digest)).fetchone()
            if found is None:
                continue
            if not _numbers(found[0]):
                raise invalid_vector(db, integer(row), "it must be a BLOB of 32-bit numbers")
            if vectors and (len(vectors) == _ROWS or len(vectors[0]) != len(found[0])):
                yield _batch(rows, vectors)
                rows, vectors = [], []
            rows.append(integer(row))
            vectors.append(found[0])
    if vectors:
        yield _batch(rows, vectors)


def _batch(rows: list[int], vectors: list[bytes]) -> Batch:
    matrix = np.frombuffer(b"".join(vectors), "<f4").reshape(len(rows), -1)
    return Batch(np.array(rows, np.int64), matrix.astype(np.float32, copy=False))


def invalid_vector(db: sqlite3.Connection, row: int, what: str) -> StoreError:
    """Return the failure of a store of which the vector of the chunk at *row* is wrong."""
    place = places_at(db, [row]).get(row)
    whose = "a chunk that is gone" if place is None else f"'{place.id:.200}'"
    return StoreError("invalid_vector", f"the vector of {whose} is wrong: {what}")
