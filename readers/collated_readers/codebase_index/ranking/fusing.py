"""The lists of one query made one by reciprocal rank. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from .found import Found, Source
from .query import Weights

__all__ = ["fused"]

_K = 60
_LINES_OF_A_PLACE = 40
_OF_THE_FILE = 0.4  # what a list counts that found the file, though elsewhere
_RICHEST: Mapping[Source, int] = {"symbol": 2, "text": 1, "path": 0}

Key = tuple[str, int]


def fused(lists: Mapping[Source, Sequence[Found]], weights: Weights) -> list[Found]:
    """Return the places of all lists, those near each other as one, by the sum of what lists count there.

    A list counts once for each, by the first that it has there. Of equal sums what came first is first.
    """
    counted: dict[Key, dict[Source, float]] = defaultdict(dict)
    best: dict[str, dict[Source, float]] = defaultdict(dict)
    shown: dict[Key, Found] = {}
    for source, each in lists.items():
        weight = getattr(weights, source)
        for rank, found in enumerate(each):
            key = found.path, (max(found.line_start, 1) - 1) // _LINES_OF_A_PLACE
            if source in counted[key]:
                continue
            counted[key][source] = counts = weight * _K / (_K + rank)
            best[found.path].setdefault(source, counts)
            if key not in shown or _RICHEST[source] > _RICHEST[shown[key].source]:
                shown[key] = found
    sums = [
        replace(
            found, score=sum(counted[key].values()) + _OF_THE_FILE * _elsewhere(counted[key], best[key[0]])
        )
        for key, found in shown.items()
    ]
    return sorted(sums, key=lambda one: -one.score)


def _elsewhere(here: Mapping[Source, float], best: Mapping[Source, float]) -> float:
    return sum(counts for source, counts in best.items() if source not in here)
