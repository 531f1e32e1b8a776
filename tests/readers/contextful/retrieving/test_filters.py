"""Filters: their budget (retrieve.md §5), and what their SQL finds in real columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from collated_readers.codes import RequestError
from collated_readers.contextful.retrieving.filters import filter_of, where_of


@pytest.mark.rule("filter-values", "filter-budget", "filter-budget-refusal")
@pytest.mark.parametrize(
    ("conditions", "kinds"),
    [
        ({"a": None}, None),
        ({"a": []}, None),
        ({"a": [1, None]}, None),
        ({"a": [[1]]}, None),
        ({"a": {"b": 1}}, None),
        ({"": 1}, None),
        ([], None),
        ("a", None),
        ({"a": float("nan")}, None),
        ({"a": [float("inf")]}, None),
        ({"a": "\ud800"}, None),
        ({"a": ["x"] * 257}, None),
        ({str(number): 1 for number in range(33)}, None),
        ({str(number): 1 for number in range(32)}, ["note"]),
        ({"a": "x" * 16_384}, None),
        ({"a": "x" * 10_000}, ["y" * 10_000]),
        (None, "note"),
        (None, []),
        (None, [1]),
        (None, [True]),
        (None, {"a": 1}),
        (None, ["x"] * 257),
    ],
)
def test_what_is_malformed_or_too_large_is_refused_as_a_whole(conditions: Any, kinds: Any) -> None:
    with pytest.raises(RequestError) as caught:
        filter_of(conditions, kinds)
    assert caught.value.code == "FilterBudgetExceeded"


@pytest.mark.rule("filter-budget", "kinds")
def test_what_fits_the_budget_exactly_passes() -> None:
    assert len(filter_of({str(number): ["x"] * 2 for number in range(32)}, None)) == 32
    assert len(filter_of({str(number): 1 for number in range(31)}, ["note"])) == 32
    assert len(filter_of({"a": list(range(256))}, None)[0].values) == 256
    assert filter_of({"a": "x" * (16_384 - 8)}, None)  # {"a":""} are eight bytes
    assert filter_of(None, None) == filter_of({}, None) == ()
    assert filter_of(None, ["note"])[0].column == "kind"


ROWS = """
SELECT * FROM (VALUES
  (1, 'x', 1::TINYINT, 1.0, '1', true, TIMESTAMPTZ '2030-01-01 00:00:00Z', {'k': 1}, '"x"'::JSON),
  (2, 'y', 2, 1.5, '1.5', false, NULL, {'k': 2}, '2'::JSON),
  (3, NULL, NULL, 2.0, 'true', NULL, NULL, NULL, NULL),
  (4, '9007199254740993', 3, 1e20, '9007199254740993', true, NULL, NULL, NULL)
) AS t(row, text, small, float, mixed, flag, moment, nested, "odd "" name")"""


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        opened.execute(f"CREATE TABLE t AS {ROWS}")
        yield opened


@pytest.mark.rule("unsatisfiable-arm-drops", "filter-values")
@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        ({"text": "x"}, [1]),
        ({"text": ["x", "y", "z"]}, [1, 2]),
        ({"text": ["x", "y"], "small": 2}, [2]),
        ({"small": [1, 3]}, [1, 4]),
        ({"small": "1"}, [1]),
        ({"float": 1}, [1]),
        ({"float": 2}, [3]),
        ({"float": 1.5}, [2]),
        ({"float": [1, 1.5, True]}, [1, 2, 3, 4]),
        ({"mixed": 1}, [1]),
        ({"mixed": 2}, []),
        ({"mixed": 9007199254740993}, [4]),
        ({"mixed": 9007199254740992}, []),
        ({"mixed": True}, [1, 3]),
        ({"flag": True}, [1, 4]),
        ({"flag": False}, [2]),
        ({"flag": "true"}, [1, 4]),
        ({"small": 1 << 200}, []),
        ({"small": [1 << 200, 1]}, [1]),
        ({"moment": 1}, []),
        ({"moment": [1.5, True]}, []),
        ({"moment": "2030-01-01 00:00:00+00"}, [1]),
        ({"nested": 1}, []),
        ({"nested": [1, 1.5, True, "{'k': 1}"]}, [1]),
        ({'odd " name': 2}, [2]),
        ({'odd " name': '"x"'}, [1]),
        ({"text": "'; DROP TABLE t; --"}, []),
    ],
)
def test_a_condition_finds_equal_values_whatever_the_column_is(
    engine: duckdb.DuckDBPyConnection, conditions: Any, rows: list[int]
) -> None:
    types = {name: kind for name, kind, *_ in engine.execute("DESCRIBE t").fetchall()}
    where = where_of(filter_of(conditions, None), types)
    assert where is not None
    sql = f"SELECT row FROM t{where.clause('true')} ORDER BY row"  # noqa: S608 - ours
    found = engine.execute(sql, list(where.values))
    assert [row for (row,) in found.fetchall()] == rows


@pytest.mark.rule("unsatisfiable-arm-drops", "kinds")
def test_a_table_without_the_column_has_no_condition_at_all() -> None:
    assert where_of(filter_of({"a": 1, "b": 2}, None), {"a": "INTEGER"}) is None
    assert where_of(filter_of(None, ["note"]), {"a": "INTEGER"}) is None
    empty = where_of((), {"a": "INTEGER"})
    assert empty is not None
    assert empty.clause() == ""
