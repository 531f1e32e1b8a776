from __future__ import annotations

from typing import Any

import pytest

from collated_readers.contextful.model import Bounds
from collated_readers.contextful.tools import Call, call_tool


def store_with(make_context_store: Any, *templates: dict[str, Any], **declared: Any) -> Any:
    store = make_context_store()
    rows = [{"id": f"o{n}", "region": "north" if n % 2 else "south", "cents": n * 100} for n in range(6)]
    store.table("orders", {"id": "utf8", "region": "utf8", "cents": "int64"}, **declared).run("r1", rows)
    for template in templates:
        lines = [f"{key} = {value!r}" for key, value in template.items()]
        store.declare("\n".join(["[[query_templates]]", *lines]))
    return store


BY_REGION = {
    "id": "by_region",
    "sql": "SELECT region, sum(cents) AS cents FROM orders WHERE cents >= ? AND region = ? GROUP BY region",
    "parameters": ["least:integer", "region:string"],
}


@pytest.mark.rule("template-binding", "bare-name")
@pytest.mark.parametrize(
    "where",
    ["cents >= ? AND region = ?", "region = $2 AND cents >= $1", "region = $region AND cents >= $least"],
)
def test_arguments_are_bound_in_order_or_by_name(make_context_store: Any, face_of: Any, where: str) -> None:
    template = {**BY_REGION, "sql": f"SELECT id FROM orders WHERE {where} ORDER BY id"}  # noqa: S608 - above
    face = face_of(store_with(make_context_store, template).root)
    answer = face("context.execute_query", id="by_region", arguments={"least": 200, "region": "north"})

    assert answer["rows"] == [["o3"], ["o5"]]


@pytest.mark.rule("template-binding")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"least": 1},
        {"least": 1, "region": "north", "more": 1},
        {"least": "1", "region": "north"},
        {"least": 1.0, "region": "north"},
        {"least": True, "region": "north"},
        {"least": 1, "region": None},
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    make_context_store: Any, face_of: Any, arguments: dict[str, Any]
) -> None:
    face = face_of(store_with(make_context_store, BY_REGION).root)
    refusal = face.refusal("context.execute_query", id="by_region", arguments=arguments)

    assert refusal.code == "TemplateArgumentRejected"


@pytest.mark.rule("template-declaration", "row-ceiling", "truncation-cause")
def test_a_templates_own_ceiling_cuts(make_context_store: Any, face_of: Any) -> None:
    template = {"id": "all_of_it", "sql": "SELECT id FROM orders ORDER BY id", "max_rows": 2}
    face = face_of(store_with(make_context_store, template).root)
    answer = face("context.execute_query", id="all_of_it")

    assert answer["rows"] == [["o0"], ["o1"]]
    assert answer["contextful.truncation"] == {"by": "rows", "ceiling": 2, "source": "template"}


@pytest.mark.rule("truncation-tie")
def test_of_equal_ceilings_the_tables_is_named(make_context_store: Any, face_of: Any) -> None:
    template = {"id": "all_of_it", "sql": "SELECT id FROM orders ORDER BY id", "max_rows": 2}
    store = store_with(make_context_store, template, policy={"limits": {"max_rows": 2}})
    answer = face_of(store.root)("context.execute_query", id="all_of_it")

    assert answer["contextful.truncation"]["source"] == "table"


@pytest.mark.rule("template-projection")
def test_parameters_of_every_type_have_a_schema(make_context_store: Any, face_of: Any) -> None:
    kinds = ["integer", "float", "string", "timestamp", "boolean"]
    template = {
        "id": "typed",
        "sql": f"SELECT {', '.join(f'${kind}' for kind in kinds)} FROM orders",  # noqa: S608 - above
        "parameters": [f"{kind}:{kind}" for kind in kinds],
    }
    face = face_of(store_with(make_context_store, template).root)
    (tool,) = face("context.describe")["templates"]

    assert tool["name"] == "typed"
    assert tool["inputSchema"]["required"] == kinds
    assert tool["inputSchema"]["properties"]["float"] == {"type": "number"}
    assert tool["inputSchema"]["properties"]["timestamp"] == {"type": "string", "format": "date-time"}
    assert "limits" not in tool
    values = {"integer": 1, "float": 2, "string": "s", "timestamp": "2030-01-01T00:00:00Z", "boolean": True}
    row = face("context.execute_query", id="typed", arguments=values)["rows"][0]
    assert row[1:] == [2.0, "s", "2030-01-01T00:00:00Z", True]


