"""The columns of a table: `schema.json` (layout §2.5) and the spellings of declared types (layout §3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from .model import INJECTED, Column
from .parsing import decoded, is_list

__all__ = ["columns_of_schema", "declared_columns", "quiet_columns", "quoted"]

_MOST_COLUMNS = 10_000
_DEEPEST = 32
_LONGEST_NAME = 1_000  # characters
_LONGEST_SPELLING = 10_000
_MOST_ITEMS = 65_536  # of a vector

_JSON = {"key": "ARROW:extension:name", "value": "arrow.json"}
_WHOLE = {32: "INTEGER", 64: "BIGINT"}


class _Type(Struct, frozen=True, rename="camel"):
    name: str
    bit_width: int | None = None
    is_signed: bool = True
    precision: str | None = None
    unit: str | None = None
    timezone: str | None = None
    list_size: int | None = None


class _Field(Struct, frozen=True):
    name: str
    type: _Type
    children: tuple[_Field, ...] = ()
    metadata: Any = None  # a list of pairs, of which one is looked for


class _Schema(Struct, frozen=True):
    fields: tuple[_Field, ...]


def columns_of_schema(data: bytes) -> tuple[Column, ...]:
    """Return the columns of a `schema.json`, in its order.

    Raises:
        ValueError: it is none, or has a type that the format does not.
    """
    fields = decoded(data, _Schema).fields
    _check_names(field.name for field in fields)
    return tuple(_column(field.name, _type_of(field, 0), is_json=_is_json(field)) for field in fields)


def declared_columns(spellings: Mapping[str, object]) -> tuple[Column, ...]:
    """Return declared columns, in their order, from the spellings of their types.

    Raises:
        ValueError: a name or a type is none.
    """
    _check_names(spellings)
    return tuple(_declared(name, spelling) for name, spelling in spellings.items())


def quiet_columns(declared: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of a table that has only been declared: its own, and then the injected ones."""
    own = [column for column in declared if column.name not in INJECTED]
    return (*own, *(_column(name, spelled) for name, spelled in INJECTED.items()))


