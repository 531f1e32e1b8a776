"""Readers that make a store's whole list: it is kept as it is, and stands among those of other stores."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from collated.cache import Cache
from collated.embedding import Embedders
from collated.federation import Federation
from collated.protocol import SearchParams, SearchResult
from collated_readers import Budget, Hit, Query, Ranked, Tier, single
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from tests.daemon.conftest import PutStore
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio

# The third of `code` is better than what stands before it: its program shows another file first.
OWN: Mapping[str, Sequence[tuple[str, Tier, float]]] = {
    "code": [("m", "symbol", -2.0), ("x", "any", -3.5), ("c", "any", -1.0), ("a", "any", -2.5)],
    "more": [("y", "any", -3.0), ("z", "any", -0.5)],
}


class Ranking(ContextPull):
    """Has its own list of each store, whatever is asked; its tiers are never asked for."""

    format = "ranking"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """Recognise every file."""
        return True

    def own(self, db: sqlite3.Connection, query: Query) -> list[Ranked]:
        """Give the beginning of the list."""
        assert isinstance(db, StoreConnection)
        self.calls.append(db.path.stem)
        return [Ranked(record, tier, rank, 0) for record, tier, rank in OWN[db.path.stem]][: query.limit]

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """Fail, since nobody should ask."""
        raise AssertionError(f"asked for the tier {tier}")

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """Say nothing but the score."""
        return [Hit(one.id, one.id, "", "", round(-one.rank, 2), "prose", one.tier) for one in ranked]


@pytest.fixture
def reader() -> Ranking:
    return Ranking()


@pytest.fixture
async def parts(assemble: Assemble, stores: Path, put_store: PutStore, reader: Ranking) -> Parts:
    for name in OWN:
        put_store(stores / f"{name}.sqlite", "fruit")
    parts = assemble(None, [reader])
    await parts.look()
    return parts


async def search(
    parts: Parts, cache: Cache | None = None, *, text: str = "q", **params: object
) -> SearchResult:
    federation = Federation(parts.fanout, parts.corpora, cache or Cache(0), Embedders({}, {}))
    asked = SearchParams(text, **params)  # type: ignore[arg-type]  # the test's own names
    return await federation.search(asked, Budget.lasting(10))


@pytest.mark.parametrize("limit", range(1, 7))
async def test_lists_are_merged_by_tier_and_rank_and_keep_their_order(parts: Parts, limit: int) -> None:
    merged = [
        ("code:m", 2.0),
        ("code:x", 3.5),
        ("more:y", 3.0),
        ("code:c", 1.0),
        ("code:a", 1.0),
        ("more:z", 0.5),
    ]
    result = await search(parts, limit=limit)
    assert [(hit.ref, hit.score) for hit in result.hits] == merged[:limit]
    assert (result.complete, result.stores.answered) == (True, 2)


async def test_fused_they_are_merged_by_place(parts: Parts) -> None:
    result = await search(parts, ranking="fused")
    assert [hit.ref for hit in result.hits] == ["code:m", "more:y", "code:x", "more:z", "code:c", "code:a"]


async def test_one_store_alone_gives_what_its_reader_gives(parts: Parts, reader: Ranking) -> None:
    def alone(db: StoreConnection) -> single.Answer:
        return single.search(reader, db, Query("q", (), 3))

    expected = await parts.pool.ask(parts.inventory.in_order()[0].path, None, alone, Budget.lasting(10))
    result = await search(parts, stores=["code"], limit=3)
    assert [(hit.id, hit.score) for hit in result.hits] == [(hit.id, hit.score) for hit in expected.hits]


async def test_what_was_asked_before_is_not_asked_again(parts: Parts, reader: Ranking) -> None:
    cache = Cache(1 << 20)
    first = await search(parts, cache)
    assert await search(parts, cache) == first
    assert sorted(reader.calls) == ["code", "more"]


async def test_a_store_that_turns_into_one_of_another_format_gives_nothing_and_nothing_is_kept(
    assemble: Assemble, stores: Path, put_store: PutStore, reader: Ranking
) -> None:
    class Turning(Ranking):
        def own(self, db: sqlite3.Connection, query: Query) -> list[Ranked]:
            self.recognises = lambda *_: False  # type: ignore[method-assign]  # it is of ContextPull by now
            os.utime(path, (2_000_000_000, 2_000_000_000))
            return super().own(db, query)

    path, turning = put_store(stores / "code.sqlite", "fruit"), Turning()
    parts = assemble(None, [turning, ContextPull()])
    await parts.look()
    cache = Cache(1 << 20)

    result = await search(parts, cache)

    assert [(failed.store, failed.code) for failed in result.stores.failed] == [("code", "vanished")]
    assert (result.hits, set(turning.calls), cache.stats()["entries"]) == ([], {"code"}, 0)
    assert [hit.ref for hit in (await search(parts, cache, text="pear")).hits] == ["code:pear.md#0"]


async def test_without_words_nobody_is_asked(parts: Parts, reader: Ranking) -> None:
    result = await search(parts, text="")
    assert (result.hits, reader.calls) == ([], [])
