"""The federation over stores whose reader answers, and misbehaves, as it is told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.errors import RequestFailed
from collated.protocol import NO_STORES, GrepParams, Partial, SearchParams, SearchResult
from collated_readers import (
    HINT_NO_EMBEDDINGS,
    HINT_NO_HITS,
    HINT_NO_WORDS,
    Budget,
    RequestError,
    StoreError,
)
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld
    from tests.daemon.scripted import Script
    from tests.daemon.worlds import Assemble

pytestmark = pytest.mark.anyio

both = pytest.mark.parametrize("workers", [1, 16])
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
# What `a` knows is found in the worst tier only; `b` has better hits than that.
TWO: Script = {"a": {"any": [("x", -1.0), ("y", -0.5)]}, "b": {"phrase": [("z", -9.0)]}}


def endless(db: StoreConnection) -> object:
    return db.execute(ENDLESS).fetchone()


def refs(result: SearchResult) -> list[str]:
    return [hit.ref for hit in result.hits]


def failures(result: SearchResult) -> dict[str, str]:
    return {failure.store: failure.code for failure in result.stores.failed}


# --------------------------------------------------------------------------- an answer


async def test_a_hit_says_where_it_comes_from_and_how_it_matched(world: OpenWorld) -> None:
    opened = await world(TWO)

    result = await opened.search(limit=2)

    first, second = result.hits
    assert (first.ref, first.store, first.id, first.format) == ("b:z", "b", "z", "scripted")
    assert (first.tier, first.score, first.snippet) == ("phrase", 9.0, "b:phrase:-9.0")
    assert (second.ref, second.tier, second.score) == ("a:x", "any", 1.0)
    assert (result.mode, result.hint, result.complete) == ("lexical", None, True)
    assert (result.stores.asked, result.stores.answered, result.stores.skipped) == (2, 2, 0)


async def test_a_worse_tier_is_not_asked_for_once_the_better_ones_fill_the_limit(world: OpenWorld) -> None:
    opened = await world({"a": {"phrase": [("x", 1.0)]}, "b": {"phrase": [("y", 2.0), ("z", 3.0)]}})

    assert refs(await opened.search(limit=3)) == ["a:x", "b:y", "b:z"]

    assert opened.reader.calls["a", "any"] == opened.reader.calls["b", "any"] == 0


async def test_snippets_are_made_for_the_hits_that_are_returned_and_no_others(world: OpenWorld) -> None:
    opened = await world(TWO)

    await opened.search(limit=1)

    assert opened.reader.calls["b", "hits"] == 1
    assert opened.reader.calls["a", "hits"] == 0


async def test_a_limit_is_clamped(world: OpenWorld) -> None:
    opened = await world({"a": {"all": [(f"{n:03}", float(n)) for n in range(60)]}})

    assert len((await opened.search(limit=0)).hits) == 1
    assert len((await opened.search(limit=-5)).hits) == 1
    assert len((await opened.search(limit=1_000)).hits) == 50


async def test_only_the_stores_that_are_named_are_asked(world: OpenWorld) -> None:
    opened = await world(TWO)

    assert refs(await opened.search(stores=["a"])) == ["a:x", "a:y"]
    assert opened.reader.calls["b", "phrase"] == 0


async def test_hints_say_why_there_is_nothing(world: OpenWorld, assemble: Assemble) -> None:
    opened = await world({"a": {"all": [("x", 1.0)]}, "b": {}})

    assert (await opened.search(query="")).hint == HINT_NO_WORDS
    assert (await opened.search(stores=["b"])).hint == HINT_NO_HITS
    assert (await opened.search(mode="hybrid")).hint == HINT_NO_EMBEDDINGS
    assert (await opened.search(stores=["b"], mode="hybrid")).hint == HINT_NO_HITS


async def test_without_any_store_the_hint_says_how_to_add_one(world: OpenWorld) -> None:
    result = await (await world({})).search()

    assert (result.hits, result.hint, result.complete) == ([], NO_STORES, True)


async def test_who_wants_to_know_hears_of_each_store_as_it_answers(world: OpenWorld) -> None:
    opened = await world({**TWO, "c": {}})
    opened.reader.acts["c", "phrase"] = bad(StoreError("damaged", "it is broken"))
    heard: list[Partial] = []

    async def report(partial: Partial) -> None:
        heard.append(partial)

    federation = opened.federation()
    await federation.search(SearchParams("q"), Budget.lasting(10), report)

    assert {partial.asked for partial in heard} == {3}
    assert max(partial.answered for partial in heard) == 2
    told = {hit.ref for partial in heard for hit in partial.hits}
    assert told == {"a:x", "a:y", "b:z"}
    assert [failure.store for failure in heard[-1].failed] == ["c"]


# --------------------------------------------------------------------------- stores that fail


def bad(error: Exception) -> Raising:
    return Raising(error)


class Raising:
    """An act that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, db: StoreConnection) -> None:
        raise self.error


