"""The cosine of a query's vector with a row's, exactly (retrieve.md §8). Brings in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["cosine_with"]


def cosine_with(query: Sequence[float]) -> Callable[[Any], float | None]:
    """Return what gives the cosine of *query* with a cell, in double precision.

    It is None for a cell that is no vector of as many finite numbers, and where either has no direction.
    """
    wanted = np.array(query, np.float64)
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(wanted))

    def cosine(cell: Any) -> float | None:
        try:
            vector = np.array(cell, np.float64)
        except (TypeError, ValueError):  # a null or a nested value among the numbers
            return None
        if vector.shape != wanted.shape:
            return None
        with np.errstate(all="ignore"):
            length = float(np.linalg.norm(vector))
            value = float(vector @ wanted) / (norm * length) if norm * length > 0 else math.nan
        return value if math.isfinite(value) else None

    return cosine
