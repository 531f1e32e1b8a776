"""The order of what code and vector stores answer, through all of the daemon: no timing enters it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated.cache import Cache
from collated.coding import Coding
from collated.fanout import Fanout
from collated.gathering import Gathering
from collated.protocol import METHODS
from collated.reading import Reading
from collated.similar import Similarity
from collated_readers import Budget
from collated_readers.code import Impact, Node, Reference, References, Symbol, Symbols
from collated_readers.vectors import Similar, VectorFacts

if TYPE_CHECKING:
    from tests.daemon.conftest import InTurn, OpenCode
    from tests.daemon.worlds import CodeWorld

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

STORES = ("a", "b", "b-2", "c", "z")
ASKING: dict[str, dict[str, object]] = {
    "symbols": {"name": "get"},
    "references": {"name": "get"},
    "impact": {"target": "get"},
    "vectors.search": {"vector": [1.0, 0.0]},
}
CALLED = {"vectors.search": "similar"}

# Few of each, so that rows of different stores tie.
paths = st.sampled_from(["a.py", "é.py"])
lines = st.integers(1, 2)
symbol = st.builds(Symbol, st.just("get"), st.none(), st.just("class"), paths, lines, lines, st.just("0"))
reference = st.builds(
    Reference, paths, lines, st.just("call"), *[st.none()] * 3, st.sampled_from(["f", "g"]), st.just("0")
)
node = st.builds(
    Node,
    *[
        st.just("symbol"),
        paths,
        st.just("f"),
        lines,
        lines,
        st.just("call"),
        st.just("inferred"),
        st.just("0"),
    ],
)
hit = st.builds(
    Similar, st.sampled_from("123"), st.just("d"), st.just(""), st.just("t"), st.sampled_from([0.5, 0.25])
)
FACTS = VectorFacts("small", 2, "dot", "higher")


def in_order(symbols: list[Symbol]) -> tuple[Symbol, ...]:
    return tuple(sorted(symbols, key=lambda each: (each.name, each.path, each.line_start)))


def by_place(references: list[Reference]) -> tuple[Reference, ...]:
    return tuple(sorted(references, key=lambda each: (each.path, each.line, each.kind)))


def best_first(hits: list[Similar]) -> tuple[Similar, ...]:
    return tuple(sorted(hits, key=lambda each: (-each.score, each.id)))


answer = st.fixed_dictionaries(
    {
        "symbols": st.lists(symbol, max_size=4).map(lambda found: Symbols(in_order(found))),
        "references": st.lists(reference, max_size=4).map(lambda found: References(by_place(found))),
        "impact": st.lists(node, max_size=4).map(lambda found: Impact(tuple(found), ())),
        "vectors": st.just(FACTS),
        "similar": st.lists(hit, max_size=4, unique_by=lambda each: each.id).map(best_first),
    }
)
answers = st.fixed_dictionaries(dict.fromkeys(STORES, answer))
limits = st.integers(1, 12)
methods = pytest.mark.parametrize("method", ASKING)
many = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
async def small(code_world: OpenCode) -> AsyncIterator[CodeWorld]:
    """Stores that are opened once; every example puts other answers into them."""
    yield await code_world({store: {} for store in STORES})


async def ask(
    world: CodeWorld,
    method: str,
    limit: int,
    *,
    workers: int = 4,
    cache: Cache | None = None,
    **params: object,
) -> Any:
    """Ask with caches of one's own, and *workers* stores at a time."""
    fanout = Fanout(world.parts.inventory, world.parts.pool, workers)
    kept = cache or Cache(0)
    typed = msgspec.convert({**ASKING[method], "limit": limit, **params}, METHODS[method].params)
    if method == "vectors.search":
        return await Similarity(fanout, kept).search(typed, Budget.lasting(30))
    return await getattr(Coding(fanout, Reading(fanout, Gathering(fanout, kept)), kept), method)(
        typed, Budget.lasting(30)
    )


def rows(result: Any) -> list[Any]:
    found: list[Any] = getattr(result, result.__struct_fields__[0])
    return found


@methods
@many
@given(given_=answers, limit=limits, order=st.permutations(STORES))
async def test_workers_cache_and_order_of_arrival_change_no_byte_of_the_answer(
    small: CodeWorld, in_turn: InTurn, *, method: str, given_: dict[str, Any], limit: int, order: list[str]
) -> None:
    small.coded.answers, small.coded.acts = given_, {}
    expected = msgspec.json.encode(await ask(small, method, limit, workers=1))
    cache = Cache(1 << 20)

    for workers, kept in ((1, None), (16, cache), (2, cache)):
        assert msgspec.json.encode(await ask(small, method, limit, workers=workers, cache=kept)) == expected

    turns = in_turn(order)
    small.coded.acts = {(store, CALLED.get(method, method)): turns for store in STORES}
    assert msgspec.json.encode(await ask(small, method, limit, workers=16)) == expected


@methods
@many
@given(given_=answers, limit=limits)
async def test_a_limit_gives_the_beginning_of_what_a_larger_one_gives(
    small: CodeWorld, method: str, given_: dict[str, Any], limit: int
) -> None:
    small.coded.answers, small.coded.acts = given_, {}

    fewer, more = await ask(small, method, limit), await ask(small, method, limit + 1)

    assert rows(fewer) == rows(more)[:limit]


@methods
@many
@given(given_=answers, dropped=st.sampled_from(STORES))
async def test_a_store_that_is_left_out_takes_its_own_rows_along_and_no_others(
    small: CodeWorld, method: str, given_: dict[str, Any], dropped: str
) -> None:
    small.coded.answers, small.coded.acts = given_, {}

    every = await ask(small, method, 99)
    rest = await ask(small, method, 99, stores=[store for store in STORES if store != dropped])

    assert rows(rest) == [row for row in rows(every) if row.store != dropped]


@methods
@many
@given(given_=answers, store=st.sampled_from(STORES))
async def test_one_store_alone_gives_its_own_list(
    small: CodeWorld, method: str, given_: dict[str, Any], store: str
) -> None:
    small.coded.answers, small.coded.acts = given_, {}

    result = await ask(small, method, 99, stores=[store])

    if method == "vectors.search":
        assert [each.id for each in rows(result)] == [each.id for each in given_[store]["similar"]]
    elif method != "impact":  # whose nodes come in no order here
        found = getattr(given_[store][method], method)
        assert [each.path for each in rows(result)] == [each.path for each in found]
