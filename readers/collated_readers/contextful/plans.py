"""How a statement is asked so that its cells lose nothing: as the inner one of a SELECT that casts.

The engine says what the columns are before anything runs; see `cells` for what each becomes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import duckdb
from msgspec import Struct

from .cells import Cell, cell_of
from .refusals import refused

__all__ = ["Plan", "Plans", "Values", "bindable"]

Values: TypeAlias = Mapping[str, Any] | Sequence[Any]

_MOST = 256  # statements whose plan is remembered
_PLACES = re.compile(r'"query_location(?:_length)?":\d+')  # never within a string: its quotes are escaped
_WIDTHS = (31, 32, 63, 64, 127)  # of integers, signed and unsigned


class Plan(Struct, frozen=True):
    """How a statement is asked: *sql* around it, without a limit, and what its columns become."""

    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    sql: str


class Plans:
    """The plans of one session's statements, which stay right as long as its relations do."""

    def __init__(self) -> None:
        """Begin without any."""
        self._plans: OrderedDict[tuple[Any, ...], Plan] = OrderedDict()

    def plan(self, cursor: duckdb.DuckDBPyConnection, sql: str, values: Values) -> Plan:
        """Return how *sql* is asked; types of parameters may decide those of columns."""
        bound = values.values() if isinstance(values, Mapping) else values
        key = (sql, *map(_kind, bound))
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = _plan(cursor, _statement(cursor, sql), values)
            if len(self._plans) > _MOST:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return found


def _kind(value: object) -> tuple[type, int]:
    """Return what decides which type the engine gives *value*: of an integer, how many bits it takes."""
    if not isinstance(value, int):
        return type(value), 0
    bits = (value if value >= 0 else ~value).bit_length()
    return type(value), next((width for width in _WIDTHS if bits <= width), bits)


def bindable(values: Values) -> dict[str, Any] | list[Any]:
    """Return *values* as the engine takes them."""
    return dict(values) if isinstance(values, Mapping) else list(values)


def _plan(cursor: duckdb.DuckDBPyConnection, body: str, values: Values) -> Plan:
    # The statement begins on a line of its own and ends before one: a comment may be its last word.
    inner, bound = f"(\n{body}\n)", bindable(values)
    described = cursor.execute(f"SELECT * FROM {inner} AS s LIMIT 0", bound).description or ()  # noqa: S608 - judged
    names = [str(column[0]) for column in described]
    if any(name.rpartition("_")[2].isdecimal() for name in names):  # maybe one that stands there twice
        names = [name for name, *_ in cursor.execute(f"DESCRIBE {body}", bound).fetchall()]
    cells = tuple(cell_of(column[1]) for column in described)
    own = [f"c{at}" for at in range(len(names))]
    asked = ", ".join(cell.expression(column) for cell, column in zip(cells, own, strict=True))
    return Plan(tuple(names), cells, f"SELECT {asked} FROM {inner} AS s({', '.join(own)})")  # noqa: S608 - judged


def _statement(cursor: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return *sql*, which is one statement, so that it can stand within another: without its semicolon.

    Raises:
        RequestError: `engine_error` where that would make it another statement than was judged.
    """
    if ";" not in sql:
        return sql
    try:
        text = bytearray(sql.encode())
    except UnicodeEncodeError:  # no text at all, as the engine will say
        return sql
    for offset, _ in duckdb.tokenize(sql):
        if text[offset] == ord(";"):
            text[offset] = ord(" ")
    without = text.decode()
    # The engine's tokens are not always its parser's: to them, a no-break space before E'…' ends the E.
    if _tree(cursor, without) != _tree(cursor, sql):
        raise refused("engine_error", "the statement has a semicolon where none can be")
    return without


def _tree(cursor: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the engine's serialized tree of *sql*, without where in the text things are."""
    found = cursor.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [f"{sql}\n"]).fetchone()
    return "" if found is None else _PLACES.sub("", found[0])
