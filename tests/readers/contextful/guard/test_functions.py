"""The tables of functions against the engine's own catalog: nothing is allowed or refused by default."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import duckdb
import pytest

from collated_readers import RequestError
from collated_readers.contextful.guard import Judged
from collated_readers.contextful.guard.functions import ALLOWED, REFUSED, VOLATILE, is_allowed, why_refused
from collated_readers.contextful.guard.nodes import SQL_TYPES

Judge = Callable[..., Judged]

NOT_IN_THE_CATALOG = {"unlist", "unnest"}  # the binder knows them by itself


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        yield connection


def called(engine: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the functions that an expression can call."""
    kinds = "('scalar', 'aggregate', 'window', 'macro')"
    rows = engine.execute(
        f"SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN {kinds}"  # noqa: S608
    ).fetchall()
    return {name for (name,) in rows}


def test_every_function_of_the_engine_is_allowed_or_refused(engine: duckdb.DuckDBPyConnection) -> None:
    undecided = {name for name in called(engine) if not is_allowed(name) and why_refused(name) is None}
    assert undecided == set()


def test_every_function_of_the_tables_is_one_of_the_engine(engine: duckdb.DuckDBPyConnection) -> None:
    assert ALLOWED.keys() - called(engine) == NOT_IN_THE_CATALOG
    assert REFUSED.keys() <= called(engine)


def test_no_function_is_both_allowed_and_refused() -> None:
    assert [name for name in ALLOWED if why_refused(name) is not None] == []


def test_no_allowed_macro_reads_anything(engine: duckdb.DuckDBPyConnection) -> None:
    """A macro is as harmless as what it calls, and no table is within it."""
    rows = engine.execute(
        "SELECT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"
    ).fetchall()
    calls = re.compile(r'"?(\w+)"?\(')
    words = {"cast", "values", "coalesce", "case", "then", "when", "and", "or", "in", "struct_pack"}
    for name, definition in rows:
        if is_allowed(name):
            assert not re.search(r"\b(FROM|SELECT)\b", definition), name
            inner = {word.lower() for word in calls.findall(definition)} - words
            assert [each for each in inner if not is_allowed(each)] == [], name


def test_allowed_is_what_the_engine_calls_consistent(engine: duckdb.DuckDBPyConnection) -> None:
    """Or what it knows to depend on a time zone, which the session fixes, or the clock and the dice."""
    rows = engine.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    ).fetchall()
    volatile = {name for (name,) in rows if is_allowed(name)}
    assert volatile == {"error", "gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7"}
    assert volatile - {"error"} < VOLATILE


@pytest.mark.rule("volatile-bypasses")
@pytest.mark.parametrize(
    ("text", "is_volatile"),
    [
        ("SELECT now()", True),
        ("SELECT CURRENT_TIMESTAMP", True),
        ("SELECT title FROM notes WHERE due < (SELECT today())", True),
        ("SELECT random()", True),
        ("SELECT ago(INTERVAL 1 DAY)", True),
        ("FROM notes TABLESAMPLE 10%", True),
        ("SELECT title FROM notes USING SAMPLE 1", True),
        ("SELECT count(*), max(due) FROM notes WHERE due > TIMESTAMP '2030-01-01' + INTERVAL 1 DAY", False),
        ("SELECT title AS now FROM notes", False),
    ],
)
def test_a_statement_that_asks_the_clock_or_the_dice_is_known(
    judged: Judge, text: str, is_volatile: bool
) -> None:
    assert judged(text).is_volatile == is_volatile


def test_a_bare_word_calls_no_function_unseen(engine: duckdb.DuckDBPyConnection, judged: Judge) -> None:
    """The engine takes some names of columns that are not there for functions; all of them are known."""
    for name in sorted(name for name in called(engine) | {"current_time"} if name.isidentifier()):
        try:
            engine.execute(f"EXPLAIN SELECT {name}")
        except duckdb.Error:
            continue
        try:
            assert judged(f"SELECT {name}").is_volatile, name
        except RequestError as error:
            assert error.code == "FunctionRefused", name


@pytest.mark.rule("engine-own-parse")
def test_a_name_that_a_table_may_have_is_a_column_where_there_is_a_table(judged: Judge) -> None:
    assert judged("SELECT user FROM events").relations == ("events",)
    assert judged("FROM notes WHERE EXISTS (SELECT user FROM events)").relations == ("events", "notes")
    for text in ("SELECT user", 'SELECT (SELECT "user")', "VALUES (user)"):
        with pytest.raises(RequestError, match="FunctionRefused"):
            judged(text)


def test_types_of_values_are_those_of_the_engine(engine: duckdb.DuckDBPyConnection) -> None:
    rows = engine.execute("SELECT DISTINCT lower(type_name) FROM duckdb_types()").fetchall()
    refused_types = {"geometry", "null", "oid", "parquet_variant", "type"}
    assert {name for (name,) in rows} - SQL_TYPES == refused_types


def test_what_nobody_has_heard_of_is_said_to_be_so(judged: Judge) -> None:
    with pytest.raises(RequestError, match="'no_such' is not known to be harmless"):
        judged("SELECT no_such(1)")
    with pytest.raises(RequestError, match="'getvariable' reads the session"):
        judged("SELECT \"GetVariable\"('x')")
