"""The order of DESIGN §5 through the whole federation: nothing about timing enters it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated.cache import Cache
from collated.embedding import Embedders
from collated.federation import Federation
from collated.merge import dedupe, merge_contract, merge_fused
from collated.protocol import SearchParams, SearchResult
from collated_readers import TIERS, Budget, Hit, Query, Ranked, Tier, single
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    from tests.daemon.conftest import InTurn, OpenWorld, PutStore
    from tests.daemon.scripted import Script
    from tests.daemon.worlds import Assemble, Parts, World

pytestmark = pytest.mark.anyio

Ranking = Literal["contract", "fused"]
STORES = ("a", "b", "b-2", "c", "z")
ASKED: tuple[Tier, ...] = ("phrase", "all", "any")

# Few ids and ranks, so that hits tie between stores and an id stands in several tiers.
found = st.lists(
    st.tuples(st.sampled_from(["1", "2", "3", "é"]), st.sampled_from([-2.0, -1.0, 0.5])),
    max_size=4,
    unique_by=lambda pair: pair[0],
)
tiers = st.dictionaries(st.sampled_from(ASKED), found)
scripts = st.fixed_dictionaries(dict.fromkeys(STORES, tiers))
limits = st.integers(1, 12)
rankings: st.SearchStrategy[Ranking] = st.sampled_from(["contract", "fused"])

# The world is opened once; every example puts another script into it, and asks with caches of its own.
many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
async def small(world: OpenWorld) -> AsyncIterator[World]:
    yield await world({store: {} for store in STORES})


@pytest.fixture
async def fruit(assemble: Assemble, stores: Path, put_store: PutStore) -> Parts:
    put_store(stores / "fruit.sqlite", "fruit")
    parts = assemble()
    await parts.look()
    return parts


def complete_lists(script: Script, limit: int) -> dict[str, list[Ranked]]:
    """Return each store's own list, every tier asked to its end."""
    lists: dict[str, list[Ranked]] = {}
    for store, by_tier in script.items():
        ordered = {tier: sorted((rank, record) for record, rank in by_tier.get(tier, ())) for tier in TIERS}
        ranked = [[Ranked(record, tier, rank, 0) for rank, record in ordered[tier]][:limit] for tier in TIERS]
        lists[store] = dedupe(ranked, limit)
    return lists


async def search(
    world: World, limit: int, ranking: Ranking, *, workers: int = 4, cache: Cache | None = None
) -> SearchResult:
    federation = world.federation(workers=workers, cache=cache)
    return await federation.search(SearchParams("q", limit=limit, ranking=ranking), Budget.lasting(30))


def shown(result: SearchResult) -> list[tuple[str, str]]:
    return [(hit.ref, hit.snippet) for hit in result.hits]


# --------------------------------------------------------------------------- whatever the stores hold


@many
@given(script=scripts, limit=limits, ranking=rankings)
async def test_asking_tier_by_tier_gives_what_merging_complete_lists_gives(
    small: World, script: Script, limit: int, ranking: Ranking
) -> None:
    small.reader.script = script
    merge = merge_fused if ranking == "fused" else merge_contract

    result = await search(small, limit, ranking)

    expected = merge(complete_lists(script, limit), limit)
    assert shown(result) == [
        (f"{store}:{hit.id}", f"{store}:{hit.tier}:{hit.rank}") for store, hit in expected
    ]
    assert result.complete


@many
@given(script=scripts, limit=limits, lines=st.lists(st.integers(0, 6), min_size=12, max_size=12))
async def test_of_hits_whose_lines_overlap_in_one_document_the_best_is_shown(
    small: World, script: Script, limit: int, lines: list[int]
) -> None:
    ids = sorted({record for tiers in script.values() for hits in tiers.values() for record, _ in hits})
    small.reader.script = script
    small.reader.lines = {record: (at, at + 1) for record, at in zip(ids, lines, strict=False)}

    result = await search(small, limit, "contract")
    small.reader.lines, given = {}, small.reader.lines

    taken: set[tuple[str, int]] = set()
    expected: list[str] = []
    for store, hit in merge_contract(complete_lists(script, 400), 400):
        places = {(store, line) for line in given.get(hit.id, ())}
        if not places & taken:
            taken |= places
            expected.append(f"{store}:{hit.id}")
    assert [hit.ref for hit in result.hits] == expected[:limit]


