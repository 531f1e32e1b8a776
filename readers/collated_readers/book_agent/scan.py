"""The nearest vectors: one walk over all, the best kept, in a memory that is planned before it begins.

This module brings in numpy.
"""

from __future__ import annotations

import sqlite3
from bisect import insort
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from collated_readers.contract import Budget, StoreError, clamped
from collated_readers.vectors import MEMORY_BYTES, SIMILAR_LIMITS

from .decoding import Batch, batches, row_bytes
from .distances import Asked, asked_of, exact_scores, hopeful
from .ids import NativeId, text_id
from .layout import DIRECTIONS, Layout
from .passages import Row, checked_text, find, named

__all__ = ["Bounds", "Near", "evidence_of", "exceeded", "nearest"]

_ROWS = 256  # what is fastest, for the batch then stays in the processor's caches
_BLOCK_ROWS = 32
_EXACT_BYTES = 3 * 8  # float64, three times over
_KEPT_BYTES = 64


class Near(Struct, frozen=True):
    """A record and its score, the metric's own number."""

    score: float
    id: NativeId


class Bounds(Struct, frozen=True):
    """What a search is held to."""

    limit: int
    budget: Budget
    memory_bytes: int = MEMORY_BYTES


class _Plan(Struct, frozen=True):
    rows: int
    block: int


def nearest(
    db: sqlite3.Connection,
    layout: Layout,
    vector: Sequence[float],
    bounds: Bounds,
) -> list[Near]:
    """Return the best records, `limit` (clamped) of them, best first, ties by id as UTF-8.

    Raises:
        RequestError: `invalid_query_vector`.
        StoreError: `invalid_vector`, `invalid_record_id`, `invalid_text_encoding`,
            `memory_budget_exceeded`, `deadline_exceeded`.
    """
    asked = asked_of(layout, vector)
    limit = clamped(bounds.limit, SIMILAR_LIMITS)
    plan = _plan(layout, limit, bounds.memory_bytes)
    best = _Best(limit, asked)
    for batch in batches(db, layout, plan.rows, bounds.budget):
        _offer(best, batch, asked, plan.block)
    return best.found()


def _plan(layout: Layout, limit: int, memory_bytes: int) -> _Plan:
    """Return how many rows are read at a time and how many are scored exactly, so that all fits."""
    left = memory_bytes - limit * _KEPT_BYTES
    one_row, exact_bytes = row_bytes(layout), _EXACT_BYTES * layout.dimensions
    if one_row + exact_bytes > left:
        what = "retained_evidence" if one_row + exact_bytes <= memory_bytes else "record"
        raise exceeded(what, f"a search for {limit} of {layout.dimensions} dimensions", memory_bytes)
    block = max(1, min(_BLOCK_ROWS, left // 4 // exact_bytes))
    return _Plan(max(1, min(_ROWS, (left - block * exact_bytes) // one_row)), block)


def exceeded(what: str, who: str, memory_bytes: int) -> StoreError:
    """Return the failure of a search that needs more than it may take; *what* is of which kind."""
    return StoreError(
        "memory_budget_exceeded", f"{what}: {who} needs more than the budget of {memory_bytes} bytes"
    )


class _Best:
    """The best records so far."""

    def __init__(self, limit: int, asked: Asked) -> None:
        self._limit = limit
        self._sign = -1.0 if DIRECTIONS[asked.metric] == "higher" else 1.0
        self._count = 0
        self._kept: list[tuple[float, str, int, NativeId]] = []

    @property
    def worst(self) -> float | None:
        """Return the score that a record must reach, None while there is room."""
        return self._sign * self._kept[-1][0] if len(self._kept) == self._limit else None

    def offer(self, scores: Sequence[float], ids: Sequence[NativeId]) -> None:
        """Keep what is good enough."""
        for score, record_id in zip(scores, ids, strict=True):
            self._count += 1  # so that ids, which may be of two types, are never compared
            insort(self._kept, (self._sign * score, text_id(record_id), self._count, record_id))
            del self._kept[self._limit :]

    def found(self) -> list[Near]:
        """Return what was kept, best first."""
        return [Near(self._sign * key, record_id) for key, _, _, record_id in self._kept]


def _offer(best: _Best, batch: Batch, asked: Asked, block: int) -> None:
    rows = hopeful(batch, asked, best.worst)
    if not len(rows):
        return
    for first in range(0, len(rows), block):
        part = rows[first : first + block]
        scores = exact_scores(batch.vectors[part], asked, block)
        ids = [batch.ids[int(row)] for row in part]
        if not np.isfinite(scores).all():
            wrong = ids[int(np.flatnonzero(~np.isfinite(scores))[0])]
            raise StoreError(
                "invalid_vector", f"the vector of {named(wrong)} is too long: its score is not finite"
            )
        best.offer(scores.tolist(), ids)


def evidence_of(
    db: sqlite3.Connection, layout: Layout, found: Sequence[Near], memory_bytes: int
) -> list[Row]:
    """Return the rows of *found*, their texts checked.

    Raises:
        StoreError: `memory_budget_exceeded`, `invalid_record_text`, `invalid_text_encoding`.
    """
    rows: list[Row] = []
    left = memory_bytes
    for near in found:
        row = find(db, layout.columns, near.id)
        if row is None:
            raise StoreError("damaged", f"{named(near.id)} cannot be found by its id")
        checked_text(row[1], near.id)
        size = sum(_bytes(value) for value in row[1:])
        left -= size
        if left < 0:
            what = "record" if size > memory_bytes else "retained_evidence"
            raise exceeded(what, f"with its text, {named(near.id)}", memory_bytes)
        rows.append(row)
    return rows


def _bytes(value: object) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    return len(value) if isinstance(value, bytes) else 8
