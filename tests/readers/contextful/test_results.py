"""Rows that are given again: within their budget, no longer than they may, and never another's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.blocks import declared_of
from collated_readers.contextful.model import Bound, Bounds, ContextStore, Declared, Retention, Table
from collated_readers.contextful.reads import Page
from collated_readers.contextful.results import Results, key_of, lifetime_of

PAGE = Page(("n", "x"), [[1, "9007199254740993"], [None, 0.5]], is_more=True)
MINUTE = 60 * 10**9


def test_a_page_comes_back_as_it_was_until_it_expires() -> None:
    results = Results(10_000)
    results.keep(b"key", PAGE, 1_000, MINUTE)

    assert results.get(b"key", 1_000) == PAGE
    assert results.get(b"key", 1_000 + MINUTE - 1) == PAGE
    assert results.get(b"other", 1_000) is None
    assert results.get(b"key", 1_000 + MINUTE) is None
    assert results.size_bytes == 0


def test_a_clock_that_was_set_back_ends_what_was_kept() -> None:
    results = Results(10_000)
    results.keep(b"key", PAGE, 1_000, MINUTE)

    assert results.get(b"key", 999) is None


@pytest.mark.rule("budget")
def test_nothing_is_kept_without_a_budget() -> None:
    results = Results(0)
    results.keep(b"key", PAGE, 0, MINUTE)

    assert results.get(b"key", 0) is None


@pytest.mark.rule("budget")
def test_the_least_recently_used_goes_first() -> None:
    one = Results(1_000_000)
    one.keep(b"a", PAGE, 0, MINUTE)
    results = Results(2 * one.size_bytes)
    for key in (b"a", b"b"):
        results.keep(key, PAGE, 0, MINUTE)
    results.get(b"a", 0)
    results.keep(b"c", PAGE, 0, MINUTE)

    assert [results.get(key, 0) is not None for key in (b"a", b"b", b"c")] == [True, False, True]


@pytest.mark.rule("budget")
@given(
    budget=st.integers(0, 3_000),
    kept=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 900)), max_size=30),
)
def test_the_budget_is_never_passed(budget: int, kept: list[tuple[str, int]]) -> None:
    results = Results(budget)
    for key, size in kept:
        page = Page(("text",), [["x" * size]])
        results.keep(key.encode(), page, 0, MINUTE)
        assert results.size_bytes <= budget
        assert results.get(key.encode(), 0) in (None, page)


# ----------------------------------------------------------------------- what may be kept


def _table(name: str, lifetime: int | None, *, is_retained: bool = False) -> Table:
    rows = Retention("at", MINUTE) if is_retained else None
    return Table(name, Declared(name, result_cache_ns=lifetime, retain_rows=rows))


@pytest.mark.rule("cache-is-opt-in")
@pytest.mark.parametrize(
    ("tables", "lifetime"),
    [
        ([_table("a", 7), _table("b", 5)], 5),
        ([_table("a", 7), _table("b", None)], None),
        ([_table("a", 7), _table("b", 5, is_retained=True)], None),
        ([_table("a", 7), None], None),
        ([], None),
    ],
)
def test_every_table_has_to_allow_it_and_the_shortest_time_is_all(
    tables: list[Table | None], lifetime: int | None
) -> None:
    assert lifetime_of(tables) == lifetime


class Known:
    """All of a session that a key is made of."""

    def __init__(self, digest: str = "d", bounds: Bounds | None = None, root: str = "/r") -> None:
        self.store = ContextStore(root, "project", digest, {})
        self.bounds = bounds or Bounds()


@pytest.mark.rule("result-key")
def test_a_key_tells_apart_all_that_rows_depend_on() -> None:
    known: Any = Known()
    others: list[Any] = [
        Known(digest="e"),
        Known(root="/s"),
        Known(bounds=Bounds(as_of=Bound(5))),
        Known(bounds=Bounds(valid_as_of=Bound(5))),
        Known(bounds=Bounds(as_of=Bound(5, is_inclusive=False))),
        Known(bounds=Bounds(pin={"t": "b"})),
    ]
    keys = [
        key_of(known, "SELECT 1", ["t"], {}, 10),
        key_of(known, "SELECT 2", ["t"], {}, 10),
        key_of(known, "SELECT 1", ["t", "u"], {}, 10),
        key_of(known, "SELECT 1", ["t"], {"x": 1}, 10),
        key_of(known, "SELECT 1", ["t"], {"x": 1.0}, 10),
        key_of(known, "SELECT 1", ["t"], {"x": "1"}, 10),
        key_of(known, "SELECT 1", ["t"], {"x": True}, 10),
        key_of(known, "SELECT 1", ["t"], {"x": 2**127 - 1}, 10),
        key_of(known, "SELECT 1", ["t"], {}, 11),
        *(key_of(other, "SELECT 1", ["t"], {}, 10) for other in others),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(known, "SELECT 1", ["u", "t"], {}, 10) == keys[2]


@pytest.mark.rule("cache-is-opt-in")
@pytest.mark.parametrize(
    ("declared", "lifetime"),
    [
        ({"result_cache": "10m"}, 10 * MINUTE),
        ({"result_cache": "1s", "private": False}, 10**9),
        ({"result_cache": "10m", "private": True}, None),
        ({"result_cache": "10m", "private": "no"}, None),
        ({"result_cache": "soon"}, None),
        ({"result_cache": 600}, None),
        ({}, None),
    ],
)
def test_a_declaration_says_for_how_long(declared: dict[str, Any], lifetime: int | None) -> None:
    found = declared_of("t", declared)
    assert found.withheld is None
    assert found.result_cache_ns == lifetime
