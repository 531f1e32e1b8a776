"""What a context store answers in a search over many."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.retrieving import matches
from collated_readers.contract import TIERS

if TYPE_CHECKING:
    from collated_readers.contextful.session import Session

Make = Callable[..., Any]
Open = Callable[..., "Session"]

TEXT = {"id": "utf8", "title": "utf8", "body": "utf8"}


def _read(make_context_store: Make, opened: Open, *tables: tuple[str, list[dict[str, Any]]]) -> Session:
    store = make_context_store()
    for name, rows in tables:
        store.table(name, TEXT).run("r1", rows)
    return opened(store.root)


def test_a_row_is_found_by_how_its_tokens_stand(make_context_store: Make, opened: Open) -> None:
    rows = [
        {"title": "Two", "body": "solar and battery, but no more"},
        {"title": "All", "body": "storage of a solar battery"},
        {"title": "Together", "body": "a solar battery for storage"},
        {"title": "One", "body": "solar"},
    ]
    found = matches(_read(make_context_store, opened, ("t", rows)), "solar battery storage", 10)
    assert [(one.id, one.tier) for one in found] == [
        ("t/r1/2", "phrase"),
        ("t/r1/1", "all"),
        ("t/r1/0", "any"),
    ]
    assert [one.heading_path for one in found] == ["Together", "All", "Two"]
    assert all(math.isfinite(one.rank) and one.rank < 0 for one in found)


def test_one_token_is_a_phrase_wherever_it_stands(make_context_store: Make, opened: Open) -> None:
    (found,) = matches(_read(make_context_store, opened, ("t", [{"body": "storages"}])), "Storage!", 10)
    assert (found.tier, found.heading_path, found.doc) == ("phrase", "t", "t")


@pytest.mark.slow
def test_all_rows_of_all_tables_are_looked_at_not_only_the_newest(
    make_context_store: Make, opened: Open
) -> None:
    many = [{"body": "storage" if number in (0, 449) else "wind"} for number in range(450)]
    reads = _read(make_context_store, opened, ("a", many), ("b/c", [{"body": "Storage"}]))
    assert [one.id for one in matches(reads, "storage", 10)] == ["a/r1/0", "a/r1/449", "b/c/r1/0"]
    assert [one.id for one in matches(reads, "storage", 10, lambda table: table != "a")] == ["b/c/r1/0"]
    assert matches(reads, "the", 10) == []
    assert matches(reads, "", 10) == []


def test_ids_are_in_the_order_of_their_bytes_where_ranks_are_equal(
    make_context_store: Make, opened: Open
) -> None:
    reads = _read(make_context_store, opened, ("t", [{"body": "storage"}] * 12))
    assert [one.id for one in matches(reads, "storage", 4)] == ["t/r1/0", "t/r1/1", "t/r1/10", "t/r1/11"]


def test_a_run_that_two_nodes_have_gives_an_id_once(make_context_store: Make, opened: Open) -> None:
    store = make_context_store()
    table = store.table("t", TEXT)
    table.run("r1", [{"body": "storage and more than that"}], node="ingest-a")
    table.run("r1", [{"body": "storage"}], node="ingest-b")
    (found,) = matches(opened(store.root), "storage", 10)
    assert (found.id, found.snippet) == ("t/r1/0", "storage")


def test_a_table_that_cannot_be_read_is_left_out(make_context_store: Make, opened: Open) -> None:
    store = make_context_store()
    store.table("good", TEXT).run("r1", [{"body": "storage"}])
    bad = store.table("bad", TEXT)
    bad.run("r1", [{"body": "storage"}])
    (bad.folder / "schema.json").write_text("[")
    assert [one.id for one in matches(opened(store.root), "storage", 10)] == ["good/r1/0"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("ΟΔΟΣ", "οδος"),
        ("İSTANBUL", "İstanbul"),
        ("ÉTÉ", "été"),
        ("it's O'Brien — \"quoted\" %_", "O'Brien"),
        ("СОЛНЦЕ", "солнце"),
    ],
)
def test_letters_are_made_small_alike_in_text_and_question(
    make_context_store: Make, opened: Open, text: str, query: str
) -> None:
    reads = _read(make_context_store, opened, ("t", [{"body": text}, {"body": "other"}]))
    assert [one.id for one in matches(reads, query, 10)] == ["t/r1/0"]


def test_a_snippet_is_one_line_around_the_first_token(make_context_store: Make, opened: Open) -> None:
    body = "word " * 100 + "\n\nstorage\there " + "word " * 100
    (found,) = matches(_read(make_context_store, opened, ("t", [{"body": body}])), "storage", 10)
    assert "word storage here word" in found.snippet
    assert found.snippet.startswith("…")
    assert found.snippet.endswith("…")
    assert len(found.snippet) <= 162


def test_columns_that_are_no_text_are_searched_where_they_are_declared(
    make_context_store: Make, opened: Open
) -> None:
    store = make_context_store()
    columns = {"id": "utf8", "meta": "json", "n": "int64", "_count": "utf8", "_TEXT": "utf8"}
    table = store.table("t", columns, retrieve={"text": ["meta", "n"]})
    table.run("r1", [{"meta": '{"city": "Kyoto"}', "n": 42}, {"meta": "{}", "n": 7}])
    reads = opened(store.root)
    assert [one.id for one in matches(reads, "kyoto", 10)] == ["t/r1/0"]
    assert [one.id for one in matches(reads, "42", 10)] == ["t/r1/0"]


WORDS = ["solar", "battery", "storage", "the", "cells", "东京", "grids"]


@pytest.mark.slow
@given(
    documents=st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=8),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
)
def test_a_list_of_one_more_begins_with_this_one(
    many: Callable[[list[list[str]]], Session], documents: list[list[str]], query: list[str]
) -> None:
    reads = many(documents)
    whole = matches(reads, " ".join(query), 100)
    keys = [(TIERS.index(one.tier), one.rank, one.id.encode()) for one in whole]
    assert keys == sorted(keys)
    assert len({one.id for one in whole}) == len(whole)
    for limit in range(len(whole)):
        assert matches(reads, " ".join(query), limit) == whole[:limit]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, maker: Any) -> Any:
    """`many(documents)` reads a store of a table of them."""
    from contextlib import ExitStack, closing

    from collated_readers.contextful.loading import load_store
    from collated_readers.contextful.model import Bounds
    from collated_readers.contextful.session import open_session

    with ExitStack() as stack:

        def make(documents: list[list[str]]) -> Session:
            store = stack.enter_context(closing(maker.StoreMaker(tmp_path_factory.mktemp("many"))))
            store.table("t", TEXT).run("r1", [{"body": " ".join(words)} for words in documents])
            session = open_session(load_store(store.root), Bounds(), memory_bytes=1 << 28, threads=1)
            return stack.enter_context(closing(session))

        yield make
