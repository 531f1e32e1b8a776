"""The lexical leg: BM25 of candidates, with statistics of the candidates alone (retrieve.md §8). Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["K1", "B", "bm25", "idf_of"]

K1 = 1.2
B = 0.75


def idf_of(documents: int, holding: int) -> float:
    """Return what a term counts that *holding* of *documents* hold."""
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def bm25(counts: Sequence[Sequence[int]], lengths: Sequence[int]) -> list[float | None]:
    """Return the score of each document, None where it holds no token.

    *counts* says of each document how often it holds each token, *lengths* how many words it has.
    """
    if not counts:
        return []
    documents = len(counts)
    average = sum(lengths) / documents
    weights = [idf_of(documents, sum(1 for count in column if count)) for column in zip(*counts, strict=True)]
    return [
        _score(row, weights, K1 * (1 - B + B * length / average)) if any(row) else None
        for row, length in zip(counts, lengths, strict=True)
    ]


def _score(counts: Sequence[int], weights: Sequence[float], damping: float) -> float:
    return math.fsum(
        weight * count * (K1 + 1) / (count + damping)
        for count, weight in zip(counts, weights, strict=True)
        if count
    )
