"""The tools are the contract's own five and what formats add, each only where some store has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from collated.mcp.tools import METHOD_OF, TOOLS, announced
from collated.protocol import METHODS, StoreStatus
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.contextful.reader import Contextful

MakeStatus = Callable[..., StoreStatus]

ALWAYS = ["index", "search", "read", "grep", "neighbours", "stores"]
OF_CODE = ["symbols", "references", "impact", "chunk", "architecture"]
OF_TABLES = ["tables", "query", "retrieve", "recall", "reference"]


def names(stores: list[StoreStatus]) -> list[str]:
    return [tool.name for tool in announced(stores)]


def test_the_five_of_the_contract_have_its_arguments_and_defaults(shared: Path) -> None:
    contract = json.loads((shared / "data" / "contextpull" / "tools.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in contract["tools"]] == ALWAYS[:5]
    for each in contract["tools"]:
        ours, theirs = TOOLS[each["name"]].input_schema, each["input_schema"]
        assert ours.get("required", []) == theirs.get("required", [])
        assert ours["additionalProperties"] is False
        assert {key: _bare(schema) for key, schema in ours["properties"].items() if key != "stores"} == {
            key: _bare(schema) for key, schema in theirs["properties"].items()
        }
        assert _bare(ours["properties"]["stores"]) == {"type": "array", "items": {"type": "string"}}


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "description"}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_described_shortly_and_has_schemas_of_objects(name: str) -> None:
    tool = TOOLS[name]
    assert tool.name == name
    assert 0 < len(tool.title) < 30
    assert 40 < len(tool.description) < 400
    for schema in (tool.input_schema, tool.output_schema):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "#/$defs/" not in json.dumps(schema) or schema["$defs"]
    assert tool.output_schema["properties"].keys() >= {"freshness", "next"}
    assert '"description": "' not in json.dumps(tool.output_schema)  # those are of the wire's own types
    assert set(tool.input_schema.get("required", ())) <= tool.input_schema["properties"].keys()


def test_what_a_model_reads_of_all_tools_is_short() -> None:
    shown = [[tool.name, tool.description, tool.input_schema] for tool in TOOLS.values()]
    assert len(json.dumps(shown)) / 4 < 3_000


def test_each_asks_a_method_of_the_daemon_that_it_has() -> None:
    assert METHOD_OF.keys() == TOOLS.keys()
    assert set(METHOD_OF.values()) <= METHODS.keys()


def test_there_are_tools_for_every_store_even_without_one(status: MakeStatus) -> None:
    assert names([]) == ALWAYS
    assert names([status("docs")]) == ALWAYS


def test_what_a_format_adds_is_announced_where_an_open_store_has_it(status: MakeStatus) -> None:
    code = status("code", *CodebaseIndex.capabilities)
    tables = status("data", *Contextful.capabilities)

    assert names([status("docs"), code]) == ALWAYS + OF_CODE
    assert names([tables]) == ALWAYS + OF_TABLES
    assert names([tables, code]) == list(TOOLS) == ALWAYS + OF_CODE + OF_TABLES


def test_a_store_that_is_not_open_adds_nothing(status: MakeStatus) -> None:
    assert names([status("code", "symbols", "chunk", reason="torn")]) == ALWAYS
