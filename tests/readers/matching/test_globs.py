"""The path filter over many paths beside SQLite's own GLOB."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextpull import ContextPull
from collated_readers.matching.within import filter_argument
from collated_readers.passes.filters import IN_FILTER

READER = ContextPull()
Passing = Callable[[Sequence[str], Sequence[str]], list[str]]

# What GLOB gives a meaning to, what regular expressions do, and letters of all lengths in UTF-8.
LETTERS = "*?[]^-!/ab.\\#(+|&~{}$ \n\x1bAä\ud7ff\ue000\ufffd\ufffe\uffff\U0001fffe\U0010ffff\0"
some = st.text(st.sampled_from(LETTERS), min_size=1, max_size=8) | st.text(
    st.sampled_from("*?[]^-ab/"), min_size=1, max_size=12
)
sets = st.tuples(some, st.text(st.sampled_from("]^-abcä!"), max_size=5), some).map(
    lambda parts: f"{parts[0]}[{parts[1]}]{parts[2]}"
)
entries = some | sets | st.text(min_size=1, max_size=5)
paths = st.text(st.sampled_from(LETTERS), max_size=8) | st.text(st.sampled_from("ab/-]^["), max_size=6)


@pytest.fixture(scope="module")
def passing() -> Iterator[Passing]:
    """`passing(paths, within)` are those of *paths* that SQLite lets through."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE TABLE documents (doc_id INTEGER PRIMARY KEY, path TEXT)")

        def run(paths: Sequence[str], within: Sequence[str]) -> list[str]:
            db.execute("DELETE FROM documents")
            db.executemany("INSERT INTO documents (path) VALUES (?)", [(path,) for path in paths])
            sql = f"SELECT path FROM documents AS d WHERE {IN_FILTER} ORDER BY doc_id"  # noqa: S608 - our own
            return [row[0] for row in db.execute(sql, (filter_argument(within),))]

        yield run


@given(within=st.lists(entries, min_size=1, max_size=3), others=st.lists(paths, max_size=20))
@settings(max_examples=4 * settings().max_examples, database=None, derandomize=True)
@example(within=["[a"], others=["a", "[a"])
@example(within=["[]a]b"], others=["]b", "ab", "b"])
@example(within=["[^]a]b"], others=["]b", "cb"])
@example(within=["[z-a]", "[^z-a]"], others=["a", "z", "-", ""])
@example(within=["[a-]"], others=["a", "-", "b"])
@example(within=["[--b]", "[a-b-z]"], others=["-", "a", ".", "z", "b"])
@example(within=["a//"], others=["a", "a/", "a/b", "a//", "a//b"])
@example(within=["/"], others=["/", "/b", "b/", ""])
@example(within=["\ufffd", "?/*"], others=["\ufffe", "\uffff/b", "\U0010ffff/"])
@example(within=["a\0b", "b*\0c"], others=["a", "a\0c", "bcd", "a/b"])
def test_the_path_filter_is_sqlites_glob(passing: Passing, within: list[str], others: list[str]) -> None:
    # What the entries themselves say is most likely to pass.
    every = [*others, *within, *(entry.replace("*", "ab/").replace("?", "ä") for entry in within)]
    matches = READER.path_matcher(within)
    assert matches is not None
    assert [path for path in every if matches(path)] == passing(every, within)


def test_no_entries_are_no_filter() -> None:
    assert READER.path_matcher(()) is None


def test_thousands_of_entries_and_many_stars_cost_little(passing: Passing) -> None:
    within = [*(f"no/{n}" for n in range(5_000)), *(f"x{n}*" for n in range(500)), "*a" * 30 + "b"]
    every = ["no/4999/a.md", "no/4999", "x499/y", "x4", "no", "a" * 2_000, "a" * 2_000 + "b"]
    matches = READER.path_matcher(within)
    assert matches is not None
    assert [path for path in every if matches(path)] == passing(every, within)


@pytest.mark.parametrize("within", ["a.md", ("",), ("x" * 50_001,), ("x" * 49_999,), ("ä" * 25_000,)])
def test_an_entry_that_sqlite_would_not_take_is_the_requests_fault(within: Sequence[str]) -> None:
    for ask in (filter_argument, READER.path_matcher):
        with pytest.raises(RequestError) as caught:
            ask(within)
        assert caught.value.code == "invalid_params"


def test_the_longest_entry_is_one_that_sqlite_takes(passing: Passing) -> None:
    for longest in ("x" * 49_998, "*" + "x" * 49_999, "x" + "/" * 49_999):
        assert passing([longest], [longest]) == [longest]
