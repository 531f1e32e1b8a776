from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest


@pytest.mark.rule("describe-payload", "describe-zone", "quiet-table", "ledger-relation")
def test_a_listing_names_every_relation_and_what_it_is(example: Any) -> None:
    listing = example("context.describe")
    tables = {one["table"]: one for one in listing["tables"]}

    assert listing["session_zone"] == "local:device"
    assert list(tables) == sorted(tables)
    assert {"events", "feed_sync_items", "hollow", "kb/articles", "notes", "quiet"} <= tables.keys()
    assert tables["notes"] == {
        "table": "notes",
        "kind": "data",
        "description": "Analyst notes.",
        "zone_admitted": True,
    }
    assert tables["notes__requests"]["kind"] == "ledger"


@pytest.mark.rule("template-projection")
def test_a_listing_shows_templates_as_tools_with_the_schema_of_their_arguments(example: Any) -> None:
    assert example("context.describe")["templates"] == [
        {
            "name": "notes_for",
            "inputSchema": {
                "type": "object",
                "properties": {"note_id": {"type": "string"}},
                "required": ["note_id"],
            },
            "limits": {"max_rows": 5},
        }
    ]


@pytest.mark.rule("describe-payload", "column-hints", "budget-advertisement", "advertised-is-enforced")
def test_a_description_says_what_a_table_is(example: Any) -> None:
    notes = example("context.describe", table="notes")

    assert notes["row_count"] == 5
    assert (notes["description"], notes["hint"]) == ("Analyst notes.", None)
    assert notes["column_hints"] == {"title": "one line"}
    assert notes["columns"][:2] == [
        {"name": "note_id", "type": "VARCHAR"},
        {"name": "title", "type": "VARCHAR"},
    ]
    assert notes["example_queries"] == ["SELECT count(*) FROM notes"]
    assert notes["limits"] == {"max_rows": 50, "max_duration_ms": 5000}
    assert (notes["zone"], notes["session_zone"], notes["zone_admitted"]) == (
        ["local:device", "on-prem:*"],
        "local:device",
        True,
    )
    assert notes["lexicon"] == {}
    assert "contextful.bounds" not in notes


@pytest.mark.rule("describe-payload")
def test_the_fingerprint_is_of_one_line_for_each_column(example: Any) -> None:
    own = ["ccy:Utf8", "rate:Int64", "from_ts:Timestamp", "to_ts:Timestamp"]
    injected = ["_ingested_at:Timestamp", "_run_id:Utf8", "_row_seq:Int64", "_commit_seq:Int64"]
    lines = [*own, *injected, "_batch_seq:Int32", "_site_id:Utf8"]
    expected = hashlib.sha256("\n".join(lines).encode()).hexdigest()

    assert example("context.describe", table="rates")["schema_fingerprint"] == expected


@pytest.mark.rule("size-estimate")
def test_the_size_is_that_of_the_rows_as_json(example: Any) -> None:
    shown = example("context.describe", table="state")
    row = example("context.query", sql="SELECT CAST(to_json(t) AS VARCHAR) AS text FROM state AS t")["rows"][
        0
    ][0]

    assert json.loads(row)["k"] == "a"
    assert shown["bytes"] == len(row.encode())
    assert shown["estimated_tokens"] == (len(row.encode()) + 3) // 4


@pytest.mark.rule("describe-payload")
def test_a_description_shows_indexes_and_partitions(example: Any) -> None:
    assert example("context.describe", table="orders")["partition_by"] == ["tenant"]
    assert example("context.describe", table="kb/articles")["indexes"] == [
        {"kind": "fulltext", "column": "body"},
        {"kind": "vector", "column": "embedding", "model": "stub", "dim": 3},
    ]


@pytest.mark.rule("advertised-is-enforced", "budget-advertisement")
def test_a_table_that_declares_no_limit_shows_none(example: Any) -> None:
    assert "limits" not in example("context.describe", table="rates")


@pytest.mark.rule("quiet-table")
def test_a_table_without_rows_is_described_by_what_is_declared(example: Any) -> None:
    quiet = example("context.describe", table="quiet")

    assert (quiet["row_count"], quiet["bytes"], quiet["estimated_tokens"]) == (0, 0, 0)
    assert [one["name"] for one in quiet["columns"]][:3] == ["source_run", "observed_at", "n"]
    assert len(quiet["columns"]) == 8


def test_a_description_counts_under_its_bounds(example: Any) -> None:
    described = example("context.describe", table="notes", as_of="2030-01-10T03:00:00Z")

    assert described["row_count"] == 3
    assert described["contextful.bounds"]["as_of"] == "2030-01-10T03:00:00.000000000Z"


@pytest.mark.rule("ledger-relation", "scoped-ledger")
def test_a_ledger_is_described_like_a_table(example: Any) -> None:
    ledger = example("context.describe", table="notes__requests")

    assert ledger["row_count"] == 2
    assert [one["name"] for one in ledger["columns"]][:3] == ["run_id", "batch_seq", "request_id"]


@pytest.mark.parametrize("name", ["no_such_table", "NOTES", "", "information_schema.tables"])
def test_an_unknown_relation_is_refused(example: Any, name: str) -> None:
    assert example.refusal("context.describe", table=name).code == "EnforceUnknownRelation"
