from __future__ import annotations

from typing import Any

import pytest

HOSTILE = [
    ("DELETE FROM notes", "StatementNotReadOnly"),
    ("SELECT 1; SELECT 2", "StatementNotReadOnly"),
    ("", "StatementNotReadOnly"),
    ("SHOW TABLES", "StatementNotReadOnly"),
    ("SELECT * FROM read_parquet('x.parquet')", "TableFunctionRefused"),
    ("SELECT * FROM 'x.parquet'", "EnforceUnknownRelation"),
    ("SELECT * FROM secret", "EnforceUnknownRelation"),
    ("SELECT current_setting('allowed_paths')", "FunctionRefused"),
    ("SELECT * FROM notes WHERE note_id = ?", "QueryParameterRejected"),
    ("SELEKT 1", "engine_error"),
]


@pytest.mark.rule("single-read-only-statement", "relation-allowlist", "statement-provenance")
@pytest.mark.parametrize(("sql", "code"), HOSTILE)
def test_text_of_a_caller_is_judged_before_it_runs(example: Any, sql: str, code: str) -> None:
    assert example.refusal("context.query", sql=sql).code == code


@pytest.mark.rule("one-projection", "one-response-shape", "bare-name", "wide-number-shape", "absent-block")
def test_an_answer_is_columns_rows_and_whether_it_was_cut(example: Any) -> None:
    answer = example("context.query", sql="SELECT order_id, total_cents FROM orders ORDER BY order_id")

    assert answer == {  # and no block that says nothing
        "columns": ["order_id", "total_cents"],
        "rows": [["A-1", "1299"], ["G-1", "9007199254740993"], ["N-1", "5"]],
        "truncated": False,
    }


@pytest.mark.rule("query-binding")
def test_typed_parameters_are_bound_by_name_and_by_number(example: Any) -> None:
    named = {"id": {"type": "string", "value": "n1"}, "least": {"type": "integer", "value": 0}}
    numbered = {"1": {"type": "string", "value": "n2"}}
    by_name = example(
        "context.query",
        sql="SELECT note_id FROM notes WHERE note_id = $id AND _row_seq >= $least",
        parameters=named,
    )
    by_number = example(
        "context.query", sql="SELECT note_id FROM notes WHERE note_id = $1", parameters=numbered
    )

    assert (by_name["rows"], by_number["rows"]) == ([["n1"]], [["n2"]])


@pytest.mark.rule("query-binding")
@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {},
        {"id": {"type": "integer", "value": "1"}},
        {"id": "n1"},
        {"other": {"type": "string", "value": ""}},
    ],
)
def test_parameters_that_do_not_fit_are_refused(example: Any, parameters: Any) -> None:
    refusal = example.refusal(
        "context.query", sql="SELECT 1 FROM notes WHERE note_id = $id", parameters=parameters
    )

    assert refusal.code == "QueryParameterRejected"


@pytest.mark.rule("query-internals-parameters", "internals-opt-in")
def test_internals_show_the_parameters_beside_the_statement(example: Any) -> None:
    sql, given = "SELECT $x + 1 AS y", {"x": {"type": "integer", "value": 41}}
    internals = example("context.query", sql=sql, parameters=given, internals=True)["contextful.internals"]

    assert (internals["sql"], internals["parameters"]) == (sql, given)
    assert (internals["row_count"], internals["limit"]) == (1, 10_000)


@pytest.mark.rule("row-ceiling", "truncation-is-exact", "truncation-cause")
def test_a_tables_ceiling_cuts_and_says_so(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    policy = {"limits": {"max_rows": 3}}
    store.table("few", {"n": "int64"}, policy=policy).run("r1", [{"n": n} for n in range(3)])
    store.table("many", {"n": "int64"}, policy=policy).run("r1", [{"n": n} for n in range(4)])
    face = face_of(store.root)
    few = face("context.query", sql="SELECT n FROM few")
    many = face("context.query", sql="SELECT n FROM many ORDER BY n")

    assert (len(few["rows"]), few["truncated"]) == (3, False)
    assert (many["rows"], many["truncated"]) == ([["0"], ["1"], ["2"]], True)
    assert many["contextful.truncation"] == {"by": "rows", "ceiling": 3, "source": "table"}
    assert face("context.describe", table="many")["limits"] == {"max_rows": 3}


@pytest.mark.rule("ledger-relation", "row-ceiling")
def test_a_ledger_answers_to_its_tables_ceiling(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    table = store.table("calls", {"n": "int64"}, policy={"limits": {"max_rows": 2}})
    table.run("r1", [{"n": 1}])
    table.ledger("r1", [{"request_id": f"req-{n}"} for n in range(3)])
    answer = face_of(store.root)("context.query", sql="SELECT request_id FROM calls__requests ORDER BY 1")

    assert answer["rows"] == [["req-0"], ["req-1"]]
    assert answer["contextful.truncation"]["source"] == "table"


@pytest.mark.rule("face-ceiling")
def test_no_read_gives_more_than_ten_thousand_rows(make_context_store: Any, face_of: Any) -> None:
    store = make_context_store()
    store.table("large", {"n": "int64"}).run_of(
        "r1", "SELECT range AS n FROM range(10001)", "2030-01-01T00:00:00Z"
    )
    answer = face_of(store.root)("context.query", sql="SELECT n FROM large")

    assert len(answer["rows"]) == 10_000
    assert answer["contextful.truncation"] == {"by": "rows", "ceiling": 10_000, "source": "face"}


@pytest.mark.rule("byte-ceiling", "truncation-cause")
def test_bytes_cut_whole_rows(example: Any) -> None:
    answer = example(
        "context.query", sql="SELECT note_id, body FROM notes ORDER BY note_id", max_response_bytes=200
    )

    assert 0 < len(answer["rows"]) < 5
    assert answer["contextful.truncation"] == {"by": "bytes", "ceiling": 200, "source": "request"}


@pytest.mark.rule("duration-ceiling")
def test_a_statement_that_takes_too_long_is_stopped_naming_the_ceiling(example: Any) -> None:
    slow = f"SELECT count(*) FROM {', '.join(f'notes AS n{n}' for n in range(12))}"  # noqa: S608 - 5 ** 12 rows
    refusal = example.refusal("context.query", sql=slow, max_duration_ms=20)

    assert refusal.code == "ReadDurationExceeded"
    assert "20 ms" in refusal.message
    assert "request" in refusal.message


@pytest.mark.rule("zero-rows-is-success", "quiet-table")
@pytest.mark.parametrize("table", ["quiet", "hollow", "feed_sync_items"])
def test_no_rows_is_an_answer(example: Any, table: str) -> None:
    answer = example("context.query", sql=f"SELECT * FROM {table}")  # noqa: S608 - a name above

    assert (answer["rows"], answer["truncated"]) == ([], False)
    assert answer["columns"]


@pytest.mark.rule("join-route")
def test_tables_are_joined_in_one_statement(example: Any) -> None:
    joined = example(
        "context.query",
        sql='SELECT n.note_id, a.article_id FROM notes n JOIN "kb/articles" a ON a._row_seq = n._row_seq'
        " ORDER BY ALL LIMIT 2",
    )

    assert joined["columns"] == ["note_id", "article_id"]
    assert len(joined["rows"]) == 2
