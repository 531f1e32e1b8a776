"""The best rows by rank, with all that tie with the last."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import StoreError
from collated_readers.fts.best import best_ranks

SQL = "SELECT value, rank FROM found WHERE 'x' = ? ORDER BY rank LIMIT ?"


def _best(rows: list[tuple[object, object]], limit: int) -> dict[int, float]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE found (value, rank)")
        db.executemany("INSERT INTO found VALUES (?, ?)", rows)
        return best_ranks(db, SQL, ("x",), limit)


@given(st.lists(st.sampled_from([-3.5, -2.0, -1.0, 0.0]), max_size=30), st.integers(1, 12))
def test_all_are_given_that_are_not_worse_than_the_last(ranks: list[float], limit: int) -> None:
    last = sorted(ranks)[:limit][-1:]
    expected = {row: rank for row, rank in enumerate(ranks) if [rank] <= last}
    assert _best([*enumerate(ranks)], limit) == expected


@pytest.mark.parametrize(
    ("row", "code"),
    [((1, None), "invalid_rank"), ((1, "x"), "invalid_rank"), ((1, float("inf")), "invalid_rank")],
)
def test_what_is_no_rank_is_the_stores_fault(row: tuple[object, object], code: str) -> None:
    with pytest.raises(StoreError) as caught:
        _best([row], 3)
    assert caught.value.code == code