@many
@given(script=scripts, limit=limits, ranking=rankings, order=st.permutations(STORES))
async def test_workers_cache_and_order_of_arrival_change_no_byte_of_the_answer(
    small: World, in_turn: InTurn, *, script: Script, limit: int, ranking: Ranking, order: list[str]
) -> None:
    small.reader.script = script
    kept, tiny = Cache(1 << 20), Cache(2_000)

    answers = {
        msgspec.json.encode(await search(small, limit, ranking, workers=workers, cache=cache))
        for workers, cache in [(1, None), (16, None), (16, kept), (1, kept), (2, tiny), (2, tiny)]
    }
    turns = in_turn(order)
    small.reader.acts = {(store, "phrase"): turns for store in STORES}
    answers.add(msgspec.json.encode(await search(small, limit, ranking, workers=16)))
    small.reader.acts = {}

    assert len(answers) == 1


@many
@given(script=scripts, limit=limits, ranking=rankings)
async def test_a_limit_is_a_prefix_of_the_next(
    small: World, script: Script, limit: int, ranking: Ranking
) -> None:
    small.reader.script = script

    fewer = await search(small, limit, "contract")
    more = await search(small, limit + 1, "contract")

    assert shown(fewer) == shown(more)[:limit]


@many
@given(script=scripts, dropped=st.sampled_from(STORES))
async def test_dropping_a_store_removes_its_hits_and_moves_nothing_else(
    small: World, script: Script, dropped: str
) -> None:
    small.reader.script = script
    rest = [store for store in STORES if store != dropped]

    every = await search(small, 50, "contract")
    federation = small.federation()
    fewer = await federation.search(SearchParams("q", limit=50, stores=rest), Budget.lasting(30))

    assert shown(fewer) == [pair for pair in shown(every) if not pair[0].startswith(f"{dropped}:")]


@many
@given(script=scripts, limit=limits, changing=st.sampled_from(STORES), what=st.sampled_from([*ASKED, "hits"]))
async def test_a_store_that_changes_meanwhile_changes_nothing_if_it_holds_the_same(
    small: World, script: Script, limit: int, changing: str, what: str
) -> None:
    small.reader.script = script
    before = await search(small, limit, "contract")
    has_changed: list[str] = []

    def change(db: StoreConnection) -> None:
        if not has_changed:
            has_changed.append(changing)
            small.touch(changing)

    small.reader.acts = {(changing, what): change}
    after = await search(small, limit, "contract")
    small.reader.acts = {}

    assert after == before


# --------------------------------------------------------------------------- one real store


@pytest.mark.parametrize("query", ["garden", "apple", "the apple tree", "pear garden autumn", "zebra", "***"])
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_one_store_alone_is_the_contracts_answer(fruit: Parts, query: str, limit: int) -> None:
    federation = Federation(fruit.fanout, fruit.corpora, fruit.cache, Embedders({}, {}))

    result = await federation.search(SearchParams(query, limit=limit), Budget.lasting(10))

    def alone(db: StoreConnection) -> single.Answer:
        return single.search(ContextPull(), db, Query(query, (), limit))

    (store,) = fruit.inventory.in_order()
    expected = await fruit.pool.ask(store.path, None, alone, Budget.lasting(10))
    fields = Hit.__struct_fields__
    assert [[getattr(hit, name) for name in fields] for hit in result.hits] == [
        [getattr(hit, name) for name in fields] for hit in expected.hits
    ]
    assert (result.hint, result.mode) == (expected.hint, expected.mode)
