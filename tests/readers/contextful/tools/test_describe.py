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


@pytest.mark.rule("column-hints", "describe-payload")
def test_hints_of_columns_that_are_not_there_are_left_out(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    hints = {"n": "a number", "gone": "no such column", "_run_id": "the run"}
    store.table("t", {"n": "int64"}, column_hints=hints, agent_hint="count them").run("r1", [{"n": 1}])
    described = face_of(store.root)("context.describe", table="t")

    assert described["column_hints"] == {"n": "a number", "_run_id": "the run"}
    assert described["hint"] == "count them"


@pytest.mark.rule("advertised-is-enforced", "face-ceiling")
def test_a_limit_above_what_anything_gives_is_not_advertised(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    limits = {"max_rows": 20_000, "max_response_bytes": 900}
    store.table("t", {"n": "int64"}, policy={"limits": limits}).run("r1", [{"n": n} for n in range(300)])
    face = face_of(store.root)
    answer = face("context.query", sql="SELECT n FROM t")

    assert face("context.describe", table="t")["limits"] == {"max_response_bytes": 900}
    assert answer["contextful.truncation"] == {"by": "bytes", "ceiling": 900, "source": "table"}


@pytest.mark.rule("lexicon-surface")
def test_the_lexicon_shows_two_vocabularies_and_nothing_else(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    store.declare(
        '[lexicon]\nnumeric_identifiers = { cik = "company" }\nbadges = { hot = "new" }\n'
        'aliases = { acme = ["ACME Inc"] }\n'
    )
    store.table("t", {"n": "int64"}).run("r1", [{"n": 1}])
    face = face_of(store.root)
    expected = {"numeric_identifiers": {"cik": "company"}, "badges": {"hot": "new"}}

    assert face("context.describe")["lexicon"] == expected
    assert face("context.describe", table="t")["lexicon"] == expected


@pytest.mark.rule("reserved-relation")
def test_tables_of_the_format_itself_are_tables(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    for name in ("_runs", "_visibility/notes"):
        store.table(name, {"n": "int64"}).run("r1", [{"n": 1}])
    face = face_of(store.root)

    assert {"_runs", "_visibility/notes"} <= {one["table"] for one in face("context.describe")["tables"]}
    assert face("context.query", sql='SELECT n FROM "_visibility/notes"')["rows"] == [["1"]]


@pytest.mark.rule("unregistered-relation")
def test_a_table_with_a_policy_is_not_listed_and_refused_as_one_that_is_not_there(
    make_context_store: Any, face_of: Any
) -> None:
    store = make_context_store()
    store.table("secret", {"n": "int64"}, policy={"rows": {"predicate": "true"}}).run("r1", [{"n": 1}])
    face = face_of(store.root)
    there = face.refusal("context.describe", table="secret")
    absent = face.refusal("context.describe", table="absent")

    assert "secret" not in repr(face("context.describe"))
    assert there.message.replace("secret", "absent") == absent.message


@pytest.mark.rule("size-estimate")
def test_cells_of_every_type_have_a_size(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    columns = {"f": "float64", "b": "binary", "v": "float32[2]", "m": "map<utf8, int64>", "j": "json"}
    row = {"f": float("nan"), "b": b"\xff\x00", "v": [0.5, float("inf")], "m": {"a": 1}, "j": '{"k": 1}'}
    store.table("t", columns).run("r1", [row, {}])

    assert face_of(store.root)("context.describe", table="t")["bytes"] > 100
