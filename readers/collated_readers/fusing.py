"""One store's hybrid list: what words find and what vectors find, by reciprocal rank (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Sequence, Set

from .contract import RRF_K, SEARCH_LIMITS, Ranked, clamped

__all__ = ["dense_depth", "reciprocal"]


def dense_depth(limit: int) -> int:
    """Return how many of the nearest records a list of *limit* (clamped) is fused from."""
    return max(4 * clamped(limit, SEARCH_LIMITS), 20)


def reciprocal(
    lexical: Sequence[Ranked], dense: Sequence[str], allowed: Set[str], limit: int
) -> list[Ranked]:
    """Return the records of both lists in (rank, id) order, *limit* (clamped) at most.

    A rank is the negated sum of 1 / (60 + position). What is not among *allowed* keeps its position in
    *dense*, and counts nothing.
    """
    sums: dict[str, float] = {}
    for position, one in enumerate(lexical, start=1):
        sums[one.id] = sums.get(one.id, 0.0) + 1.0 / (RRF_K + position)
    for position, record_id in enumerate(dense, start=1):
        if record_id in allowed:
            sums[record_id] = sums.get(record_id, 0.0) + 1.0 / (RRF_K + position)
    known = {one.id: one for one in lexical}
    order = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[: clamped(limit, SEARCH_LIMITS)]
    return [
        Ranked(found.id, found.tier, -total, found.row)
        if (found := known.get(record_id))
        else Ranked(record_id, "dense", -total, 0)
        for record_id, total in order
    ]
