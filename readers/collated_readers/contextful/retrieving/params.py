"""The arguments of `corpus.retrieve`; none is ever ignored (retrieve.md §1)."""

from __future__ import annotations

import math
from typing import Any

from collated_readers.contextful.tools.arguments import Bounded, Count, invalid

__all__ = ["RetrieveParams", "vector_of"]

_LONGEST_VECTOR = 65_536


class RetrieveParams(Bounded, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to retrieve: rows of the relations under *prefix*, among *tables* where those are named.

    *filter* and *kinds* are checked as a whole (`FilterBudgetExceeded`), so they are of any type here.
    """

    query: str
    prefix: str = ""
    tables: list[str] | None = None
    query_embedding: list[float] | None = None
    filter: Any = None
    kinds: Any = None
    limit: Count | None = None
    since: str | None = None
    min_score: Count | None = None


def vector_of(params: RetrieveParams) -> tuple[float, ...] | None:
    """Return the query's vector, None without one.

    Raises:
        RequestError: `invalid_params`: no numbers, too many, or some that are not finite.
    """
    given = params.query_embedding
    if given is None:
        return None
    if not 0 < len(given) <= _LONGEST_VECTOR or not all(map(math.isfinite, given)):
        raise invalid(f"query_embedding is a list of 1 to {_LONGEST_VECTOR} finite numbers")
    return tuple(given)