@both
@pytest.mark.parametrize("what", ["phrase", "all", "any", "hits"])
@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreError("damaged", "it is broken"), "damaged"), (ZeroDivisionError(), "internal")],
)
async def test_one_bad_store_never_hides_the_others(
    world: OpenWorld, what: str, error: Exception, code: str
) -> None:
    opened = await world({"bad": {"phrase": [("x", -9.0)]}, **TWO})
    opened.reader.acts["bad", what] = bad(error)

    result = await opened.search()

    assert refs(result) == ["b:z", "a:x", "a:y"]
    assert (result.complete, failures(result)) == (False, {"bad": code})
    assert (result.stores.asked, result.stores.answered) == (3, 2)


@both
@pytest.mark.parametrize("rank", [math.nan, math.inf, -math.inf])
async def test_a_rank_that_is_not_finite_is_the_stores_own_fault(world: OpenWorld, rank: float) -> None:
    opened = await world({"bad": {"all": [("w", 1.0), ("x", rank)]}, **TWO})

    result = await opened.search()

    assert refs(result) == ["b:z", "a:x", "a:y"]
    assert failures(result) == {"bad": "invalid_rank"}


@both
async def test_what_is_wrong_with_the_request_is_an_error_and_no_partial_answer(world: OpenWorld) -> None:
    opened = await world(TWO)
    opened.reader.acts["a", "all"] = bad(RequestError("invalid_params", "no such filter", "another"))

    with pytest.raises(RequestFailed) as caught:
        await opened.search()

    assert (caught.value.code, caught.value.suggestion) == ("invalid_params", "another")


@both
@pytest.mark.parametrize("what", ["phrase", "any", "hits"])
async def test_a_store_that_never_ends_costs_the_others_nothing(world: OpenWorld, what: str) -> None:
    opened = await world({"slow": {"phrase": [("x", -9.0)]}, **TWO})
    opened.reader.acts["slow", what] = endless

    result = await opened.search(seconds=0.4)

    assert refs(result) == ["b:z", "a:x", "a:y"]
    assert (result.complete, failures(result)) == (False, {"slow": "deadline_exceeded"})


@both
async def test_a_store_that_never_ends_does_not_keep_the_others_from_filling_the_limit(
    world: OpenWorld,
) -> None:
    opened = await world({"slow": {"phrase": [("p", -9.0), ("q", -8.0), ("r", -7.0)]}, **TWO})
    opened.reader.acts["slow", "hits"] = endless

    result = await opened.search(limit=3, seconds=0.4)

    assert refs(result) == ["b:z", "a:x", "a:y"]
    assert failures(result) == {"slow": "deadline_exceeded"}


@both
async def test_a_store_that_is_slow_once_is_asked_again_when_the_others_are_served(world: OpenWorld) -> None:
    def slow_at_first(db: StoreConnection) -> None:
        if opened.reader.calls["slow", "phrase"] == 1:
            endless(db)

    opened = await world({"slow": {"phrase": [("x", -10.0)]}, **TWO})
    opened.reader.acts["slow", "phrase"] = slow_at_first

    result = await opened.search(seconds=1.2)

    assert refs(result) == ["slow:x", "b:z", "a:x", "a:y"]
    assert result.complete


