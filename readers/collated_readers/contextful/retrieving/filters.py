"""What a caller filters rows by: its budget, and the SQL that a table is asked (retrieve.md §5). Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from collated_readers.codes import RequestError
from collated_readers.contextful.refusals import refused
from collated_readers.contextful.schemas import quoted

__all__ = ["Condition", "Filter", "Scalar", "Where", "filter_of", "where_of"]

Scalar = str | int | float | bool

_Kind = TypeVar("_Kind")

_MOST_CONDITIONS = 32
_MOST_VALUES = 256
_MOST_BYTES = 16 * 1024
_KINDS = "kind"
_HUGEINT = 1 << 127  # beyond it nothing is equal to an integer
_PRIMITIVE = re.compile(
    r"(?:BOOLEAN|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL\(.*\)|VARCHAR)$"
)


class Condition(Struct, frozen=True):
    """A column that has one of these values."""

    column: str
    values: tuple[Scalar, ...]


Filter = tuple[Condition, ...]
"""Conditions that a row meets, all of them."""


class Where(Struct, frozen=True):
    """A condition in SQL, empty for none, and what is bound to its placeholders in order."""

    sql: str = ""
    values: tuple[Any, ...] = ()

    def clause(self, *more: str) -> str:
        """Return the clause `WHERE` of this condition and *more*, with a space before it; empty for none."""
        parts = [part for part in (*more, self.sql) if part]
        return f" WHERE {' AND '.join(parts)}" if parts else ""


def filter_of(conditions: Any, kinds: Any) -> Filter:
    """Return the caller's *conditions* and *kinds*, each None for none, as one filter.

    Raises:
        RequestError: `FilterBudgetExceeded`: too large as a whole, or anything in it malformed.
    """
    given = list(_typed({} if conditions is None else conditions, dict[str, Scalar | list[Scalar]]).items())
    if kinds is not None:
        given.append((_KINDS, [*_typed(kinds, list[str])]))
    if len(given) > _MOST_CONDITIONS:
        raise _over(f"more than {_MOST_CONDITIONS} conditions")
    parsed = tuple(_parsed(column, value) for column, value in given)
    _check_size(conditions, kinds)
    return parsed


def where_of(conditions: Filter, types: Mapping[str, str]) -> Where | None:
    """Return the SQL of *conditions*, None where a table with columns of these *types* lacks one."""
    if any(condition.column not in types for condition in conditions):
        return None
    parts: list[str] = []
    values: list[Any] = []
    for condition in conditions:
        where = _condition(condition, types[condition.column])
        parts.append(where.sql)
        values += where.values
    return Where(" AND ".join(parts), tuple(values))


def _typed(value: Any, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _over(
            "columns with strings, numbers or booleans, or lists of them; kinds are strings"
        ) from error


def _parsed(column: str, value: Scalar | list[Scalar]) -> Condition:
    values = value if isinstance(value, list) else [value]
    if not column or not 0 < len(values) <= _MOST_VALUES:
        raise _over(f"a condition has the name of a column, and 1 to {_MOST_VALUES} values")
    if any(isinstance(one, float) and not math.isfinite(one) for one in values):
        raise _over("a number that is not finite")
    return Condition(column, tuple(values))


def _check_size(conditions: Any, kinds: Any) -> None:
    try:
        size = sum(len(msgspec.json.encode(part)) for part in (conditions, kinds) if part is not None)
    except (msgspec.MsgspecError, ValueError) as error:  # half a surrogate pair; an integer beyond JSON
        raise _over("a value that is no JSON") from error
    if size > _MOST_BYTES:
        raise _over(f"larger than {_MOST_BYTES} bytes of JSON")


def _over(what: str) -> RequestError:
    return refused(
        "FilterBudgetExceeded",
        what,
        f"{_MOST_CONDITIONS} conditions, {_MOST_VALUES} values each, {_MOST_BYTES} bytes in all",
    )


def _condition(condition: Condition, kind: str) -> Where:
    cell = quoted(condition.column)
    text = f"CAST({cell} AS VARCHAR)"
    # Other types have no cast to a number, and TRY_CAST refuses to compile where there is none.
    number = cell if _PRIMITIVE.match(kind) else text
    texts = [value for value in condition.values if isinstance(value, str)]
    truths = [value for value in condition.values if isinstance(value, bool)]
    floats = [value for value in condition.values if isinstance(value, float)]
    integers = [value for value in condition.values if _is_integer(value)]
    parts: list[str] = []
    if texts:
        parts.append(f"{text} IN ({_marks(texts)})")
    if integers:
        double = f"TRY_CAST({number} AS DOUBLE)"
        among = f"TRY_CAST({number} AS HUGEINT) IN ({_marks(integers, 'HUGEINT')})"
        parts.append(f"({among} AND floor({double}) = {double})")  # the cast alone rounds
    if floats:
        parts.append(f"TRY_CAST({number} AS DOUBLE) IN ({_marks(floats, 'DOUBLE')})")
    if truths:
        parts.append(f"TRY_CAST({number} AS BOOLEAN) IN ({_marks(truths)})")
    return Where(f"({' OR '.join(parts) or 'false'})", (*texts, *integers, *floats, *truths))


def _is_integer(value: Scalar) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _HUGEINT


def _marks(values: Sequence[Any], kind: str | None = None) -> str:
    return ", ".join(repeat("?" if kind is None else f"CAST(? AS {kind})", len(values)))
