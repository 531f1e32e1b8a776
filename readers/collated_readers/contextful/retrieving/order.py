"""The order in which rows are delivered (retrieve.md §10). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from .dates import Timeframe
from .fusing import fused, reciprocal
from .gathering import Scored

__all__ = ["Placed", "placed"]


class Placed(Struct, frozen=True):
    """A candidate in the order: what it is worth, and whether it is of the time that was asked about."""

    one: Scored
    is_in_window: bool
    fused: float


def placed(
    candidates: Sequence[Scored], scores: Sequence[float | None], timeframe: Timeframe
) -> list[Placed]:
    """Return *candidates*, whose BM25 are *scores*, in order: the timeframe leads, then what both legs say.

    Where none matches and none has a cosine, the newest come first. What is equal goes by identifier.
    """
    rows = [
        Placed(one, _is_in(one, timeframe), fused(one.cosine, lexical))
        for one, lexical in zip(candidates, reciprocal(scores), strict=True)
    ]
    is_ranked = any(score is not None for score in scores) or any(
        one.cosine is not None for one in candidates
    )
    return sorted(rows, key=_by_worth if is_ranked else _by_age)


def _is_in(one: Scored, timeframe: Timeframe) -> bool:
    return timeframe.since is None or timeframe.admits(one.row.published()[0])


def _by_worth(row: Placed) -> tuple[bool, float, str, tuple[str, ...]]:
    return (not row.is_in_window, -row.fused, row.one.row.id, row.one.row.identity)


def _by_age(row: Placed) -> tuple[bool, int, str, tuple[str, ...]]:
    return (not row.is_in_window, -row.one.row.recency(), row.one.row.id, row.one.row.identity)