@both
async def test_when_no_store_answers_in_time_the_request_has_failed(world: OpenWorld) -> None:
    opened = await world(TWO)
    opened.reader.acts |= {("a", "phrase"): endless, ("b", "phrase"): endless}

    with pytest.raises(RequestFailed) as caught:
        await opened.search(seconds=0.2)

    assert caught.value.code == "deadline_exceeded"


# --------------------------------------------------------------------------- grep

GREP: Script = {"a": {"all": [("x", 0.0), ("z", 0.0)]}, "b": {"all": [("x", 0.0), ("y", 0.0)]}}


async def test_matches_come_by_id_and_store(world: OpenWorld) -> None:
    result = await (await world(GREP)).grep()

    assert [match.ref for match in result.matches] == ["a:x", "b:x", "b:y", "a:z"]
    assert (result.truncated, result.complete, result.stores.answered) == (False, True, 2)


async def test_a_grep_that_is_cut_says_so_wherever_it_was_cut(world: OpenWorld) -> None:
    opened = await world(GREP)

    assert [match.ref for match in (await opened.grep(limit=3)).matches] == ["a:x", "b:x", "b:y"]
    assert (await opened.grep(limit=3)).truncated
    assert (await opened.grep(limit=1, stores=["a"])).truncated
    assert not (await opened.grep(limit=2, stores=["a"])).truncated
    assert len((await opened.grep(limit=-1)).matches) == 1


async def test_a_store_that_fails_in_a_grep_hides_no_other(world: OpenWorld) -> None:
    opened = await world(GREP)
    opened.reader.acts["a", "grep"] = bad(StoreError("damaged", "it is broken"))

    result = await opened.grep()

    assert [match.ref for match in result.matches] == ["b:x", "b:y"]
    assert (result.complete, [failure.code for failure in result.stores.failed]) == (False, ["damaged"])


async def test_a_store_that_never_ends_in_a_grep_hides_no_other(world: OpenWorld) -> None:
    opened = await world(GREP)
    opened.reader.acts["a", "grep"] = endless

    result = await opened.grep(seconds=0.3)

    assert [match.ref for match in result.matches] == ["b:x", "b:y"]
    assert [failure.code for failure in result.stores.failed] == ["deadline_exceeded"]


async def test_a_pattern_that_a_reader_rejects_is_an_error(world: OpenWorld) -> None:
    opened = await world(GREP)
    opened.reader.acts["b", "grep"] = bad(RequestError("pattern_rejected", "too expensive"))

    with pytest.raises(RequestFailed) as caught:
        await opened.grep()

    assert caught.value.code == "pattern_rejected"


async def test_a_grep_is_kept_and_asked_anew_when_the_store_changes(world: OpenWorld) -> None:
    opened = await world(GREP)
    first = await opened.grep()
    assert await opened.grep() == first
    assert opened.reader.calls["a", "grep"] == 1

    opened.reader.script["a"] = {}
    opened.touch("a")
    await opened.parts.look()
    assert [match.ref for match in (await opened.grep()).matches] == ["b:x", "b:y"]
    assert opened.reader.calls["b", "grep"] == 1


async def test_who_wants_to_know_hears_of_each_store_that_was_grepped(world: OpenWorld) -> None:
    opened = await world(GREP)
    heard: list[Partial] = []

    async def report(partial: Partial) -> None:
        heard.append(partial)

    await opened.grepping().grep(GrepParams("q"), Budget.lasting(10), report)

    assert [(partial.asked, partial.answered, partial.hits) for partial in heard] == [(2, 1, []), (2, 2, [])]


async def test_nothing_is_left_beside_the_stores(world: OpenWorld) -> None:
    opened = await world(TWO)
    await opened.search()
    await opened.grep()
    await opened.parts.close()

    assert names_in(opened.stores) == ["a.sqlite", "b.sqlite"]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
