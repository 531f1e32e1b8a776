"""What all tools have in common: no argument is ignored, bounds, ceilings of one call, internals."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from collated_readers.contextful.tools import TOOLS
from collated_readers.contextful.wire import TOOLS as NAMES

NEEDED: dict[str, dict[str, Any]] = {
    "context.describe": {},
    "context.query": {"sql": "SELECT 1"},
    "context.reference": {"table": "notes", "run_id": "run-0001", "row_seq": 0},
    "context.lineage": {},
    "context.execute_query": {"id": "notes_for", "arguments": {"note_id": "n1"}},
    "context.files": {},
    "context.file": {"path": "tables/notes/data/runs/run-0007/ingest-a/part-00000.parquet"},
    "context.subscribe": {"tables": ["notes"]},
    "memory.recall": {"table": "quiet", "subject": "x"},
}
ANSWERED = [name for name in NEEDED if name != "context.lineage"]
BOUNDED = [name for name in ANSWERED if name not in ("context.subscribe", "memory.recall")]
ROWS = ["context.query", "context.reference", "context.execute_query", "context.file"]


def test_every_tool_of_the_face_is_tried_here() -> None:
    assert set(NEEDED) == set(TOOLS) == set(NAMES) - {"corpus.retrieve"}


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("argument", ["no_such_argument", "zone", "horizon"])
def test_an_unknown_argument_is_refused(example: Any, name: str, argument: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=argument):
        example(name, **NEEDED[name], **{argument: "x"})


@pytest.mark.parametrize("name", [name for name in NEEDED if name != "memory.recall"])
def test_an_undeclared_limit_of_rows_is_refused(example: Any, name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="limit"):
        example(name, **NEEDED[name], limit=3)


@pytest.mark.parametrize(
    ("name", "argument"), [(name, argument) for name in NEEDED for argument in NEEDED[name]]
)
def test_a_missing_or_mistyped_argument_is_refused(example: Any, name: str, argument: str) -> None:
    others = {key: value for key, value in NEEDED[name].items() if key != argument}
    with pytest.raises(msgspec.ValidationError, match=argument):
        example(name, **others, **{argument: {"no": 1.5} if argument != "arguments" else 7})


@pytest.mark.rule("budget-arguments")
@pytest.mark.parametrize("argument", ["max_duration_ms", "max_response_bytes"])
def test_every_read_tool_but_subscribe_takes_ceilings(example: Any, argument: str) -> None:
    for name in ANSWERED:
        if name != "context.subscribe":
            assert example(name, **NEEDED[name], **{argument: 60_000})
    with pytest.raises(msgspec.ValidationError, match=argument):
        example("context.subscribe", **NEEDED["context.subscribe"], **{argument: 60_000})


@pytest.mark.rule("budget-arguments")
@pytest.mark.parametrize("value", [-1, 1.5, "9", True])
def test_a_ceiling_is_a_number_of_milliseconds_or_bytes(example: Any, value: object) -> None:
    with pytest.raises(msgspec.ValidationError, match="max_duration_ms"):
        example("context.query", sql="SELECT 1", max_duration_ms=value)


@pytest.mark.rule("duration-no-statement")
def test_a_tool_without_a_statement_takes_a_ceiling_of_time_and_is_not_stopped(example: Any) -> None:
    assert example("context.files", max_duration_ms=0)["rows"]


@pytest.mark.rule("byte-ceiling")
@pytest.mark.parametrize("name", [name for name in ANSWERED if name != "context.subscribe"])
def test_an_answer_whose_first_row_does_not_fit_is_refused(example: Any, name: str) -> None:
    assert example.refusal(name, **NEEDED[name], max_response_bytes=20).code == "ReadResponseTooLarge"


# ------------------------------------------------------------------------------ bounds


@pytest.mark.rule("bound-arguments")
@pytest.mark.parametrize("name", [name for name in BOUNDED if name != "context.file"])
def test_read_tools_take_as_of_and_echo_it(example: Any, name: str) -> None:
    answer = example(name, **NEEDED[name], as_of="2030-01-10T03:00:00Z")

    assert answer["contextful.bounds"] == {"as_of": "2030-01-10T03:00:00.000000000Z", "inclusive": True}


@pytest.mark.rule("bound-arguments")
@pytest.mark.parametrize("argument", ["as_of", "valid_as_of", "available_as_of"])
@pytest.mark.parametrize("name", ["context.subscribe", "context.lineage", "memory.recall"])
def test_tools_without_bounds_refuse_them(example: Any, name: str, argument: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=argument):
        example(name, **NEEDED[name], **{argument: "2030-01-10T03:00:00Z"})


@pytest.mark.rule("bound-listing", "available-bound-listing")
@pytest.mark.parametrize("name", ["context.files", "context.describe"])
def test_a_listing_is_bounded_by_as_of_alone(example: Any, name: str) -> None:
    both = {"valid_as_of": "2030-01-20", "available_as_of": "2030-01-20"}
    bounded = example(name, as_of="2030-01-11", **both)

    assert bounded == example(name, as_of="2030-01-11")
    assert bounded["contextful.bounds"] == {"as_of": "2030-01-12T00:00:00.000000000Z", "inclusive": False}
    assert "contextful.bounds" not in example(name, **both)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("argument", ["as_of", "valid_as_of", "available_as_of"])
@pytest.mark.parametrize("text", ["2030-01-10 03:00:00Z", "yesterday", "2030-01-10T03:00:00", ""])
def test_a_bound_that_is_no_instant_is_refused(example: Any, name: str, argument: str, text: str) -> None:
    refusal = example.refusal(name, **NEEDED[name], **{argument: text})

    assert refusal.code == "invalid_params"
    assert argument in refusal.message


@pytest.mark.rule("bound-arguments")
def test_valid_time_narrows_only_what_is_read(example: Any) -> None:
    at = {"valid_as_of": "2030-02-01T00:00:00Z"}
    rates = example("context.query", sql="SELECT ccy, rate FROM rates ORDER BY ccy", **at)

    assert rates["rows"] == [["eur", "2"], ["gbp", "3"]]
    assert rates["contextful.bounds"] == {"valid_as_of": "2030-02-01T00:00:00.000000000Z", "inclusive": True}
    assert example("context.query", sql="SELECT 1 AS one", **at)["rows"] == [[1]]
    assert example.refusal("context.query", sql="FROM notes", **at).code == "StoreValidTimeUndeclared"


@pytest.mark.rule("available-bound-argument")
def test_available_time_is_asked_of_what_is_read_alone(example: Any) -> None:
    at = {"available_as_of": "2030-02-01"}
    answer = example("context.query", sql="SELECT 1 AS one", **at)

    assert answer["contextful.bounds"]["available_as_of"] == "2030-02-02T00:00:00.000000000Z"
    for name in ("context.describe", "context.reference"):
        params = {**NEEDED[name], "table": "notes"}
        assert example.refusal(name, **params, **at).code == "StoreAvailableTimeUndeclared"
    assert example.refusal("context.query", sql="FROM notes", **at).code == "StoreAvailableTimeUndeclared"


@pytest.mark.rule("null-pin", "pin-parameter")
@pytest.mark.parametrize("name", [*BOUNDED, "memory.recall"])
def test_a_pin_of_null_is_none(example: Any, name: str) -> None:
    if name == "memory.recall":
        answer = example.refusal(name, table="notes", subject="x", pin={"rates": None})
        assert answer.code == "invalid_params"
    else:
        assert example(name, **NEEDED[name], pin={"notes": None}) == example(name, **NEEDED[name])


@pytest.mark.rule("unknown-build", "unregistered-pin")
@pytest.mark.parametrize("name", [*BOUNDED, "memory.recall"])
@pytest.mark.parametrize("table", ["notes", "rates", "absent", "notes__requests"])
def test_a_pin_is_never_ignored_whether_or_not_its_table_is_read(example: Any, name: str, table: str) -> None:
    refusal = example.refusal(name, **NEEDED[name], pin={table: "snapshot-00000000000000000001"})

    assert refusal.code == "PinnedBuildUnavailable"
    assert refusal.message.replace(table, "notes") == (
        example.refusal("context.files", pin={"notes": "snapshot-00000000000000000001"}).message
    )


# --------------------------------------------------------------------------- internals


@pytest.mark.rule("internals-opt-in")
@pytest.mark.parametrize("name", ANSWERED)
def test_internals_are_there_when_they_are_asked_for(example: Any, name: str) -> None:
    plain = example(name, **NEEDED[name])
    answer = example(name, **NEEDED[name], internals=True)
    internals = answer.pop("contextful.internals")

    assert answer == plain
    assert internals["engine"] == "duckdb"
    assert {"limit", "row_count", "elapsed_ms"} <= internals.keys()
    if name in ROWS:
        assert internals["sql"].startswith("SELECT")


@pytest.mark.rule("tool-set")
@pytest.mark.parametrize("name", ["memory.traverse", "memory.explain", "context.write"])
def test_what_is_not_built_is_refused_by_name(example: Any, name: str) -> None:
    refusal = example.refusal(name, anything=1)

    assert refusal.code == "ReadArgumentUnsupported"
    assert name in refusal.message
