"""Is this a book-agent store, and what do its tables hold (formats/book-agent.md §2, §3)?"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from collated_readers.contract import StoreError

from .layout import BGE, Columns, Layout, Warned, quoted
from .manifest import explicit_layout, fields_of, unknown_schema
from .metadata import ALIASES, DIMENSIONS, meanings_of
from .texts import strictly

__all__ = ["count_of", "is_shaped", "layout_of"]

_CHUNKS = ("ordinal", "char_start", "char_end", "text", "tokens", "text_sha256", "embedding")
_METADATA = ("key", "value")
_BGE_COLUMNS = Columns(
    table="chunks",
    id="ordinal",
    text="text",
    vector="embedding",
    source_columns=tuple((name, name) for name in ("char_start", "char_end", "tokens", "text_sha256")),
)
_LIKELY = {"ordinal", "embedding"}

_VIRTUAL = re.compile(r"\s*CREATE\s+VIRTUAL\s+TABLE\b.*?\bUSING\s+(\w+)", re.IGNORECASE | re.DOTALL)
_LONGEST_VALUE = 4_096
_STATED = """
SELECT key, CASE WHEN length(value) <= ? THEN value END FROM metadata
WHERE lower(key) IN (SELECT value FROM json_each(?)) ORDER BY key LIMIT 1000"""


class _Column(Struct, frozen=True):
    """A column as declared; `key` is its place in the primary key from 1, 0 outside of it."""

    is_generated: bool
    key: int


def is_shaped(db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
    """Tell whether the tables are those of `bge-m3-lossless-v1`, or meant to be."""
    if tables.get("metadata") != "table" or tables.get("chunks") != "table":
        return False
    return _module(db, "chunks") is None and _columns(db, "chunks").keys() >= _LIKELY


def layout_of(db: sqlite3.Connection, tables: Mapping[str, str], manifest: bytes | None) -> Layout:
    """Return how the store is laid out, its schema checked and its metadata too, but no passage.

    Raises:
        StoreError: the codes of `formats/book-agent.md` §5 for all that a manifest, metadata and
            tables can get wrong.
    """
    strictly(db)
    fields = {} if manifest is None else fields_of(manifest)
    if manifest is None or fields.get("version") == BGE:
        return _bge_layout(db, tables, fields, manifest or b"")
    named = [name for name, kind in tables.items() if kind in ("table", "view")]
    layout = explicit_layout(fields, _digest(manifest), named)
    _check_explicit(db, layout.columns, tables)
    return layout


def count_of(db: sqlite3.Connection, layout: Layout) -> int:
    """Return how many passages there are.

    Raises:
        StoreError: `empty_store`, or `metadata_conflict` where another number was stated.
    """
    count: int = db.execute(f"SELECT count(*) FROM {quoted(layout.columns.table)}").fetchone()[0]  # noqa: S608 - quoted
    if count == 0:
        raise StoreError("empty_store", f"the table {layout.columns.table:.80} has no rows")
    stated = layout.stated.get("count", count)
    if stated != count:
        raise StoreError("metadata_conflict", f"the metadata state {stated} passages, and there are {count}")
    return count


# --------------------------------------------------------------------------- bge-m3-lossless-v1


def _bge_layout(
    db: sqlite3.Connection, tables: Mapping[str, str], fields: Mapping[str, Any], manifest: bytes
) -> Layout:
    extra = _check_bge(db, tables)
    rows = db.execute(_STATED, (_LONGEST_VALUE, _json_list(ALIASES))).fetchall()
    declared = [("contract" if name == "version" else name, value) for name, value in fields.items()]
    stated = meanings_of([*rows, *declared])
    return Layout(
        contract=BGE,
        model=str(stated["model"]),
        dimensions=DIMENSIONS,
        encoding="<f4",
        metric="dot",
        columns=_BGE_COLUMNS,
        digest=_digest(manifest, repr(rows).encode()),
        stated=stated,
        warned=(Warned("extra_columns", f"chunks has more columns: {', '.join(extra)}"),) if extra else (),
    )


def _check_bge(db: sqlite3.Connection, tables: Mapping[str, str]) -> list[str]:
    """Return the columns of `chunks` beyond those of the contract."""
    named = [name for name, kind in tables.items() if kind in ("table", "view")]
    for table, wanted in (("metadata", _METADATA), ("chunks", _CHUNKS)):
        if tables.get(table) != "table" or _module(db, table) is not None:
            raise unknown_schema(f"there is no ordinary table {table}", named)
        columns = _columns(db, table)
        missing = [name for name in wanted if name not in columns or columns[name].is_generated]
        if missing:
            raise unknown_schema(f"the table {table} has no ordinary column {', '.join(missing)}", named)
    chunks = _columns(db, "chunks")
    if _key(chunks) != ["ordinal"]:
        raise unknown_schema("ordinal is not the declared primary key of chunks", named)
    return [f"{name:.80}" for name in chunks if name not in _CHUNKS]


# --------------------------------------------------------------------------- book-agent-explicit-v1


def _check_explicit(db: sqlite3.Connection, columns: Columns, tables: Mapping[str, str]) -> None:
    table = columns.table
    if tables.get(table) not in ("table", "view"):
        named = [name for name, kind in tables.items() if kind in ("table", "view")]
        raise unknown_schema(f"the manifest names the table {table!r:.80}, which is not there", named)
    if tables[table] == "view":
        raise StoreError("id_not_primary_key", f"{table!r:.80} is a view, which has no primary key")
    owner = table.rpartition("_")[0]
    for each in (table, owner if owner in tables else table):
        module = _module(db, each)
        if module is not None:
            raise StoreError(
                "virtual_table_unsupported",
                f"{table!r:.80} belongs to a virtual table of the extension {module:.80}: "
                "passages must be in an ordinary table",
            )
    _check_columns(columns, _columns(db, table))


def _check_columns(columns: Columns, declared: Mapping[str, _Column]) -> None:
    for name in columns.names():
        if name not in declared:
            raise StoreError("schema_mismatch", f"{columns.table!r:.80} has no column {name!r:.80}")
        if declared[name].is_generated:
            raise StoreError("schema_mismatch", f"the column {name!r:.80} is computed, not stored")
    if _key(declared) != [columns.id]:
        raise StoreError(
            "id_not_primary_key",
            f"{columns.id!r:.80} is not the declared primary key of {columns.table!r:.80}",
        )


# --------------------------------------------------------------------------- schemas


def _module(db: sqlite3.Connection, table: str) -> str | None:
    """Return the module of a virtual table, None for any other."""
    row = db.execute("SELECT sql FROM sqlite_master WHERE name = ? AND type = 'table'", (table,)).fetchone()
    found = _VIRTUAL.match(str(row[0])) if row else None
    return found[1] if found else None


def _columns(db: sqlite3.Connection, table: str) -> dict[str, _Column]:
    # hidden: 1 is a virtual table's, 2 and 3 are generated, which a hostile store could have compute for ever
    rows = db.execute("SELECT name, hidden, pk FROM pragma_table_xinfo(?)", (table,))
    return {str(name): _Column(hidden != 0, key) for name, hidden, key in rows}


def _key(columns: Mapping[str, _Column]) -> list[str]:
    return [name for name, column in columns.items() if column.key]


def _digest(*parts: bytes) -> str:
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


def _json_list(names: Collection[str]) -> str:
    return "[" + ",".join(f'"{name}"' for name in names) + "]"
