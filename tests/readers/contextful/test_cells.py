"""Cells of JSON by SQL type: every type of the engine, and numbers and instants against plain arithmetic."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.cells import encode
from collated_readers.contextful.plans import Plans

pytestmark = pytest.mark.rule("type-is-the-cell")
Ask = Callable[..., list[list[Any]]]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """`ask(sql, values=())` returns the cells of a statement."""
    with duckdb.connect(":memory:", config={"threads": 1}) as engine:
        engine.execute("SET GLOBAL TimeZone = 'UTC'")
        plans = Plans()

        def run(sql: str, values: Any = ()) -> list[list[Any]]:
            with engine.cursor() as cursor:
                plan = plans.plan(cursor, sql, values)
                return encode(plan.cells, cursor.execute(plan.sql, values or []).fetchall())

        yield run


SCALARS = {
    # numbers: the type alone decides (wide-number-shape)
    "true": True,
    "1::TINYINT": 1,
    "(-32768)::SMALLINT": -32768,
    "2147483647::INTEGER": 2147483647,
    "255::UTINYINT": 255,
    "65535::USMALLINT": 65535,
    "4294967295::UINTEGER": 4294967295,
    "1::BIGINT": "1",
    "9007199254740993::BIGINT": "9007199254740993",
    "18446744073709551615::UBIGINT": "18446744073709551615",
    "170141183460469231731687303715884105727::HUGEINT": "170141183460469231731687303715884105727",
    "5::UHUGEINT": "5",
    "'1234567890123456789012345678901234567890'::BIGNUM": "1234567890123456789012345678901234567890",
    "1.50::DECIMAL(15,3)": 1.5,
    "7::DECIMAL(4,0)": 7,
    "1.50::DECIMAL(18,3)": "1.500",
    "(-0.0000001)::DECIMAL(38,10)": "-0.0000001000",
    "0.5::DOUBLE": 0.5,
    "0.5::FLOAT": 0.5,
    "'nan'::DOUBLE": "NaN",
    "'inf'::FLOAT": "inf",
    "'-inf'::DOUBLE": "-inf",
    # time
    "DATE '2030-01-31'": "2030-01-31",
    "DATE '0044-03-15 (BC)'": "-0043-03-15",
    "DATE '12000-01-01'": "+12000-01-01",
    "DATE 'infinity'": "infinity",
    "TIME '12:30:00'": "12:30:00",
    "TIME '12:30:00.250'": "12:30:00.25",
    "CAST('12:30:00.123456789' AS TIME_NS)": "12:30:00.123456789",
    "TIMETZ '12:30:00+05:30'": "12:30:00+05:30",
    "TIMESTAMP '2030-01-06 00:00:00'": "2030-01-06T00:00:00Z",
    "TIMESTAMP_S '2030-01-06 00:00:00'": "2030-01-06T00:00:00Z",
    "TIMESTAMP_MS '2030-01-06 00:00:00.500'": "2030-01-06T00:00:00.5Z",
    "TIMESTAMP_NS '2030-01-06 00:00:00.123456789'": "2030-01-06T00:00:00.123456789Z",
    "TIMESTAMPTZ '2030-01-06 02:00:00.120+02'": "2030-01-06T00:00:00.12Z",
    "CAST('2030-01-06 00:00:00.000000001Z' AS TIMESTAMPTZ_NS)": "2030-01-06T00:00:00.000000001Z",
    "TIMESTAMP '0044-03-15 (BC) 01:02:03'": "-0043-03-15T01:02:03Z",
    "TIMESTAMPTZ '12000-01-01 00:00:00.5+00'": "+12000-01-01T00:00:00.5Z",
    "TIMESTAMP '-infinity'": "-infinity",
    "INTERVAL 0 SECOND": "PT0S",
    "INTERVAL '1 year 2 months 3 days 4 hours 0.5 seconds'": "P14M3DT14400.5S",
    "INTERVAL '-1 month 3 days -4 seconds'": "P-1M3DT-4S",
    "INTERVAL 1 MONTH": "P1M",
    "INTERVAL 30 DAY": "P30D",
    "INTERVAL '1000000 hours'": "PT3600000000S",
    # bytes, labels, text
    "'\\xAA\\x00'::BLOB": "qgA=",
    "''::BLOB": "",
    "'10101'::BIT": "10101",
    "'é'": "é",
    """'{"a": 1}'::JSON""": '{"a": 1}',
    "'b c'::ENUM('a', 'b c')": "b c",
    "UUID '11111111-2222-3333-4444-555555555555'": "11111111-2222-3333-4444-555555555555",
    "union_value(num := 1)": "1",
    "union_value(t := 'a b')": "a b",
    "union_value(i := INTERVAL 1 MONTH)": "1 month",
    "'POINT(1 2)'::GEOMETRY": "POINT (1 2)",
    # vectors, lists, structs and maps (bytes-and-vectors, nested-values)
    "[1.5::FLOAT, 'nan']::FLOAT[2]": [1.5, "NaN"],
    "[0.5, NULL]::DOUBLE[2]": [0.5, None],
    "[INTERVAL 1 MONTH]::INTERVAL[1]": ["P1M"],
    "[1, NULL]::BIGINT[]": ["1", None],
    "[1, NULL]::INTEGER[]": [1, None],
    "[]": [],
    "[[TIMESTAMP_NS '2030-01-06 00:00:00.5'], NULL]": [["2030-01-06T00:00:00.5Z"], None],
    "[union_value(x := 1)]": ["1"],
    "['b'::ENUM('a', 'b')]": ["b"],
    """{'a b': INTERVAL 1 DAY, 'q"': 1::BIGINT, 'n': NULL}""": {"a b": "P1D", 'q"': "1", "n": None},
    "{'x': {'y': [1.5::DECIMAL(20,2)]}}": {"x": {"y": ["1.50"]}},
    "{'f': 'inf'::FLOAT, 't': 'x'}": {"f": "inf", "t": "x"},
    "row(1, 2::BIGINT)": [1, "2"],
    "MAP {'a': 1::BIGINT, 'b': NULL}": {"a": "1", "b": None},
    "MAP {1: 'x'}": {"1": "x"},
    "MAP {true: 'x'}": {"true": "x"},
    "MAP {0.5::DOUBLE: 'x'}": {"0.5": "x"},
    "MAP {1.50::DECIMAL(4,2): 1}": {"1.5": 1},
    "MAP {TIMESTAMP '2030-01-06': 'x'}": {"2030-01-06T00:00:00Z": "x"},
    "MAP {'\\xAA'::BLOB: 'x'}": {"qg==": "x"},
    "MAP {[1, 2]: 'x'}": {"[1, 2]": "x"},
    "MAP {'a': [INTERVAL 1 DAY]}": {"a": ["P1D"]},
    "MAP {}": {},
}


@pytest.mark.rule("cell-encoding", "bytes-and-vectors", "nested-values", "wide-number-shape")
@pytest.mark.parametrize(("sql", "cell"), SCALARS.items(), ids=list(SCALARS))
def test_each_type_has_its_cell(ask: Ask, sql: str, cell: Any) -> None:
    assert msgspec.json.encode(ask(f"SELECT {sql}")) == msgspec.json.encode([[cell]])


@pytest.mark.rule("cell-encoding")
@pytest.mark.parametrize("sql", list(SCALARS))
def test_null_of_each_type_is_null_and_nothing_else_is(ask: Ask, sql: str) -> None:
    empty = f"CASE WHEN false THEN {sql} END"
    assert ask(f"SELECT {empty} AS x, {sql} AS y")[0][0] is None
    assert ask(f"SELECT {sql}")[0][0] is not None


@pytest.mark.rule("nested-values")
@pytest.mark.parametrize("sql", [sql for sql in SCALARS if "MAP" not in sql])
def test_a_cell_within_others_is_the_same_cell(ask: Ask, sql: str) -> None:
    (cell,) = ask(f"SELECT {sql}")[0]
    nested = f"{{'list': [{sql}, NULL], 'map': MAP {{'k': {sql}}}, 'one': {sql}}}"
    assert ask(f"SELECT {nested}") == [[{"list": [cell, None], "map": {"k": cell}, "one": cell}]]


def test_names_that_stand_twice_are_kept(ask: Ask) -> None:
    with duckdb.connect(":memory:") as engine, engine.cursor() as cursor:
        plan = Plans().plan(cursor, "SELECT 1 AS a, 2 AS a, 3 AS a_1; -- as written", ())
        assert plan.columns == ("a", "a", "a_1")
        assert cursor.execute(plan.sql).fetchall() == [(1, 2, 3)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1;",
        "SELECT 1 -- ; a comment",
        "SELECT 1 /* ; */ ; ",
        "SELECT ';é' AS x;",
        "SELECT $$;$$;",
        "VALUES (1);",
        "FROM (VALUES (1)) t(x)",
        "WITH a AS (SELECT 1 AS x) SELECT * FROM a ORDER BY x LIMIT 3",
        "(SELECT 1) UNION ALL (SELECT 2)",
    ],
)
def test_a_statement_stands_within_another_as_it_is(ask: Ask, sql: str) -> None:
    with duckdb.connect(":memory:") as engine:
        assert ask(sql) == [list(row) for row in engine.execute(sql).fetchall()]


@pytest.mark.slow
def test_order_is_the_statements_own(ask: Ask) -> None:
    rows = ask("SELECT i, i % 7 AS k FROM range(50000) t(i) ORDER BY k DESC, hash(i)")
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    again = ask("SELECT i, i % 7 AS k FROM range(50000) t(i) ORDER BY k DESC, hash(i)")
    assert rows == again


@given(st.integers(-(2**127), 2**127 - 1))
def test_wide_numbers_are_exact(ask: Ask, number: int) -> None:
    assert ask("SELECT CAST($1 AS HUGEINT) AS x", [str(number)]) == [[str(number)]]


@given(st.integers(-(2**31), 2**31 - 1))
def test_narrow_numbers_are_numbers(ask: Ask, number: int) -> None:
    assert ask("SELECT CAST($1 AS INTEGER) AS x", [number]) == [[number]]


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 15))
def test_narrow_decimals_are_the_nearest_numbers(ask: Ask, digits: int, scale: int) -> None:
    exact = Decimal(digits).scaleb(-scale)
    cell = ask(f"SELECT CAST($1 AS DECIMAL(15,{scale})) AS x", [f"{exact:f}"])[0][0]
    assert cell == float(exact)
    assert isinstance(cell, float if scale else int)


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_wide_decimals_are_exact(ask: Ask, digits: int, scale: int) -> None:
    exact = Decimal(f"{digits}E-{scale}")
    cell = ask(f"SELECT CAST($1 AS DECIMAL(38,{scale})) AS x", [f"{exact:f}"])[0][0]
    assert Decimal(cell) == exact
    assert len(cell.partition(".")[2]) == scale


@given(st.floats())
def test_floats_are_themselves_or_words(ask: Ask, number: float) -> None:
    cell = ask("SELECT CAST($1 AS DOUBLE) AS x", [number])[0][0]
    if math.isfinite(number):
        assert struct.pack("d", cell) == struct.pack("d", number)
    else:
        assert cell == ("NaN" if math.isnan(number) else "inf" if number > 0 else "-inf")


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_narrow_floats_are_their_exact_value(ask: Ask, number: float) -> None:
    assert ask("SELECT CAST($1 AS FLOAT) AS x", [number])[0][0] == number


@given(st.integers(-(2**63) + 10**9, 2**63 - 2))
def test_instants_keep_nanoseconds_and_no_more_digits(ask: Ask, at: int) -> None:
    cell = ask("SELECT make_timestamp_ns($1) AS x", [at])[0][0]
    whole, fraction = divmod(at, 10**9)
    digits = f".{fraction:09}".rstrip("0").rstrip(".")
    assert cell == f"{(_EPOCH + timedelta(seconds=whole)).replace(tzinfo=None).isoformat()}{digits}Z"


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))
def test_instants_of_all_years_are_rfc_3339(ask: Ask, at: datetime) -> None:
    cell = ask("SELECT CAST($1 AS TIMESTAMP) AS x", [at.isoformat(sep=" ")])[0][0]
    assert datetime.fromisoformat(cell) == at.replace(tzinfo=UTC)
    assert cell.endswith("Z")
    assert not cell.removesuffix("Z").endswith("0") or "." not in cell


@given(st.integers(-9999, 9999), st.integers(-9999, 9999), st.integers(-(10**15), 10**15))
def test_intervals_keep_months_days_and_seconds_apart(ask: Ask, months: int, days: int, micros: int) -> None:
    sql = "SELECT to_months($1::INTEGER) + to_days($2::INTEGER) + to_microseconds($3::BIGINT) AS x"
    cell = ask(sql, [months, days, micros])[0][0]
    date, _, clock = cell.removeprefix("P").partition("T")
    found_months, is_month, rest = date.rpartition("M")
    assert int(found_months if is_month else 0) == months
    assert int(rest.removesuffix("D") or 0) == days
    assert Decimal(clock.removesuffix("S") or 0) == Decimal(micros).scaleb(-6)


@given(st.binary(max_size=300))
def test_bytes_are_padded_base64(ask: Ask, data: bytes) -> None:
    cell = ask("SELECT CAST($1 AS BLOB) AS x", [data])[0][0]
    assert base64.b64decode(cell, validate=True) == data
