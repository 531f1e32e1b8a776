"""What an agent asks becomes the daemon's request, or an error that says what to do instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jsonschema import Draft202012Validator

from collated.mcp.asking import asked
from collated.mcp.model import Asked, Tool
from collated.mcp.tools import METHOD_OF, TOOLS
from collated.protocol import METHODS, StoreStatus
from collated_readers import RequestError

MakeStatus = Callable[..., StoreStatus]

FIVE = ("index", "search", "read", "grep", "neighbours")
JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def error_of(name: str, arguments: dict[str, Any], stores: Sequence[StoreStatus] = ()) -> RequestError:
    with pytest.raises(RequestError) as refused:
        asked(name, arguments, stores)
    return refused.value


# ------------------------------------------------------------------------ what is asked


@pytest.mark.parametrize(
    ("name", "arguments", "method", "params"),
    [
        (
            "search",
            {"query": "q"},
            "search",
            {"query": "q", "limit": 10, "mode": "lexical", "ranking": "default"},
        ),
        (
            "search",
            {"query": "q", "in": ["a/*"], "limit": 3, "mode": "hybrid", "stores": ["docs"]},
            "search",
            {
                "query": "q",
                "in": ["a/*"],
                "limit": 3,
                "mode": "hybrid",
                "stores": ["docs"],
                "ranking": "default",
            },
        ),
        ("read", {"id": "docs:a.md#3"}, "read", {"ref": "docs:a.md#3", "context": 0}),
        (
            "read",
            {"id": "a.md#3", "context": 2, "stores": ["docs"]},
            "read",
            {"ref": "a.md#3", "context": 2, "stores": ["docs"]},
        ),
        ("grep", {"pattern": "E1"}, "grep", {"pattern": "E1", "regex": False, "limit": 20}),
        ("neighbours", {"id": "a#1", "after": 0}, "neighbours", {"ref": "a#1", "before": 1, "after": 0}),
        ("stores", {}, "stores", {}),
        ("symbols", {"name": "f"}, "symbols", {"name": "f", "exact": False, "limit": 20}),
        ("chunk", {"path": "a.py", "line": 7}, "chunk", {"path": "a.py", "line": 7}),
        (
            "tables",
            {"store": "data"},
            "context.describe",
            {"store": "data", "max_response_bytes": 100_000},
        ),
        (
            "query",
            {"store": "data", "sql": "SELECT $n", "parameters": {"n": {"type": "integer", "value": 1}}},
            "context.query",
            {
                "store": "data",
                "sql": "SELECT $n",
                "parameters": {"n": {"type": "integer", "value": 1}},
                "max_response_bytes": 100_000,
            },
        ),
    ],
)
def test_a_tool_becomes_a_method_with_the_defaults_it_announces(
    name: str, arguments: dict[str, Any], method: str, params: dict[str, Any]
) -> None:
    assert asked(name, arguments) == Asked(method, params)


@pytest.mark.parametrize("name", FIVE)
def test_the_references_defaults_are_the_wires(shared: Path, name: str) -> None:
    contract = json.loads((shared / "data" / "contextpull" / "tools.json").read_text(encoding="utf-8"))
    schema = next(each for each in contract["tools"] if each["name"] == name)["input_schema"]
    least = dict.fromkeys(schema.get("required", ()), "x")
    full = {key: each["default"] for key, each in schema["properties"].items() if "default" in each}

    assert asked(name, least) == asked(name, {**full, **least})
    wire = METHODS[METHOD_OF[name]].params
    given_least = {"ref" if key == "id" else key: value for key, value in least.items()}
    shown = msgspec.to_builtins(msgspec.convert(given_least, wire))
    if name != "index":  # which has none, and asks for a list of stores where none is known
        assert {key: shown[key] for key in full} == full


# --------------------------------------------------------------------------- the index


def test_an_index_is_of_the_store_that_is_named_or_of_the_only_one(status: MakeStatus) -> None:
    docs, notes, torn = status("docs"), status("notes"), status("old", reason="torn")

    assert asked("index", {}, [docs, torn]) == Asked("index", {"store": "docs"})
    assert asked("index", {"prefix": "a/"}, [docs]) == Asked("index", {"store": "docs", "prefix": "a/"})
    assert asked("index", {"stores": "notes"}, [docs, notes]) == Asked("index", {"store": "notes"})
    assert asked("index", {"stores": ["notes", "notes"]}) == Asked("index", {"store": "notes"})


def test_an_index_of_several_stores_is_the_list_of_them(status: MakeStatus) -> None:
    docs, notes = status("docs"), status("notes")

    assert asked("index", {}, [docs, notes]) == Asked("stores", {})
    assert asked("index", {}, []) == Asked("stores", {})
    assert asked("index", {"prefix": "", "stores": ["docs", "notes"]}, [docs]) == Asked(
        "stores", {"stores": ["docs", "notes"]}
    )
    error = error_of("index", {"prefix": "a/"}, [docs, notes])
    assert (error.code, error.message) == ("invalid_params", "`prefix` needs one store")
    assert "stores=[NAME]" in (error.suggestion or "")


# ------------------------------------------------------------- what can mean but one thing


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"limit": "10"}, {"limit": 10}),
        ({"limit": " -3 "}, {"limit": -3}),
        ({"limit": 10.0}, {"limit": 10}),
        ({"limit": 9_999}, {"limit": 9_999}),  # the daemon clamps it
        ({"limit": None, "in": None, "stores": None}, {"limit": 10}),
        ({"stores": []}, {}),
        ({"in": "guides/*"}, {"in": ["guides/*"]}),
        ({"in": '["a.md", "b.md"]'}, {"in": ["a.md", "b.md"]}),
        ({"in": "[draft].md"}, {"in": ["[draft].md"]}),
        ({"in": '["a.md", 5]'}, None),
        ({"stores": "docs"}, {"stores": ["docs"]}),
        ({"stores": ("docs",)}, None),
        ({"limit": "ten"}, None),
        ({"limit": 1.5}, None),
        ({"limit": float("nan")}, None),
        ({"limit": True}, None),
        ({"limit": "9" * 30}, None),
        ({"limit": 2**60}, None),
        ({"query": 404}, None),
        ({"query": ["a"]}, None),
        ({"in": {"path": "a"}}, None),
        ({"in": ["a", 1]}, None),
        ({"mode": "fuzzy"}, None),
    ],
)
def test_what_is_unambiguous_is_taken_and_the_rest_is_refused(
    given: dict[str, Any], taken: dict[str, Any] | None
) -> None:
    arguments = {"query": "q", **given}
    if taken is None:
        assert error_of("search", arguments).code == "invalid_params"
    else:
        known = {"query": "q", "limit": 10, "mode": "lexical", "ranking": "default"}
        assert asked("search", arguments).params == {**known, **taken}


@pytest.mark.parametrize(
    ("value", "taken"), [("true", True), (" False", False), (True, True), (1, None), ("on", None)]
)
def test_a_boolean_may_be_a_word(value: Any, taken: bool | None) -> None:
    if taken is None:
        assert error_of("grep", {"pattern": "p", "regex": value}).code == "invalid_params"
    else:
        assert asked("grep", {"pattern": "p", "regex": value}).params["regex"] is taken


def test_an_object_may_be_its_json() -> None:
    call = {"store": "data", "sql": "SELECT $n"}
    typed = {"n": {"type": "integer", "value": 1}}

    assert asked("query", {**call, "parameters": json.dumps(typed)}).params["parameters"] == typed
    for wrong in ("{", "[1]", "{" * 100_000, 5):
        assert error_of("query", {**call, "parameters": wrong}).code == "invalid_params"


@pytest.mark.parametrize(
    ("given", "ref"),
    [
        ("[docs:a.md#3]", "docs:a.md#3"),
        ("[docs:[draft].md#1]", "docs:[draft].md#1"),
        ("[draft].md#1", "[draft].md#1"),
        ("[a b]", "[a b]"),
        ("docs:[x]", "docs:[x]"),
    ],
)
def test_a_ref_may_be_given_as_it_is_cited(given: str, ref: str) -> None:
    assert asked("read", {"id": given}).params["ref"] == ref


# ---------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("name", "arguments", "message", "suggestion"),
    [
        ("serch", {}, 'there is no tool "serch"', "did you mean search? the tools are index, search"),
        ("context.query", {}, 'there is no tool "context.query"', "did you mean query?"),
        ("context.describe", {}, 'there is no tool "context.describe"', "did you mean tables?"),
        ("docs.greb", {}, 'there is no tool "docs.greb"', "did you mean grep?"),
        ("\x1b[2J", {}, 'there is no tool "\\u001b[2J"', "the tools are index, search"),
        (
            "search",
            {},
            "search needs `query`",
            "search takes query: a string, in: a list of strings (optional)",
        ),
        ("search", {"query": None}, "search needs `query`", "search takes query: a string"),
        ("query", {}, "query needs `store`, `sql`", "query takes store: a string, sql: a string"),
        ("search", {"q": "x"}, "search has no argument `q`", "did you mean `query`?"),
        ("search", {"query": "x", "q": "x"}, "search has no argument `q`", "its arguments are query, in"),
        ("search", {"query": "x", "path": "a"}, "search has no argument `path`", "did you mean `in`?"),
        ("search", {"query": "x", "top_k": 5}, "search has no argument `top_k`", "did you mean `limit`?"),
        ("search", {"query": "x", "Limits": 5}, "search has no argument `Limits`", "did you mean `limit`?"),
        ("search", {"query": "x", "store": "a"}, "search has no argument `store`", "did you mean `stores`?"),
        ("query", {"stores": ["a"]}, "query has no argument `stores`", "did you mean `store`?"),
        ("read", {"ref": "a:b"}, "read has no argument `ref`", "did you mean `id`?"),
        (
            "search",
            {"query": "x", "limit": "ten"},
            '`limit` is an integer, not "ten"',
            "pass limit as an integer",
        ),
        (
            "search",
            {"query": "x", "mode": "vector"},
            '`mode` is "lexical" or "hybrid", not "vector"',
            'pass mode as "lexical" or "hybrid"; hybrid adds meaning',
        ),
        ("search", {"query": {"a": 1}}, '`query` is a string, not {"a": 1}', "pass query as a string; Words"),
        ("search", {"query": "\ud800"}, "search: text holds half a surrogate pair", "send whole characters"),
        (
            "query",
            {"store": "a", "sql": "b", "parameters": {"n": 1}},
            "query: Expected `object`, got `int` - at `$.parameters[...]`",
            'parameters: an object, by name {"type"',
        ),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_do(
    name: str, arguments: dict[str, Any], message: str, suggestion: str
) -> None:
    error = error_of(name, arguments)

    assert error.code == ("invalid_params" if name in TOOLS else "unknown_tool")
    assert error.message == message
    assert suggestion in (error.suggestion or "")


def test_what_the_wire_says_is_not_repeated_at_length() -> None:
    typed = {"n": {"type": "x" * 1_000_000, "value": 1}}

    assert len(error_of("query", {"store": "a", "sql": "b", "parameters": typed}).message) < 300


@given(
    name=st.sampled_from(sorted(TOOLS)) | st.text(), arguments=st.dictionaries(st.text(), JSON, max_size=3)
)
def test_anything_at_all_is_asked_or_refused_shortly(name: str, arguments: dict[str, Any]) -> None:
    try:
        asked(name, arguments)
    except RequestError as error:
        assert error.code in {"unknown_tool", "invalid_params"}
        assert error.suggestion
        assert len(error.message) + len(error.suggestion) < 1_000


def fitting(schema: dict[str, Any]) -> SearchStrategy[Any]:
    """Return arguments that the schema allows."""
    by_type: dict[str, SearchStrategy[Any]] = {
        "string": st.sampled_from(schema["enum"]) if "enum" in schema else st.text(max_size=20),
        "integer": st.integers(schema.get("minimum"), schema.get("maximum")),
        "boolean": st.booleans(),
        "array": st.lists(st.text(max_size=20), max_size=3),
        "object": st.just({"n": {"type": "string", "value": "v"}}),
    }
    return by_type[schema["type"]]


def calls(tool: Tool) -> SearchStrategy[tuple[Tool, dict[str, Any]]]:
    """Return calls of the tool that its schema allows."""
    schema = tool.input_schema
    fits = {key: fitting(each) for key, each in schema["properties"].items()}
    needed = {key: each for key, each in fits.items() if key in schema.get("required", ())}
    optional = {key: each for key, each in fits.items() if key not in needed}
    return st.tuples(st.just(tool), st.fixed_dictionaries(needed, optional=optional))


CALLS = st.sampled_from([tool for tool in TOOLS.values() if tool.name != "index"]).flatmap(calls)


@given(CALLS)
def test_whatever_the_schema_allows_is_a_request_that_the_daemon_takes(
    call: tuple[Tool, dict[str, Any]],
) -> None:
    tool, arguments = call
    validator = Draft202012Validator(tool.input_schema)
    validator.validate(arguments)  # pyright: ignore[reportUnknownMemberType] - partial stubs

    question = asked(tool.name, arguments)

    assert question.method == METHOD_OF[tool.name]
    wire = METHODS[question.method].params
    params = msgspec.json.decode(msgspec.json.encode(question.params), type=wire)
    same = {key for key in arguments if key != "id" and arguments[key] != []}
    shown = msgspec.to_builtins(params)
    assert {key: shown[key] for key in same} == {key: arguments[key] for key in same}