@pytest.mark.rule("template-relation-shape", "startup-time-check")
@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM elsewhere", "TemplateNamesForeignRelation"),
        ("SELECT * FROM 'x.parquet'", "TemplateNamesForeignRelation"),
        ("SELECT * FROM read_parquet('x.parquet')", "TemplateNamesForeignRelation"),
        ("SELECT * FROM main.orders", "TemplateNamesForeignRelation"),
        ("SELECT * FROM orders__requests", "TemplateNamesForeignRelation"),
        ("SELECT 1; SELECT 2", "StatementNotReadOnly"),
        ("DELETE FROM orders", "StatementNotReadOnly"),
        ("SELECT * FROM orders WHERE id = ?", "TemplateArgumentRejected"),
    ],
)
def test_a_template_that_may_not_be_run_is_no_tool(
    make_context_store: Any, face_of: Any, sql: str, code: str
) -> None:
    face = face_of(store_with(make_context_store, {"id": "bad", "sql": sql}, BY_REGION).root)

    assert [one["name"] for one in face("context.describe")["templates"]] == ["by_region"]
    assert face.refusal("context.execute_query", id="bad").code == code


@pytest.mark.rule("template-reserved-parameter", "available-reserved-parameter", "template-relation-shape")
@pytest.mark.parametrize(
    "template",
    [
        *(
            {"id": "bad", "sql": f"FROM orders WHERE id = ${name}", "parameters": [f"{name}:string"]}
            for name in ("as_of", "valid_as_of", "available_as_of", "zone", "pin")
        ),
        *({"id": f"{prefix}mine", "sql": "SELECT 1"} for prefix in ("context.", "corpus.", "memory.")),
    ],
)
def test_names_of_a_reads_own_arguments_and_tools_are_taken(
    make_context_store: Any, face_of: Any, template: dict[str, Any]
) -> None:
    face = face_of(store_with(make_context_store, template).root)

    assert face("context.describe")["templates"] == []
    assert face.refusal("context.execute_query", id=template["id"]).code.startswith("Template")


def test_a_template_over_a_table_that_is_not_served_is_refused_as_any_statement_is(
    make_context_store: Any, face_of: Any
) -> None:
    store = store_with(make_context_store, BY_REGION, policy={"rows": {"predicate": "region = 'north'"}})
    refusal = face_of(store.root).refusal(
        "context.execute_query", id="by_region", arguments={"least": 1, "region": "north"}
    )

    assert refusal.code == "EnforceUnknownRelation"


def test_an_unknown_template_is_refused(example: Any) -> None:
    assert example.refusal("context.execute_query", id="no_such").code == "invalid_params"


@pytest.mark.rule("bound-arguments")
def test_bounds_hold_in_templates(example: Any) -> None:
    arguments = {"note_id": "n4"}
    now = example("context.execute_query", id="notes_for", arguments=arguments)
    then = example("context.execute_query", id="notes_for", arguments=arguments, as_of="2030-01-10")

    assert (len(now["rows"]), then["rows"]) == (1, [])
    assert then["contextful.bounds"]["inclusive"] is False


@pytest.mark.rule("join-undeclared")
def test_an_asof_join_of_a_template_is_checked_as_well(make_context_store: Any, face_of: Any) -> None:
    sql = "SELECT a.id FROM orders a ASOF JOIN orders b ON a._ingested_at >= b._ingested_at"
    face = face_of(store_with(make_context_store, {"id": "asof", "sql": sql}).root)

    assert face.refusal("context.execute_query", id="asof").code == "StoreAvailableTimeUndeclared"


@pytest.mark.rule("startup-time-check")
def test_templates_are_judged_once_for_each_state_of_a_store(make_context_store: Any, face_of: Any) -> None:
    asked: list[str] = []
    store = store_with(make_context_store, BY_REGION, {"id": "other", "sql": "SELECT 1 FROM orders"})
    face = face_of(store.root)
    call = face.a_call()

    class Noting:
        """A session that notes the texts of which it is asked the tree."""

        def __init__(self, bounds: Bounds) -> None:
            self._reads = call.reads_of(bounds)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._reads, name)

        def tree(self, text: str) -> Any:
            asked.append(text)
            return self._reads.tree(text)

    noting: Any = Noting  # all of `Reads`, by its `__getattr__`
    arguments = {"least": 1, "region": "north"}
    for bounds in ({}, {"as_of": "2030-01-05"}, {"as_of": "2030-01-06"}):
        params = {"id": "by_region", "arguments": arguments, **bounds}
        call_tool("context.execute_query", Call(call.store, noting, call.now_ns), params)
        call_tool("context.describe", Call(call.store, noting, call.now_ns), bounds)

    assert asked == [BY_REGION["sql"], "SELECT 1 FROM orders"]
    store.declare("# another state")
    assert face.a_call().store.digest != call.store.digest
