"""Parameters of statements and of templates: their types, their names, and that nothing is coerced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.guard import (
    TYPES,
    Judged,
    arguments_to_bind,
    check_text,
    judge_template,
)
from collated_readers.contextful.session import Session

Judge = Callable[..., Judged]

WELL = [
    ("integer", 3, 3),
    ("integer", -(2**127), -(2**127)),
    ("integer", 2**127 - 1, 2**127 - 1),
    ("float", 1.5, 1.5),
    ("float", 2, 2.0),
    ("string", "", ""),
    ("string", "é☃ '; DROP TABLE notes; -- $1 ?", "é☃ '; DROP TABLE notes; -- $1 ?"),
    ("boolean", False, False),
    ("timestamp", "2030-01-02T03:04:05Z", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("timestamp", "2030-01-02T03:04:05.678901+01:00", datetime(2030, 1, 2, 2, 4, 5, 678901, tzinfo=UTC)),
]
BADLY = [
    ("integer", 2.0),
    ("integer", "2"),
    ("integer", True),
    ("integer", None),
    ("integer", 2**127),
    ("integer", [1]),
    ("float", "1.5"),
    ("float", False),
    ("float", float("inf")),
    ("float", float("nan")),
    ("float", 10**400),
    ("string", 1),
    ("string", None),
    ("string", "\ud800"),
    ("string", ["x"]),
    ("boolean", 0),
    ("boolean", "true"),
    ("timestamp", 0),
    ("timestamp", "2030-01-02"),
    ("timestamp", "2030-01-02 03:04:05Z"),
    ("timestamp", "2030-01-02T03:04:05"),
    ("timestamp", "2030-13-02T03:04:05Z"),
    ("timestamp", "2030-01-02T03:04:05.0000001Z"),
    ("timestamp", "now"),
]


def typed(kind: Any, value: Any) -> dict[str, Any]:
    return {"type": kind, "value": value}


@pytest.mark.rule("query-binding")
@pytest.mark.parametrize(("kind", "value", "bound"), WELL)
def test_a_value_of_its_type_is_bound_as_it_is(judged: Judge, kind: str, value: Any, bound: Any) -> None:
    values = judged("SELECT $p", {"p": typed(kind, value)}).values
    assert values == {"p": bound}
    assert type(values["p"]) is type(bound)


@pytest.mark.rule("query-binding")
@pytest.mark.parametrize(("kind", "value"), BADLY)
def test_a_value_of_another_type_is_refused(judged: Judge, kind: str, value: Any) -> None:
    assert code(judged, "SELECT $p", {"p": typed(kind, value)}) == "QueryParameterRejected"


@pytest.mark.rule("query-binding")
@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("SELECT $p", None),
        ("SELECT $p", {}),
        ("SELECT 1", {"p": typed("integer", 1)}),
        ("SELECT $p", {"p": typed("integer", 1), "q": typed("integer", 1)}),
        ("SELECT $p, $q", {"p": typed("integer", 1)}),
        ("SELECT $p", {"P": typed("integer", 1)}),
        ("SELECT $p, $P", {"p": typed("integer", 1), "P": typed("integer", 1)}),
        ("SELECT $p", {"p": 1}),
        ("SELECT $p", {"p": None}),
        ("SELECT $p", {"p": [1]}),
        ("SELECT $p", {"p": {"value": 1}}),
        ("SELECT $p", {"p": {"type": "integer"}}),
        ("SELECT $p", {"p": {"type": "integer", "value": 1, "more": 1}}),
        ("SELECT $p", {"p": typed("number", 1)}),
        ("SELECT $p", {"p": typed("INTEGER", 1)}),
        ("SELECT $p", {"p": typed(None, 1)}),
        ("SELECT $p", {"p": typed(["integer"], 1)}),
        ("SELECT ?", {"1": typed("integer", 1)}),
        ("SELECT ?1", {"1": typed("integer", 1)}),
        ("SELECT $1, ?", {"1": typed("integer", 1), "2": typed("integer", 1)}),
        ("SELECT '$1', /* $1 */ ? -- $1", {"1": typed("integer", 1)}),
        ("SELECT 'é☃', ?", {"1": typed("integer", 1)}),
        ("SELECT 1 LIMIT ?", {"1": typed("integer", 1)}),
        ("SELECT $2", {"2": typed("integer", 1)}),
        ("SELECT $1, $3", {"1": typed("integer", 1), "3": typed("integer", 1)}),
        ("SELECT $1, $p", {"1": typed("integer", 1), "p": typed("integer", 1)}),
        ("SELECT ?, $p", {"1": typed("integer", 1), "p": typed("integer", 1)}),
    ],
)
def test_parameters_and_placeholders_are_the_same(judged: Judge, text: str, parameters: Any) -> None:
    assert code(judged, text, parameters) == "QueryParameterRejected"


@pytest.mark.rule("query-binding")
@pytest.mark.parametrize(
    "text",
    [
        'SELECT \'?\', "?" FROM (SELECT 1 AS "?") WHERE 1 = $p',
        "SELECT $p /* ? /* ? */ ? */ -- ?",
        "SELECT E'\\'?', $$ ? $$, $t$ ? $t$, $p",
        "SELECT 'é☃?', $ p, $\"p\"",
    ],
)
def test_a_question_mark_is_no_placeholder_where_it_is_text(judged: Judge, text: str) -> None:
    assert judged(text, {"p": typed("integer", 1)}).values == {"p": 1}


@pytest.mark.rule("unregistered-relation", "query-binding")
def test_an_unknown_relation_is_told_before_any_parameter(judged: Judge) -> None:
    assert code(judged, "SELECT ? FROM secret", {"p": typed("number", 1)}) == "EnforceUnknownRelation"


def code(judged: Judge, text: str, parameters: Any) -> str:
    with pytest.raises(RequestError) as raised:
        judged(text, parameters)
    return raised.value.code


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
SORTS = {"integer": int, "float": float, "string": str, "boolean": bool, "timestamp": datetime}


@given(kind=st.sampled_from(sorted(TYPES)), value=JSON)
def test_any_json_is_of_the_type_or_refused(kind: str, value: Any) -> None:
    try:
        bound = TYPES[kind](value)
    except (TypeError, ValueError):
        return
    assert type(bound) is SORTS[kind]
    assert kind == "timestamp" or bound == value


@given(at=st.datetimes(timezones=st.just(UTC)))
def test_an_instant_is_bound_to_the_microsecond(at: datetime) -> None:
    assert TYPES["timestamp"](at.isoformat()) == at


@pytest.mark.rule("query-binding")
@pytest.mark.parametrize(("kind", "value", "bound"), WELL)
def test_the_engine_gets_what_was_given(
    session: Session, judged: Judge, kind: str, value: Any, bound: Any
) -> None:
    named = judged("SELECT $p AS p", {"p": typed(kind, value)})
    numbered = judged("SELECT $1 AS p", {"1": typed(kind, value)})
    assert session.fetch("SELECT $p AS p", named.values) == [{"p": bound}]
    assert session.fetch("SELECT $1 AS p", numbered.values) == [{"p": bound}]


# ---------------------------------------------------------------------------- templates

DECLARED = (("id", "string"), ("least", "integer"))
TABLES = frozenset({"notes", "events"})


@pytest.fixture
def judged_template(session: Session) -> Callable[..., Judged]:
    def ask(text: str, declared: tuple[tuple[str, str], ...] = DECLARED) -> Judged:
        check_text(text)
        return judge_template(session.tree(text), declared=declared, tables=TABLES)

    return ask


@pytest.mark.rule("template-binding", "template-declaration")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT title FROM notes WHERE note_id = ? AND stars > ?", {"1": "n1", "2": 2}),
        ("SELECT title FROM notes WHERE note_id = $1 AND stars > $2", {"1": "n1", "2": 2}),
        ("SELECT title FROM notes WHERE stars > $2 AND note_id = $1", {"1": "n1", "2": 2}),
        ("SELECT title FROM notes WHERE stars > $least AND note_id = $id", {"id": "n1", "least": 2}),
        (
            "SELECT title FROM notes WHERE stars > $least AND note_id = $id OR $id = ''",
            {"id": "n1", "least": 2},
        ),
    ],
)
def test_arguments_of_a_template_are_bound_in_order_or_by_name(
    judged_template: Callable[..., Judged], session: Session, text: str, values: Mapping[str, Any]
) -> None:
    judged = judged_template(text)
    bound = arguments_to_bind(DECLARED, judged.placeholders, {"least": 2, "id": "n1"})
    assert bound == values
    assert judged.relations == ("notes",)
    session.fetch(text, bound)


@pytest.mark.rule("template-binding")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"id": "n1"},
        {"id": "n1", "least": 1, "more": 1},
        {"id": "n1", "Least": 1},
        {"id": 1, "least": 1},
        {"id": "n1", "least": "1"},
        {"id": "n1", "least": 1.0},
        {"id": "n1", "least": True},
        {"id": None, "least": 1},
        {"1": "n1", "2": 1},
    ],
)
def test_other_arguments_of_a_template_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as raised:
        arguments_to_bind(DECLARED, ("1", "2"), arguments)
    assert raised.value.code == "TemplateArgumentRejected"


@pytest.mark.rule("template-binding", "startup-time-check")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT ?",
        "SELECT ?, ?, ?",
        "SELECT $1",
        "SELECT $1, $3",
        "SELECT $id",
        "SELECT $id, $least, $more",
        "SELECT $ID, $least",
    ],
)
def test_a_template_whose_placeholders_are_not_its_parameters_is_refused(
    judged_template: Callable[..., Judged], text: str
) -> None:
    with pytest.raises(RequestError) as raised:
        judged_template(text)
    assert raised.value.code == "TemplateArgumentRejected"


@pytest.mark.rule("template-relation-shape", "startup-time-check")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM rates", "TemplateNamesForeignRelation"),
        ("SELECT * FROM notes JOIN secret ON true", "TemplateNamesForeignRelation"),
        ("SELECT * FROM main.notes", "TemplateNamesForeignRelation"),
        ("SELECT * FROM 'x.parquet'", "TemplateNamesForeignRelation"),
        ("SELECT * FROM read_parquet('x.parquet')", "TemplateNamesForeignRelation"),
        ("SELECT * FROM information_schema.tables", "TemplateNamesForeignRelation"),
        ("WITH hidden AS (SELECT * FROM hidden) FROM hidden", "TemplateNamesForeignRelation"),
        ("SELECT (SELECT max(rate) FROM rates)", "TemplateNamesForeignRelation"),
        ("SELECT current_setting('allowed_paths')", "FunctionRefused"),
        ("SHOW TABLES", "StatementNotReadOnly"),
        ("SELECT 1; SELECT 2", "StatementNotReadOnly"),
        ("DELETE FROM notes", "StatementNotReadOnly"),
        ("WITH x AS (COPY notes TO 'x') FROM x", "StatementNotReadOnly"),
    ],
)
def test_a_template_names_tables_of_its_store_alone(
    judged_template: Callable[..., Judged], text: str, said: str
) -> None:
    with pytest.raises(RequestError) as raised:
        judged_template(text, ())
    assert raised.value.code == said


@pytest.mark.rule("template-relation-shape")
def test_a_template_may_declare_names_of_its_own(judged_template: Callable[..., Judged]) -> None:
    text = "WITH n AS (SELECT * FROM notes) SELECT * FROM n JOIN events USING (note_id)"
    assert judged_template(text, ()).relations == ("events", "notes")
