"""What a reader of vector stores offers beside `Reader`: exact search by a given vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import sqlite3

    from .contract import Budget

__all__ = ["MEMORY_BYTES", "SIMILAR_LIMITS", "Direction", "Metric", "Similar", "VectorFacts", "VectorReader"]

Metric = Literal["dot", "cosine", "l2"]
Direction = Literal["higher", "lower"]
"""Which scores are better: those of dot and cosine are higher, those of l2, a distance, are lower."""

SIMILAR_LIMITS = (1, 1_000)
"""Smallest and largest `limit`; a number outside is clamped, never refused."""

MEMORY_BYTES = 64 * 1024 * 1024
"""What a search may hold at a time unless told otherwise (formats/book-agent.md B1)."""


class VectorFacts(Struct, frozen=True):
    """What a store's vectors are: the model that made them, their length, metric and its direction."""

    model: str
    dimensions: int
    metric: Metric
    direction: Direction


class Similar(Struct, frozen=True):
    """A record whose vector is near the one given; `score` is the metric's own number, not rounded."""

    id: str
    doc: str
    heading_path: str
    text: str
    score: float
    kind: str = "passage"


class VectorReader(Protocol):
    """Searches stored vectors; the methods of a reader with the capability `vectors.search`."""

    def vectors(self, db: sqlite3.Connection) -> VectorFacts:
        """Return what the store's vectors are."""
        ...

    def similar(
        self,
        db: sqlite3.Connection,
        vector: Sequence[float],
        limit: int,
        budget: Budget,
        memory_bytes: int = MEMORY_BYTES,
    ) -> list[Similar]:
        """Return the nearest *limit* records, best first, ties by id, in bounded memory.

        Raises:
            RequestError: `invalid_query_vector`: length, zero, or a number that is not finite.
            StoreError: `invalid_vector` and `memory_budget_exceeded`, naming the record.
        """
        ...
