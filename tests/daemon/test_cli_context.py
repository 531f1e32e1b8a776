"""What a person types to context stores and is shown of them, and that all of it is harmless."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

import pytest

from collated import protocol
from collated.cli import render, render_context
from collated.cli.arguments import client_parser
from collated.cli.context_commands import filter_of, parameters_of, statement_of
from collated.cli.line import Line, plain
from collated.cli.typed import Condition, Typed
from collated.errors import CollatedError, RequestFailed
from collated.protocol_context import Parameter

NASTY = "\x1b[2Jx\u202ey\x9b\x07"
BOUND = {"as_of": "2030-01-12T00:00:00.000000000Z", "inclusive": False}


def text(lines: Iterable[Line]) -> list[str]:
    return [plain(line) for line in lines]


def result(*rows: list[Any], columns: tuple[str, ...] = ("note_id", "n"), **more: Any) -> Any:
    return protocol.ContextTable(columns=[*columns], rows=[*rows], truncated="truncation" in more, **more)


def entry(table: str = "notes", **more: Any) -> dict[str, Any]:
    return {"table": table, "kind": "data", "description": None, "zone_admitted": True, **more}


def described(**more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "row_count": 5,
        "bytes": 2104,
        "estimated_tokens": 526,
        "description": "Analyst notes,\n kept by hand.",
        "hint": None,
        "columns": [{"name": "note_id", "type": "VARCHAR"}, {"name": "_run_id", "type": "VARCHAR"}],
        "column_hints": {"note_id": "stable"},
        "indexes": [{"kind": "fulltext", "column": "body"}],
        "partition_by": ["tenant"],
        "example_queries": ["SELECT count(*)\nFROM notes"],
        "limits": {"max_rows": 50, "max_duration_ms": 5000, "max_response_bytes": 2048},
    }
    return {**entry(), **fields, **more}


def retrieved(**changed: Any) -> Any:
    cells: dict[str, Any] = {
        "_table": "notes",
        "_row": {"note_id": "n1", "n": 3, "lang": None},
        "_snippet": "Solar battery\n costs",
        "_score": 2,
        "_vscore": None,
        "_in_window": True,
        "_date_basis": "published_at",
        "_run_id": "run-0002",
    }
    cells |= changed
    return result([*cells.values()], columns=tuple(cells))


# --------------------------------------------------------------------------- what is shown


def test_rows_are_a_table() -> None:
    assert text(render_context.rows(result(["n1", "12"], ["n2", None]), None)) == [
        "note_id     n",
        "───────  ────",
        "n1         12",
        "n2       NULL",
    ]


def test_all_stores_tables_are_listed_without_the_ledgers() -> None:
    stores: dict[str, dict[str, Any]] = {
        "a": {"tables": [entry(description="Notes."), entry("notes__requests", kind="ledger")]},
        "b": {"tables": []},
        "c": {"tables": [entry("bad", fault={"code": "X", "message": "X: it is broken"})]},
    }

    assert text(render_context.listing(stores, None)) == [
        "store  table  description",
        "─────  ─────  ───────────────",
        "a      notes  Notes.",
        "c      bad    X: it is broken",
    ]
    assert text(render_context.listing({"b": {"tables": []}}, None)) == []


def test_a_stores_tables_say_how_much_is_in_them_and_what_holds_for_them() -> None:
    empty = described(table="notes__requests", kind="ledger", row_count=0, limits={}, columns=[])
    broken = entry("bad", fault={"code": "X", "message": "X: it is broken"})

    assert text(render_context.tables({"tables": [broken, described(), empty]}, None)) == [
        "table  rows  limits                     description                   columns",
        "─────  ────  ─────────────────────────  ────────────────────────────  ───────",
        "bad    NULL                             X: it is broken",
        "notes     5  50 rows, 5000 ms, 2.0 KiB  Analyst notes, kept by hand.  note_id",
    ]
    assert text(render_context.tables({"tables": []}, None)) == []


def test_a_ledger_with_requests_is_a_table_like_others() -> None:
    ledger = described(table="notes__requests", kind="ledger", row_count=2)

    assert text(render_context.tables({"tables": [ledger]}, None))[2].startswith("notes__requests     2")


def test_one_table_is_described_whole() -> None:
    assert text(render_context.columns(described(), None)) == [
        "table        notes",
        "holds        5 rows, 2.1 KiB as JSON, about 526 tokens",
        "description  Analyst notes, kept by hand.",
        "limits       50 rows, 5000 ms, 2.0 KiB",
        "indexes      fulltext of body",
        "partitions   tenant",
        "example      SELECT count(*) FROM notes",
        "",
        "column   type     hint",
        "───────  ───────  ──────",
        "note_id  VARCHAR  stable",
        "_run_id  VARCHAR",
    ]


def test_a_ranked_row_is_its_table_run_and_words_above_its_snippet() -> None:
    assert text(render_context.retrieved("research", retrieved())) == [
        "research:notes  run-0002  2 words",
        "    Solar battery costs",
    ]
    late = retrieved(_score=1, _vscore=0.81234, _in_window=False, _snippet="x" * 999)
    first, second = text(render_context.retrieved("research", late))
    assert first == "research:notes  run-0002  1 word, cosine 0.8123, out of the timeframe"
    assert len(second) == 4 + 200


def test_a_row_without_text_is_shown_by_its_cells() -> None:
    shown = text(render_context.retrieved("research", retrieved(_score=None, _snippet=None)))

    assert shown == ["research:notes  run-0002", "    note_id n1, n 3"]


# --------------------------------------------------------------------------- beside the answer


def cut(by: str, source: str) -> list[str]:
    truncation = {"by": by, "ceiling": 50, "source": source}
    return text(render_context.notes(result(["n1", 1], truncation=truncation)))


def test_it_is_said_what_cut_an_answer() -> None:
    assert cut("rows", "table") == [
        "there are more than these 1 rows: 50 rows are the limit that a table declares"
    ]
    assert cut("rows", "face")[0].endswith("50 rows are the most that one answer has")
    assert cut("rows", "request")[0].endswith("50 rows are what was asked for; raise --limit")
    assert cut("bytes", "request")[0].endswith("50 bytes are what was asked for; raise --limit-bytes")
    assert cut("bytes", "a newer one's")[0].endswith("50 bytes are the limit")


def test_a_whole_answer_needs_no_word() -> None:
    assert text(render_context.notes(result(["n1", 1]))) == []


def test_it_is_said_that_nothing_was_found() -> None:
    assert text(render_context.notes(result())) == ["no rows"]
    floors = [result(retrieval={"floor": floor}) for floor in (0, 1, 2)]
    assert [text(render_context.notes(each)) for each in floors] == [
        ["no rows"],
        ["no row has any of these words"],
        ["no row has at least 2 of these words"],
    ]


def test_bounds_and_builds_are_echoed() -> None:
    build = {"rates": {"build_id": "b7", "watermark": None}}
    both = {**BOUND, "valid_as_of": "2030-01-01T00:00:00.000000000Z", "inclusive": True}

    assert text(render_context.notes(result(["n1", 1], bounds=BOUND, resolved=build))) == [
        "read as of 2030-01-12T00:00:00.000000000Z, that instant not included",
        "rates is build b7, watermark NULL",
    ]
    (line,) = text(render_context.notes(result(["n1", 1], bounds=both)))
    assert line.endswith("valid as of 2030-01-01T00:00:00.000000000Z, that instant included")


def test_what_is_withheld_and_how_it_was_made_is_said() -> None:
    restriction = {"zone": "local:device", "relations": [{"table": "secret", "excluded": True}]}
    internals: dict[str, Any] = {"sql": "SELECT\n1", "engine": "duckdb", "elapsed_ms": 1.5, "parameters": {}}

    assert text(render_context.notes(result(["n1", 1], restriction=restriction, internals=internals))) == [
        "secret is withheld: its zone does not admit this machine",
        "sql SELECT\\n1, engine duckdb, elapsed ms 1.5, parameters {}",
    ]


def test_it_is_said_how_many_rows_are_in_the_timeframe() -> None:
    block = {"floor": 1, "since": "2030-01-01", "returned": 3, "in_window": 2}

    assert text(render_context.notes(result(["n1", 1], retrieval=block))) == [
        "2 of 3 rows are from 2030-01-01 on; the others come after them"
    ]
    assert text(render_context.notes(result(["n1", 1], retrieval={**block, "since": None}))) == []


def test_a_refusal_is_shown_by_the_seeds_identifier_with_what_to_do() -> None:
    failed = RequestFailed("engine_error", "engine_error: no column\nLINE 1: x\x1b[2J", "ask for another")

    assert text(render.error(failed)) == [
        "engine_error: no column",
        "LINE 1: x\\x1b[2J",
        "ask for another",
    ]


def test_nothing_of_a_store_acts_on_the_terminal() -> None:
    shown = [
        render_context.rows(result([NASTY, {NASTY: NASTY}], columns=(NASTY, "b")), 80),
        render_context.listing({NASTY: {"tables": [entry(NASTY, description=NASTY)]}}, None),
        render_context.tables({"tables": [described(table=NASTY, description=NASTY)]}, None),
        render_context.columns(
            described(
                table=NASTY,
                description=NASTY,
                hint=NASTY,
                columns=[{"name": NASTY, "type": NASTY}],
                column_hints={NASTY: NASTY},
                indexes=[{"kind": NASTY, "column": NASTY}],
                partition_by=[NASTY],
                example_queries=[NASTY],
            ),
            60,
        ),
        render_context.retrieved(NASTY, retrieved(_table=NASTY, _run_id=NASTY, _snippet=NASTY)),
        render_context.retrieved(NASTY, retrieved(_snippet=None, _row={NASTY: NASTY})),
        render_context.notes(
            result(
                bounds={NASTY: NASTY},
                resolved={NASTY: {"build_id": NASTY, "watermark": NASTY}},
                restriction={"relations": [{"table": NASTY}]},
                retrieval={"floor": 1, "since": NASTY, "returned": 0, "in_window": 0},
                internals={"sql": NASTY},
                truncation={"by": NASTY, "ceiling": 1, "source": NASTY},
            )
        ),
    ]
    for line in (each for lines in shown for each in text(lines)):
        assert all(unicodedata.category(c) not in ("Cc", "Zl", "Zp") and c != "\u202e" for c in line)


# --------------------------------------------------------------------------- what is typed


def typed(*words: str) -> Any:
    return client_parser(words[0]).parse_args(words)


def test_a_query_takes_typed_parameters() -> None:
    values = ["n:integer=-3", "f:float=1e3", "s:string=a=b:c", "t:timestamp=2030-01-31T00:00:00Z"]
    given = typed("query", "s", "SELECT 1", *(f"--param={each}" for each in [*values, "1:boolean=true"]))

    assert parameters_of(given.parameters) == {
        "n": Parameter("integer", -3),
        "f": Parameter("float", 1000.0),
        "s": Parameter("string", "a=b:c"),
        "t": Parameter("timestamp", "2030-01-31T00:00:00Z"),
        "1": Parameter("boolean", True),
    }
    assert parameters_of(()) is None


def test_a_parameter_has_one_value() -> None:
    with pytest.raises(CollatedError, match="twice"):
        parameters_of([Typed("n", "integer", 1), Typed("n", "integer", 1)])


@pytest.mark.parametrize(
    "value",
    [
        *("", "n", "n=3", "n:integer", ":integer=3", "n:int=3", "n:integer=", "n:integer=3.0"),
        *("n:float=nan", "n:float=x", "n:boolean=yes", f"n:integer={2**64}", f"n:integer={-(2**63) - 1}"),
    ],
)
def test_a_mistyped_parameter_is_usage(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        typed("query", "s", "SELECT 1", f"--param={value}")
    assert left.value.code == 2
    assert "--param" in capsys.readouterr().err


def test_of_one_column_several_values_are_a_choice() -> None:
    given = typed("retrieve", "s", "x", "--filter=lang=en", "--filter=kind=a", "--filter=kind=b=c")

    assert filter_of(given.conditions) == {"lang": "en", "kind": ["a", "b=c"]}
    assert filter_of([Condition("a", "")]) == {"a": ""}
    assert filter_of(()) is None


@pytest.mark.parametrize(
    "words",
    [
        *("retrieve s x --filter lang", "retrieve s x --filter =en", "retrieve s", "query s"),
        *("query s x --timeout 0", "query s x --timeout -1", "query s x --timeout nan"),
        *("query s x --timeout soon", "query s x --timeout 1e99", "query s x --limit-bytes many"),
    ],
)
def test_a_mistake_is_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        typed(*words.split())
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("usage: collate")


def test_a_timeout_is_in_seconds() -> None:
    times = ("2", "0.5", "0.0001")

    assert [typed("query", "s", "x", "--timeout", each).timeout for each in times] == [2000, 500, 1]


def test_a_statement_is_read_whole_or_not_at_all() -> None:
    assert statement_of("SELECT 'ä'\n".encode()) == "SELECT 'ä'\n"
    with pytest.raises(CollatedError, match="UTF-8"):
        statement_of(b"SELECT '\xff'")
    with pytest.raises(CollatedError, match="262144 bytes"):
        statement_of(b" " * (4 * 65_536 + 1))
