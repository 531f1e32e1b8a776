"""JSON by SQL type (guard.md §6): how each column of a result is asked for, and made a cell.

The type of a column alone decides, never its values. What Python would not take as it is (months of
intervals, nanoseconds, years past 9999) is asked for as the engine's own text; see `cell_of`.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from .schemas import quoted

__all__ = ["Cell", "SqlType", "cell_of", "encode"]

SqlType: TypeAlias = Any  # duckdb's own type: `id` names it, `children` are (name, type or number) pairs
Decode = Callable[[Any], Any]

_NARROW = frozenset(("boolean", "tinyint", "smallint", "integer", "utinyint", "usmallint", "uinteger"))
_AS_IT_IS = _NARROW | {"varchar", "null"}
_FLOATS = frozenset(("float", "double"))
_STAMPS = frozenset(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"))
_ZONED_STAMPS = frozenset(("timestamp with time zone", "timestamptz_ns"))
_NARROW_DIGITS = 15  # decimals of so many digits are the same as numbers of 64 bits
_TEXT = "VARCHAR"


class Cell(Struct, frozen=True):
    """How a column becomes cells: cast to *cast* in SQL where that is not empty, then each value *decoded*.

    *spelled* is the type that arrives, as a type within another is spelled. *decode* is never given null.
    """

    spelled: str
    is_cast: bool = False
    decode: Decode | None = None

    def expression(self, column: str) -> str:
        """Return the SQL of a column whose values are to be decoded."""
        return f"CAST({column} AS {self.spelled})" if self.is_cast else column

    def item(self, value: Any) -> Any:
        """Return the cell of one value within another."""
        return value if value is None or self.decode is None else self.decode(value)


def encode(cells: Sequence[Cell], rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Return *rows* as cells, column by column: the way of each is chosen once."""
    if not rows or all(cell.decode is None for cell in cells):
        return [list(row) for row in rows]
    columns = [
        column if (decode := cell.decode) is None else [None if v is None else decode(v) for v in column]
        for cell, column in zip(cells, zip(*rows, strict=True), strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def cell_of(sql_type: SqlType) -> Cell:
    """Return how values of *sql_type* become cells; what is not known goes as its text."""
    name: str = sql_type.id
    if name in _AS_IT_IS:
        # Null has no name that a type may be spelled with, so within another it is text.
        return Cell(_TEXT if name == "null" else str(sql_type))
    if name in _FLOATS:
        return Cell(str(sql_type), decode=_float)
    if name == "blob":
        return Cell("BLOB", decode=_base64)
    make = _MADE.get(name)
    return Cell(_TEXT, is_cast=True, decode=_DECODED.get(name)) if make is None else make(sql_type)


# ---------------------------------------------------------------------------- nested types


def _decimal(sql_type: SqlType) -> Cell:
    digits, scale = (value for _, value in sql_type.children)
    decode = None if digits > _NARROW_DIGITS else float if scale else int
    return Cell(_TEXT, is_cast=True, decode=decode)


def _list(sql_type: SqlType) -> Cell:
    parts = dict(sql_type.children)
    item = cell_of(parts["child"])
    size = str(parts.get("size", ""))
    decode = list if item.decode is None else _each(item.decode)
    return Cell(f"{item.spelled}[{size}]", is_cast=item.is_cast, decode=decode)


def _each(decode: Decode) -> Decode:
    return lambda values: [None if value is None else decode(value) for value in values]


def _struct(sql_type: SqlType) -> Cell:
    fields = {name: cell_of(type_) for name, type_ in sql_type.children}
    spelled = ", ".join(f"{quoted(name)} {field.spelled}" for name, field in fields.items())
    return Cell(
        f"STRUCT({spelled})",
        is_cast=any(field.is_cast for field in fields.values()),
        decode=None if all(field.decode is None for field in fields.values()) else _fields(fields),
    )


def _fields(fields: Mapping[str, Cell]) -> Decode:
    return lambda value: {name: field.item(value[name]) for name, field in fields.items()}


def _tuple(sql_type: SqlType) -> Cell:
    """Return how a struct whose fields have no names becomes an array."""
    items = [cell_of(type_) for _, type_ in sql_type.children]
    return Cell(
        f"TUPLE({', '.join(item.spelled for item in items)})",
        is_cast=any(item.is_cast for item in items),
        decode=lambda value: [item.item(part) for item, part in zip(items, value, strict=True)],
    )


def _map(sql_type: SqlType) -> Cell:
    """Return how a map becomes an object; a key that is made of others goes as its text."""
    parts = dict(sql_type.children)
    key, value = cell_of(parts["key"]), cell_of(parts["value"])
    if parts["key"].id in _MADE and parts["key"].id != "decimal":
        key = Cell(_TEXT, is_cast=True)
    return Cell(
        f"MAP({key.spelled}, {value.spelled})",
        is_cast=key.is_cast or value.is_cast,
        decode=lambda pairs: {_key(key.item(name)): value.item(item) for name, item in pairs.items()},
    )


def _key(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return str(cell)


_MADE: Mapping[str, Callable[[SqlType], Cell]] = {
    "decimal": _decimal,
    "list": _list,
    "array": _list,
    "struct": _struct,
    "tuple": _tuple,
    "map": _map,
}


# ---------------------------------------------------------------------------- values


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


_LONG_STAMP = re.compile(r"(\d+)-(\d\d-\d\d)( \(BC\))?(?: (.+))?", re.ASCII)
_FOUR_DIGITS = 9999


def _stamp(text: str) -> str:
    """Return an instant of `YYYY-MM-DD HH:MM:SS[.f]`, which is of UTC, as RFC 3339."""
    if text[10:11] == " " and text[11] != "(":
        return f"{text[:10]}T{text[11:]}Z"
    return _long(text)


def _zoned_stamp(text: str) -> str:
    """Return the same of an instant with its offset, which is `+00`: sessions are in UTC."""
    return _stamp(text.removesuffix("+00"))


def _date(text: str) -> str:
    return text if len(text) == len("YYYY-MM-DD") else _long(text)


def _long(text: str) -> str:
    """Return a day or instant with the signed year of ISO 8601, which RFC 3339 cannot write.

    The year before 1 is 0, so 44 BC is -0043. An infinite one stays a word.
    """
    match = _LONG_STAMP.fullmatch(text)
    if match is None:
        return text
    digits, day, is_before, clock = match.groups()
    year = 1 - int(digits) if is_before else int(digits)
    sign = "-" if year < 0 else "+" if year > _FOUR_DIGITS else ""
    return f"{sign}{abs(year):04}-{day}" + (f"T{clock}Z" if clock else "")


_INTERVAL = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) months? ?)?(?:(-?\d+) days? ?)?"
    r"(?:(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?)?",
    re.ASCII,
)


def _interval(text: str) -> str:
    """Return an interval as a duration of ISO 8601, its months, days and seconds apart."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return text
    years, months, days, sign, hours, minutes, seconds, fraction = match.groups()
    whole_months = 12 * int(years or 0) + int(months or 0)
    whole_days = int(days or 0)
    whole_seconds = 3_600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    digits = (fraction or "").rstrip("0")
    date = (f"{whole_months}M" if whole_months else "") + (f"{whole_days}D" if whole_days else "")
    if not whole_seconds and not digits:
        return f"P{date}" if date else "PT0S"
    return f"P{date}T{sign or ''}{whole_seconds}{'.' if digits else ''}{digits}S"


_DECODED: Mapping[str, Decode] = {
    "date": _date,
    "interval": _interval,
    **dict.fromkeys(_STAMPS, _stamp),
    **dict.fromkeys(_ZONED_STAMPS, _zoned_stamp),
}
"""What is made of the text of a type; that of any other is its cell (whole numbers, UUID, times, unions)."""
