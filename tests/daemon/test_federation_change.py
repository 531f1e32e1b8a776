"""The federation over stores that change while they are asked, and what it remembers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from collated.cache import Cache
from collated.protocol import SearchParams, SearchResult
from collated_readers import Budget
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld
    from tests.daemon.scripted import Script

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("workers", [1, 16])]

# What `a` knows is found in the worst tier only; `b` has better hits than that.
TWO: Script = {"a": {"any": [("x", -1.0), ("y", -0.5)]}, "b": {"phrase": [("z", -9.0)]}}


def refs(result: SearchResult) -> list[str]:
    return [hit.ref for hit in result.hits]


def failures(result: SearchResult) -> dict[str, str]:
    return {failure.store: failure.code for failure in result.stores.failed}


# --------------------------------------------------------------------------- stores that change


async def test_a_store_that_changes_between_two_passes_is_asked_again_from_the_first(
    world: OpenWorld,
) -> None:
    def change(db: StoreConnection) -> None:
        if opened.reader.calls["a", "any"] == 1:
            opened.reader.script["a"] = {"phrase": [("new", -3.0)]}
            opened.touch("a")

    opened = await world({"a": {"phrase": [("old", -2.0)], "any": [("older", -1.0)]}})
    opened.reader.acts["a", "any"] = change

    result = await opened.search()

    assert [(hit.id, hit.snippet) for hit in result.hits] == [("new", "a:phrase:-3.0")]
    assert result.complete


async def test_a_store_that_changes_between_ranking_and_materialising_is_ranked_anew(
    world: OpenWorld,
) -> None:
    def change(db: StoreConnection) -> None:
        if opened.reader.calls["a", "hits"] == 1:
            opened.reader.script["a"] = {"all": [("new", -3.0)]}
            opened.touch("a")

    opened = await world({"a": {"phrase": [("old", -2.0)]}, **{"b": TWO["b"]}})
    opened.reader.acts["a", "hits"] = change

    result = await opened.search()

    assert [(hit.ref, hit.snippet) for hit in result.hits] == [
        ("b:z", "b:phrase:-9.0"),
        ("a:new", "a:all:-3.0"),
    ]
    assert result.complete


async def test_a_store_that_is_ranked_anew_is_not_passed_over_because_the_others_fill_the_limit(
    world: OpenWorld,
) -> None:
    def change(db: StoreConnection) -> None:
        if opened.reader.calls["b", "hits"] == 1:
            opened.touch("b")

    opened = await world(
        {
            "a": {"phrase": [("a1", -1.0)], "all": [("a2", -1.0), ("a3", -1.0)]},
            "b": {"phrase": [("b1", -5.0), ("b2", -0.5)]},
        }
    )
    opened.reader.acts["b", "hits"] = change

    result = await opened.search(limit=3)

    assert refs(result) == ["b:b1", "a:a1", "b:b2"]
    assert result.complete


@pytest.mark.parametrize("what", ["phrase", "any", "hits"])
async def test_a_store_that_changes_each_time_it_is_asked_is_given_up(world: OpenWorld, what: str) -> None:
    opened = await world({"restless": {"phrase": [("x", -10.0)]}, **TWO})
    opened.reader.acts["restless", what] = lambda db: opened.touch("restless")

    result = await opened.search()

    assert refs(result) == ["b:z", "a:x", "a:y"]
    assert failures(result) == {"restless": "keeps_changing"}
    assert opened.reader.calls["restless", what] == 3


@pytest.mark.parametrize("what", ["phrase", "any", "hits"])
async def test_a_store_that_vanishes_while_it_is_asked_is_reported(world: OpenWorld, what: str) -> None:
    opened = await world({"gone": {"phrase": [("x", -10.0)]}, **TWO})
    opened.reader.acts["gone", what] = lambda db: opened.path("gone").unlink(missing_ok=True)

    result = await opened.search()

    assert refs(result) == ["b:z", "a:x", "a:y"]
    assert failures(result) == {"gone": "vanished"}


async def test_a_store_that_becomes_unreadable_while_it_is_asked_says_why(world: OpenWorld) -> None:
    def spoil(db: StoreConnection) -> None:
        opened.path("a").write_text("just text")
        opened.touch("a")

    opened = await world(TWO)
    opened.reader.acts["a", "hits"] = spoil

    result = await opened.search()

    assert refs(result) == ["b:z"]
    assert failures(result) == {"a": "not_sqlite"}


async def test_a_store_whose_index_names_records_that_it_does_not_have_is_damaged(world: OpenWorld) -> None:
    opened = await world({"bad": {"all": [("x", -1.0), ("lost", -2.0)]}, **TWO})
    opened.reader.lost.add("lost")

    result = await opened.search()

    assert refs(result) == ["b:z", "a:x", "a:y"]
    assert failures(result) == {"bad": "damaged"}


# --------------------------------------------------------------------------- the cache


async def test_what_was_ranked_before_is_not_ranked_again(world: OpenWorld) -> None:
    opened = await world(TWO)

    first = await opened.search()
    calls = opened.reader.calls.copy()
    second = await opened.search()

    assert first == second
    assert {name for name, _ in opened.reader.calls - calls} == {"a", "b"}
    assert {what for _, what in opened.reader.calls - calls} == {"hits"}


async def test_a_store_that_has_changed_is_asked_anew_and_no_other(world: OpenWorld) -> None:
    opened = await world(TWO)
    await opened.search()
    calls = opened.reader.calls.copy()
    opened.reader.script["a"] = {"any": [("new", -1.0)]}
    opened.touch("a")
    await opened.parts.look()

    assert refs(await opened.search()) == ["b:z", "a:new"]

    assert opened.reader.calls["a", "any"] == calls["a", "any"] + 1
    assert opened.reader.calls["b", "any"] == calls["b", "any"]


async def test_a_change_that_nobody_has_noticed_yet_shows_when_the_store_is_asked(world: OpenWorld) -> None:
    opened = await world(TWO)
    opened.reader.script["a"] = {"any": [("new", -1.0)]}
    opened.touch("a")

    assert refs(await opened.search()) == ["b:z", "a:new"]


async def test_another_limit_or_filter_is_another_question(world: OpenWorld) -> None:
    opened = await world(TWO)
    await opened.search(limit=2)
    calls = opened.reader.calls.copy()
    await opened.search(limit=2, within=["docs/"])
    await opened.search(limit=3)

    assert opened.reader.calls["a", "any"] == calls["a", "any"] + 2


async def test_without_a_cache_every_search_asks(world: OpenWorld) -> None:
    opened = await world(TWO)
    federation = opened.federation(cache=Cache(0))

    for _ in range(2):
        await federation.search(SearchParams("q"), Budget.lasting(10))

    assert opened.reader.calls["a", "any"] == 2
