"""Near vectors over stores whose vectors are of one kind, or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from collated.errors import RequestFailed
from collated.protocol import METHODS
from collated.similar import mismatch
from collated_readers import RequestError, StoreError
from collated_readers.vectors import Direction, Metric, Similar, VectorFacts

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenCode
    from tests.daemon.worlds import CodeWorld

pytestmark = pytest.mark.anyio

SMALL = VectorFacts("small", 2, "cosine", "higher")


def vectors(*found: tuple[str, float], facts: VectorFacts = SMALL, text: str = "the text") -> dict[str, Any]:
    hits = tuple(Similar(record, "book.md", "Book > One", text, score) for record, score in found)
    return {"vectors": facts, "similar": hits}


def facts(model: str = "small", dimensions: int = 2, metric: Metric = "cosine") -> VectorFacts:
    direction: Direction = "lower" if metric == "l2" else "higher"
    return VectorFacts(model, dimensions, metric, direction)


async def similar(world: CodeWorld, *vector: float, **params: object) -> Any:
    """Ask as a session does, and return the decoded result."""
    methods = world.parts.methods
    given = {"vector": list(vector or (1.0, 0.5)), **params}
    typed = msgspec.convert(given, METHODS["vectors.search"].params)
    encoded = await methods.answer(methods.codec("lines"), "vectors.search", typed, None)
    return msgspec.json.decode(encoded, type=METHODS["vectors.search"].result)


async def refused(world: CodeWorld, *vector: float, **params: object) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        await similar(world, *vector, **params)
    return caught.value


def failures(result: Any) -> dict[str, str]:
    return {failure.store: failure.code for failure in result.stores.failed}


def refs(result: Any) -> list[str]:
    return [hit.ref for hit in result.hits]


# --------------------------------------------------------------------------- an answer


async def test_a_hit_says_where_it_is_and_what_its_score_means(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors(("1", 0.5)), "b": vectors(("2", 0.75), ("3", 0.25))})

    result = await similar(opened)

    assert refs(result) == ["b:2", "a:1", "b:3"]
    (first, *_) = result.hits
    assert (first.store, first.id, first.doc, first.heading_path, first.kind) == (
        *("b", "2", "book.md", "Book > One", "passage"),
    )
    assert (first.text, first.score, first.metric, first.direction, first.model) == (
        *("the text", 0.75, "cosine", "higher", "small"),
    )
    assert (result.order, result.truncated, result.complete) == ("score", False, True)


async def test_the_vector_and_the_limit_reach_the_reader(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors()})

    await similar(opened, 1, -2.5, limit=5_000)
    await similar(opened, 1, -2.5, limit=0)

    asked = [given for method, given in opened.coded.asked if method == "similar"]
    assert asked == [([1.0, -2.5], 1_000), ([1.0, -2.5], 1)]


async def test_a_distance_is_better_when_it_is_lower(code_world: OpenCode) -> None:
    l2 = facts(metric="l2")
    opened = await code_world(
        {"a": vectors(("1", 0.1), ("2", 9.0), facts=l2), "b": vectors(("3", 0.5), facts=l2)}
    )

    assert refs(await similar(opened)) == ["a:1", "b:3", "a:2"]


@pytest.mark.parametrize("other", [facts("large"), facts(metric="dot"), facts(metric="l2")])
async def test_scores_of_two_kinds_are_not_compared(code_world: OpenCode, other: VectorFacts) -> None:
    opened = await code_world(
        {"a": vectors(("1", 0.9), ("2", 0.8)), "b": vectors(("3", 0.1), ("4", 0.2), facts=other)}
    )

    result = await similar(opened)

    assert (refs(result), result.order) == (["a:1", "b:3", "a:2", "b:4"], "rank")
    assert {hit.metric for hit in result.hits} == {SMALL.metric, other.metric}


async def test_a_long_text_is_shown_from_its_beginning(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors(("1", 1.0), text="ä" * 5_000)})

    assert (await similar(opened)).hits[0].text == "ä" * 1_000


async def test_no_more_of_a_text_is_kept_than_is_shown(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors(("1", 1.0), text="ä" * 1_000_000)})

    await similar(opened)

    assert opened.parts.cache.stats()["bytes"] < 10_000


# --------------------------------------------------------------------------- vectors of another kind


@pytest.mark.parametrize(
    ("of_store", "dimensions", "model", "code", "named"),
    [
        (facts(), 2, None, None, ()),
        (facts(), 2, "SMALL", None, ()),
        (facts(), 3, None, "invalid_query_vector", ("3", "2", "small")),
        (facts(), 2, "large", "query_model_mismatch", ("large", "small")),
        (facts(), 3, "large", "query_model_mismatch", ("large", "small")),
    ],
)
def test_vectors_of_another_model_or_length_are_not_compared(
    of_store: VectorFacts, dimensions: int, model: str | None, code: str | None, named: tuple[str, ...]
) -> None:
    refusal = mismatch(of_store, dimensions, model)

    assert (refusal.code if refusal else None) == code
    assert all(word in (refusal.message if refusal else "") for word in named)


async def test_a_store_of_another_kind_does_not_answer_and_the_others_do(code_world: OpenCode) -> None:
    opened = await code_world(
        {
            "a": vectors(("1", 0.5)),
            "b": vectors(("2", 0.5), facts=facts("large")),
            "c": vectors(("3", 0.5), facts=facts(dimensions=3)),
        }
    )

    result = await similar(opened, model="small")

    assert (refs(result), result.complete, result.order) == (["a:1"], False, "score")
    assert failures(result) == {"b": "query_model_mismatch", "c": "invalid_query_vector"}
    assert (result.stores.asked, result.stores.answered) == (3, 1)


async def test_however_often_a_store_is_of_another_kind_it_is_not_left_alone(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors(("1", 0.5)), "b": vectors(("2", 0.5), facts=facts("large"))})

    for limit in range(1, 9):
        result = await similar(opened, model="small", limit=limit)
        assert failures(result) == {"b": "query_model_mismatch"}


async def test_where_every_store_is_of_another_kind_the_request_is_wrong(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors(facts=facts("large")), "b": vectors(facts=facts("larger"))})

    failed = await refused(opened, model="small")

    assert failed.code == "query_model_mismatch"
    assert failed.message.startswith("a: ")
    assert "large" in failed.message
    assert "small" in failed.message
    assert (await refused(opened, 1, 2, 3)).code == "invalid_query_vector"


async def test_a_store_that_is_broken_beside_them_is_named_instead(code_world: OpenCode) -> None:
    broken = {"vectors": SMALL, "similar": StoreError("invalid_vector", "record 7 has NaN")}
    opened = await code_world({"a": vectors(facts=facts("large")), "b": broken})

    result = await similar(opened, model="small")

    assert failures(result) == {"a": "query_model_mismatch", "b": "invalid_vector"}


@pytest.mark.parametrize("vector", [(0.0, 0.0), (float("nan"), 1.0), (1.0, float("inf"))])
async def test_a_vector_that_is_wrong_for_every_store_is_refused_at_once(
    code_world: OpenCode, vector: tuple[float, ...]
) -> None:
    opened = await code_world({"a": vectors(("1", 0.5))})

    assert (await refused(opened, *vector)).code == "invalid_query_vector"
    assert not opened.coded.asked


async def test_an_empty_vector_is_refused(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors()})

    assert (await refused(opened, vector=[])).code == "invalid_query_vector"


async def test_what_one_reader_finds_wrong_with_the_vector_is_said_of_its_store(code_world: OpenCode) -> None:
    picky = {"vectors": SMALL, "similar": RequestError("invalid_query_vector", "too large for float32")}
    opened = await code_world({"a": picky, "b": vectors(("1", 0.5))})

    result = await similar(opened)

    assert (refs(result), failures(result)) == (["b:1"], {"a": "invalid_query_vector"})


async def test_a_score_that_is_no_number_is_the_stores_fault(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors(("1", float("nan"))), "b": vectors(("2", 0.5))})

    result = await similar(opened)

    assert (refs(result), failures(result)) == (["b:2"], {"a": "invalid_rank"})


# --------------------------------------------------------------------------- what is remembered


async def test_a_store_that_did_not_change_is_not_asked_the_same_again(code_world: OpenCode) -> None:
    opened = await code_world({"a": vectors(("1", 0.5)), "b": vectors(("2", 0.5))})
    before = await similar(opened)

    opened.touch("b")
    await opened.parts.inventory.look(now=True)

    assert await similar(opened) == before
    assert [opened.coded.calls[store, "similar"] for store in "ab"] == [1, 2]
    await similar(opened, 1.0, 0.75)
    assert opened.coded.calls["a", "similar"] == 2
