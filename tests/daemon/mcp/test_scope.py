"""A caller meets the stores that it may see and learns of no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.errors import RequestFailed
from collated.mcp.asking import asked
from collated.mcp.model import Asked
from collated.mcp.scope import Scope
from collated.mcp.tools import METHOD_OF, TOOLS
from collated.protocol import StoreStatus
from collated_readers import RequestError

MakeStatus = Callable[..., StoreStatus]

MINE = Scope(frozenset({"docs", "notes", "gone"}))
CALLS: dict[str, dict[str, Any]] = {
    "index": {},
    "search": {"query": "q"},
    "read": {"id": "a.md#1"},
    "grep": {"pattern": "p"},
    "neighbours": {"id": "a.md#1"},
    "stores": {},
    "symbols": {"name": "n"},
    "references": {"name": "n"},
    "impact": {"target": "t"},
    "chunk": {"path": "p", "line": 1},
    "architecture": {"store": "docs"},
    "tables": {"store": "docs"},
    "query": {"store": "docs", "sql": "SELECT 1"},
    "retrieve": {"store": "docs", "query": "q"},
    "recall": {"store": "docs", "table": "t", "subject": "s"},
    "reference": {"store": "docs", "table": "t", "run_id": "r", "row_seq": 0},
}


@pytest.fixture(scope="session")
def stores(status: MakeStatus) -> list[StoreStatus]:
    return [
        status("docs", "search", "chunk"),
        status("hidden", "search", "chunk"),
        status("notes", "search"),
        status("old", reason="torn"),
    ]


def test_every_tool_is_called_here() -> None:
    assert CALLS.keys() == TOOLS.keys()


@pytest.mark.parametrize("name", TOOLS)
def test_without_a_scope_nothing_is_changed(stores: list[StoreStatus], name: str) -> None:
    question = asked(name, CALLS[name])

    assert Scope().narrowed(question, stores) is question
    assert Scope().visible(stores) == stores


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_asks_of_its_callers_stores_alone(stores: list[StoreStatus], name: str) -> None:
    params = MINE.narrowed(asked(name, CALLS[name]), stores).params

    assert params.get("stores") == ["docs", "notes"] or params.get("store") == "docs"


@pytest.mark.parametrize("name", TOOLS)
def test_who_may_see_nothing_asks_nobody(stores: list[StoreStatus], name: str) -> None:
    with pytest.raises(RequestError) as refused:
        Scope(frozenset()).narrowed(asked(name, CALLS[name]), stores)

    assert refused.value.code == "unknown_store"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search", {"query": "q", "stores": ["hidden"]}),
        ("search", {"query": "q", "stores": ["docs", "hidden"]}),
        ("index", {"stores": ["hidden"]}),
        ("index", {"stores": ["hidden", "docs"]}),
        ("stores", {"stores": ["hidden"]}),
        ("read", {"id": "hidden:a.md#1"}),
        ("read", {"id": "[hidden:a.md#1]"}),
        ("neighbours", {"id": "hidden:a.md#1"}),
        ("query", {"store": "hidden", "sql": "SELECT 1"}),
        ("chunk", {"path": "p", "line": 1, "store": "hidden"}),
    ],
)
def test_another_store_is_refused_as_one_that_does_not_exist(
    stores: list[StoreStatus], name: str, arguments: dict[str, Any]
) -> None:
    absent: dict[str, Any] = json.loads(json.dumps(arguments).replace("hidden", "absent"))
    said: list[tuple[str, str, str | None]] = []
    for each in (arguments, absent):
        with pytest.raises(RequestError) as refused:
            MINE.narrowed(asked(name, each), stores)
        said.append((refused.value.code, refused.value.message, refused.value.suggestion))

    assert said[0][0] == "unknown_store"
    assert [each.replace("hidden", "absent") for each in map(str, said[0])] == [*map(str, said[1])]


def test_the_closest_of_its_own_stores_are_named(stores: list[StoreStatus]) -> None:
    with pytest.raises(RequestError, match="there is no store 'doc'") as refused:
        MINE.narrowed(asked("search", {"query": "q", "stores": "doc"}), stores)

    assert refused.value.suggestion == "did you mean docs?"


def test_stores_that_are_named_stay_the_ones_that_are_asked(stores: list[StoreStatus]) -> None:
    assert MINE.narrowed(asked("search", {"query": "q", "stores": "notes"}), stores).params["stores"] == [
        "notes"
    ]
    assert MINE.narrowed(asked("read", {"id": "docs:a#1"}), stores).params["ref"] == "docs:a#1"


def test_a_store_that_was_refused_is_listed_and_not_asked(stores: list[StoreStatus]) -> None:
    mine = Scope(frozenset({"docs", "old"}))

    assert mine.narrowed(asked("search", {"query": "q"}), stores).params["stores"] == ["docs"]
    assert mine.narrowed(asked("stores", {}), stores).params["stores"] == ["docs", "old"]


def test_a_store_has_to_be_named_where_several_could_answer(stores: list[StoreStatus]) -> None:
    with pytest.raises(RequestError, match="chunk needs `store`") as refused:
        Scope(frozenset({"docs", "hidden"})).narrowed(asked("chunk", CALLS["chunk"]), stores)

    assert (refused.value.code, refused.value.suggestion) == ("invalid_params", "one of docs, hidden")


def test_a_store_that_vanished_suggests_no_other() -> None:
    failed = RequestFailed("unknown_store", "there is no store 'docs'", "did you mean hidden?")
    other = RequestFailed("unknown_id", "no record", "search for it")

    assert MINE.told(failed).args == ("there is no store 'docs'",)
    assert getattr(MINE.told(failed), "suggestion", None) == "stores lists those that there are"
    assert Scope().told(failed) is failed
    assert MINE.told(other) is other


@given(
    method=st.sampled_from(sorted({*METHOD_OF.values(), "vectors.search", "context.files", "anything"})),
    params=st.fixed_dictionaries(
        {},
        optional={
            "store": st.sampled_from(["docs", "hidden", "notes", "old", ""]),
            "stores": st.lists(st.sampled_from(["docs", "hidden", "notes", "old"])),
            "ref": st.sampled_from(["docs:a#1", "hidden:a#1", "a#1", "hidden:", ":a", "docs"]),
        },
    ),
    allowed=st.frozensets(st.sampled_from(["docs", "notes", "gone", "old"])),
)
def test_whatever_is_asked_only_allowed_stores_are(
    stores: list[StoreStatus], method: str, params: dict[str, Any], allowed: frozenset[str]
) -> None:
    try:
        narrowed = Scope(allowed).narrowed(Asked(method, params), stores).params
    except RequestError as error:
        assert error.code in {"unknown_store", "invalid_params"}
        assert "hidden" not in (error.suggestion or "")
        return
    named = {*narrowed.get("stores", ()), *filter(None, [narrowed.get("store")])}
    assert named
    assert named <= allowed
    assert ":" not in narrowed.get("ref", "") or narrowed["ref"].partition(":")[0] in allowed
