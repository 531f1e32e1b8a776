"""Which worker is taken, and how many are started."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collated.engines.roster import chosen, to_start

COUNT = st.integers(0, 20)


@given(st.lists(st.sampled_from("abc"), min_size=1), st.sampled_from("abcd"))
def test_the_last_that_served_the_root_is_taken_else_the_last(roots: list[str], root: str) -> None:
    index = chosen(roots, root)
    assert roots[index] == root or (root not in roots and index == len(roots) - 1)
    assert root not in roots[index + 1 :]


@given(COUNT, COUNT, COUNT, COUNT)
def test_one_is_started_for_each_who_waits_and_never_more_than_may_be(
    waiting: int, starting: int, others: int, limit: int
) -> None:
    processes = starting + others
    more = to_start(waiting, starting, processes, limit)
    assert more >= 0
    assert more == 0 or (processes + more <= limit and starting + more <= waiting)
    assert starting + more >= waiting or processes + more >= limit
