"""How the two legs become one number (retrieve.md §8). Pure."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["fused", "reciprocal"]

_K = 60
_COSINE_PERCENT, _LEXICAL_PERCENT = 60, 40


def reciprocal(scores: Sequence[float | None]) -> list[float | None]:
    """Return 61 / (60 + rank) of each score, ranks from 1, None where there is no score.

    Equal scores share a rank, one more than how many are greater; so if all are equal, all count in full.
    """
    descending = sorted((score for score in scores if score is not None), reverse=True)
    ranks: dict[float, int] = {}
    for place, score in enumerate(descending, start=1):
        ranks.setdefault(score, place)
    return [None if score is None else (_K + 1) / (_K + ranks[score]) for score in scores]


def fused(cosine: float | None, lexical: float | None) -> float:
    """Return what a row counts: 60 percent of its cosine, nothing below zero, and 40 of the lexical leg."""
    near = 0.0 if cosine is None else min(max(cosine, 0.0), 1.0)
    return (_COSINE_PERCENT * near + _LEXICAL_PERCENT * (lexical or 0.0)) / 100
