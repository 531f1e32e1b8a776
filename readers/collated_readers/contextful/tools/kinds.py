"""What the format calls the type of a column, by the type that SQL gives it: the words of a fingerprint."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from collated_readers.contextful.model import Column

__all__ = ["fingerprint", "kind_of"]

_KINDS = {
    "BOOLEAN": "Boolean",
    "INTEGER": "Int32",
    "BIGINT": "Int64",
    "DOUBLE": "Float64",
    "VARCHAR": "Utf8",
    "JSON": "Json",
    "TIMESTAMPTZ": "Timestamp",
    "TIMESTAMPTZ_NS": "Timestamp",
    "TIMESTAMP WITH TIME ZONE": "Timestamp",
    "BLOB": "Binary",
}
_VECTOR = re.compile(r"FLOAT\[(\d+)\]")
_NAMED = re.compile(r'"((?:[^"]|"")*)" (.*)|(\S+) (.*)', re.DOTALL)


def fingerprint(columns: Sequence[Column]) -> str:
    """Return the sha256 of a schema: one line `name:Kind` for each column, in order (describe-payload)."""
    lines = [f"{column.name}:{kind_of(column.type)}" for column in columns]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def kind_of(sql: str) -> str:
    """Return the kind of the SQL type *sql*; what the format does not have stays as it is."""
    if vector := _VECTOR.fullmatch(sql):
        return f"FixedSizeList<Float32, {vector[1]}>"
    if sql.endswith("[]"):
        return f"List<{kind_of(sql[:-2])}>"
    name, bracket, inner = sql.partition("(")
    if not bracket or not inner.endswith(")"):
        return _KINDS.get(sql, sql)
    parts = _parts(inner[:-1])
    if name == "MAP" and len(parts) == 2:  # noqa: PLR2004 - a key and a value
        return f"Map<{kind_of(parts[0])}, {kind_of(parts[1])}>"
    if name == "STRUCT":
        return f"Struct<{', '.join(map(_field, parts))}>"
    return sql


def _field(text: str) -> str:
    match = _NAMED.fullmatch(text)
    if match is None:
        return text
    quoted, its_type, bare, bare_type = match.groups()
    if quoted is None:
        return f"{bare}: {kind_of(bare_type)}"
    name = quoted.replace('""', '"')
    return f"{name}: {kind_of(its_type)}"


def _parts(inner: str) -> list[str]:
    """Return what stands between the commas of *inner* that are in no brackets and no quotes."""
    parts, depth, is_quoted = [""], 0, False
    for character in inner:
        is_quoted ^= character == '"'
        depth += 0 if is_quoted else (character in "([") - (character in ")]")
        if character == "," and not depth and not is_quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
