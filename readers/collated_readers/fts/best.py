"""The best rows of a full-text index, with all that tie with the last of them.

Sorting by rank alone is much faster than by (rank, id), for which every match's row is read: candidates
are taken in rank order, and sorted by whoever knows their ids.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from collated_readers.values import finite, integer

__all__ = ["best_ranks"]

_TIES = 4  # fetched beyond the limit; only a longer tie at the limit needs the whole list


def best_ranks(db: sqlite3.Connection, sql: str, arguments: Sequence[str], limit: int) -> dict[int, float]:
    """Return ranks by row id, of the best *limit* rows and of all that tie with the last of them.

    *sql* selects row id and rank, best first, and ends with the placeholder of its LIMIT.

    Raises:
        StoreError: `invalid_rank`, `damaged`.
    """
    fetched = limit + _TIES
    rows = db.execute(sql, (*arguments, fetched)).fetchall()
    if len(rows) == fetched and rows[-1][1] == rows[limit - 1][1]:
        rows = db.execute(sql, (*arguments, -1)).fetchall()
    ranks = {integer(row): finite(rank) for row, rank in rows}
    last = max(list(ranks.values())[:limit], default=0.0)
    return {row: rank for row, rank in ranks.items() if rank <= last}