def quoted(name: str) -> str:
    """Return *name* as an identifier of SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _column(name: str, spelled: str, *, is_json: bool = False) -> Column:
    return Column(name, spelled, is_text=spelled == "VARCHAR", is_json=is_json)


def _check_names(names: Iterable[str]) -> None:
    """Refuse names that the engine could not tell apart, or not take: it does not look at their case."""
    seen = set[str]()
    for name in names:
        folded = name.lower()
        if folded in seen or not 0 < len(name) <= _LONGEST_NAME or "\0" in name:
            raise ValueError(f"a column cannot be named {name!r:.80}, or not a second time")
        seen.add(folded)
        if len(seen) > _MOST_COLUMNS:
            raise ValueError(f"more than {_MOST_COLUMNS} columns")


# ---------------------------------------------------------------------------- Arrow's JSON


def _is_json(field: _Field) -> bool:
    return field.type.name == "utf8" and is_list(field.metadata) and _JSON in field.metadata


def _type_of(field: _Field, depth: int) -> str:
    if depth > _DEEPEST:
        raise ValueError("types nested too deeply")
    if _is_json(field):
        return "JSON"
    make = _ARROW.get(field.type.name)
    spelled = make(field, depth + 1) if make else None
    if spelled is None:
        raise ValueError(f"column {field.name!r:.80} has a type that is not known: {field.type.name!r:.80}")
    return spelled


def _whole(field: _Field, depth: int) -> str | None:
    return _WHOLE.get(field.type.bit_width or 0) if field.type.is_signed else None


def _double(field: _Field, depth: int) -> str | None:
    return "DOUBLE" if field.type.precision == "DOUBLE" else None


def _timestamp(field: _Field, depth: int) -> str | None:
    return "TIMESTAMPTZ" if field.type.timezone == "UTC" else None


def _vector(field: _Field, depth: int) -> str | None:
    size, items = field.type.list_size or 0, field.children
    is_float = len(items) == 1 and items[0].type.precision in ("SINGLE", "HALF")
    return f"FLOAT[{size}]" if is_float and 0 < size <= _MOST_ITEMS else None


def _list(field: _Field, depth: int) -> str | None:
    return f"{_type_of(field.children[0], depth)}[]" if len(field.children) == 1 else None


def _struct(field: _Field, depth: int) -> str | None:
    return _struct_of([(child.name, _type_of(child, depth)) for child in field.children])


def _map(field: _Field, depth: int) -> str | None:
    entries = field.children[0].children if len(field.children) == 1 else ()
    return f"MAP(VARCHAR, {_type_of(entries[1], depth)})" if len(entries) == 2 else None  # noqa: PLR2004 - key, value


def _struct_of(members: Sequence[tuple[str, str]]) -> str | None:
    _check_names(name for name, _ in members)
    return (
        f"STRUCT({', '.join(f'{quoted(name)} {spelled}' for name, spelled in members)})" if members else None
    )


def _always(spelled: str) -> Callable[[_Field, int], str | None]:
    return lambda field, depth: spelled


_ARROW: Mapping[str, Callable[[_Field, int], str | None]] = {
    "null": _always("INTEGER"),
    "bool": _always("BOOLEAN"),
    "utf8": _always("VARCHAR"),
    "binary": _always("BLOB"),
    "fixedsizebinary": _always("BLOB"),
    "int": _whole,
    "floatingpoint": _double,
    "timestamp": _timestamp,
    "fixedsizelist": _vector,
    "list": _list,
    "struct": _struct,
    "map": _map,
}

# ---------------------------------------------------------------------------- spellings

_SIMPLE: Mapping[str, str] = {
    "boolean": "BOOLEAN",
    "bool": "BOOLEAN",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "integer": "BIGINT",
    "float64": "DOUBLE",
    "double": "DOUBLE",
    "utf8": "VARCHAR",
    "string": "VARCHAR",
    "text": "VARCHAR",
    "json": "JSON",
    "timestamp": "TIMESTAMPTZ",
    "binary": "BLOB",
    "bytes": "BLOB",
}
_BLOB = re.compile(r"binary\(\s*[1-9]\d{0,8}\s*\)", re.ASCII)
_VECTOR = re.compile(r"float(?:16|32)\[\s*([1-9]\d{0,4})\s*\]", re.ASCII)
_NESTED = re.compile(r"(list|map|struct)\s*<(.*)>", re.ASCII | re.DOTALL | re.IGNORECASE)


def _declared(name: str, spelling: object) -> Column:
    if not isinstance(spelling, str) or len(spelling) > _LONGEST_SPELLING:
        raise ValueError(f"column {name!r:.80} is declared without a type")
    spelled = _spelled(spelling, 0)
    return _column(name, spelled, is_json=spelled == "JSON")


def _spelled(spelling: str, depth: int) -> str:
    text = spelling.strip()
    folded = text.lower()
    found = _SIMPLE.get(folded) or ("BLOB" if _BLOB.fullmatch(folded) else None) or _vector_of(folded)
    nested = _NESTED.fullmatch(text)
    if nested is not None and depth < _DEEPEST:
        found = _NESTING[nested[1].lower()](nested[2], depth + 1)
    if found is None:
        raise ValueError(f"{spelling!r:.80} is no type")
    return found


def _vector_of(folded: str) -> str | None:
    match = _VECTOR.fullmatch(folded)
    return f"FLOAT[{match[1]}]" if match and int(match[1]) <= _MOST_ITEMS else None


def _list_of(inside: str, depth: int) -> str | None:
    return f"{_spelled(inside, depth)}[]"


def _map_of(inside: str, depth: int) -> str | None:
    key, *values = _split(inside)
    is_map = len(values) == 1 and _spelled(key, depth) == "VARCHAR"
    return f"MAP(VARCHAR, {_spelled(values[0], depth)})" if is_map else None


def _members_of(inside: str, depth: int) -> str | None:
    pairs = [member.partition(":") for member in _split(inside)]
    return _struct_of([(name.strip(), _spelled(spelling, depth)) for name, _, spelling in pairs])


_NESTING: Mapping[str, Callable[[str, int], str | None]] = {
    "list": _list_of,
    "map": _map_of,
    "struct": _members_of,
}


def _split(inside: str) -> Iterator[str]:
    """Yield what commas part, those within angle brackets aside."""
    depth = start = 0
    for at, character in enumerate(inside):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield inside[start:at]
            start = at + 1
    yield inside[start:]
