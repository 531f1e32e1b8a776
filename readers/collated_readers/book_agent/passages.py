"""Passages out of a store, each checked as it is read (formats/book-agent.md E12–E15)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers.contract import StoreError

from .ids import LONGEST_ID, NativeId, checked_id, native_ids
from .layout import BGE, Columns, Layout, quoted
from .texts import Undecodable

__all__ = [
    "Passage",
    "Place",
    "Row",
    "bounded_id",
    "checked_text",
    "find",
    "found_as",
    "name_of",
    "named",
    "names_documents",
    "passage_of",
    "passages",
    "place_of",
    "selected",
    "source_of",
]

Row = Sequence[Any]
"""What `selected` selects: id, text, the source's JSON or NULL, the source's columns."""

_DOC_FIELDS = ("path", "source_path", "file", "source", "document", "title", "book")
_HEADING_FIELDS = ("heading_path", "heading", "section", "chapter")
_LONGEST_PLACE = 1_000
_STORED: Mapping[type, str] = {type(None): "NULL", bytes: "a BLOB"}


class Passage(Struct, frozen=True):
    """A record of the store: its own id, its full text, and what is known of where it is from."""

    id: NativeId
    text: str
    source: Mapping[str, Any]


class Place(Struct, frozen=True):
    """A passage's document and what stands above it there; '' where the store does not say."""

    doc: str
    heading_path: str


# --------------------------------------------------------------------------- SQL


def selected(columns: Columns) -> str:
    """Return the columns of a `Row`, for SELECT."""
    json = "NULL" if columns.source_json is None else quoted(columns.source_json)
    sources = (quoted(column) for _, column in columns.source_columns)
    return ", ".join((quoted(columns.id), quoted(columns.text), json, *sources))


def bounded_id(columns: Columns) -> str:
    """Return the id for SELECT, NULL for one that is too long to be kept many at a time."""
    name = quoted(columns.id)
    return f"CASE WHEN length({name}) <= {LONGEST_ID} THEN {name} END"


def passages(
    db: sqlite3.Connection, columns: Columns, condition: str = "1", *arguments: Any
) -> Generator[Row, None, None]:
    """Yield the rows for which *condition* holds, which may end with ORDER BY and LIMIT."""
    sql = f"SELECT {selected(columns)} FROM {quoted(columns.table)} WHERE {condition}"  # noqa: S608 - quoted
    with closing(db.execute(sql, arguments)) as rows:
        yield from rows


def find(db: sqlite3.Connection, columns: Columns, record_id: NativeId) -> Row | None:
    """Return the row with this very id, of the same storage class."""
    try:
        rows = list(passages(db, columns, f"{quoted(columns.id)} = ?", record_id))
    except (OverflowError, UnicodeEncodeError):  # no number or text that SQLite could hold
        return None
    # The column may take 'a' for 'A' and '1' for 1.
    return next((row for row in rows if type(row[0]) is type(record_id) and row[0] == record_id), None)


def found_as(db: sqlite3.Connection, columns: Columns, record_id: str) -> Row | None:
    """Return the row whose id is *record_id* as text."""
    for native in native_ids(record_id):
        row = find(db, columns, native)
        if row is not None:
            return row
    return None


# --------------------------------------------------------------------------- values


def named(record_id: object) -> str:
    """Return what messages call the record with this id."""
    return f"record {record_id!r:.80}"


def passage_of(layout: Layout, row: Row) -> Passage:
    """Return a row as a passage.

    Raises:
        StoreError: `invalid_record_id`, `invalid_record_text`, `invalid_text_encoding`,
            `invalid_source_metadata`, naming the record.
    """
    record_id = checked_id(row[0], f"a record of {layout.columns.table!r:.80}")
    return Passage(record_id, checked_text(row[1], record_id), source_of(layout.columns, row))


def checked_text(value: object, record_id: object) -> str:
    """Return *value* if it is text.

    Raises:
        StoreError: `invalid_record_text`, `invalid_text_encoding`.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Undecodable):
        raise StoreError("invalid_text_encoding", f"the text of {named(record_id)} is not UTF-8")
    raise StoreError(
        "invalid_record_text",
        f"the text of {named(record_id)} is stored as {_STORED.get(type(value), 'a number')}",
    )


def source_of(columns: Columns, row: Row) -> dict[str, Any]:
    """Return a row's source metadata, those of columns winning over those of the JSON; {} without any.

    Raises:
        StoreError: `invalid_source_metadata`, `invalid_text_encoding`.
    """
    source = {} if row[2] is None else _object_of(row[2], row[0])
    for (name, _), value in zip(columns.source_columns, row[3:], strict=True):
        if isinstance(value, Undecodable):
            raise StoreError("invalid_text_encoding", f"{name:.80} of {named(row[0])} is not UTF-8")
        if value is not None:
            source[name] = value
    return source


def _object_of(value: object, record_id: object) -> dict[str, Any]:
    try:
        if isinstance(value, str):
            return msgspec.json.decode(value, type=dict[str, Any])
        what = "it is stored as something other than text"
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        what = f"{error}"
    raise StoreError(
        "invalid_source_metadata", f"the source of {named(record_id)} is no JSON object: {what:.200}"
    )


def name_of(path: Path) -> str:
    """Return what a store is called whose passages do not name their document."""
    return os.fsencode(path.stem).decode(errors="replace")


def names_documents(columns: Columns) -> bool:
    """Tell whether a passage's source can name its document."""
    return columns.source_json is not None or any(name in _DOC_FIELDS for name, _ in columns.source_columns)


def place_of(layout: Layout, row: Row, name: str) -> Place:
    """Return where a passage stands, *name* being the store's; a source that is wrong says nothing."""
    if layout.contract == BGE:  # offsets and hashes alone; its metadata may name the book
        title = layout.stated.get("path") or layout.stated.get("title")
        return Place(f"{title or name}", "")
    try:
        source = source_of(layout.columns, row)
    except StoreError:
        source = {}
    return Place(_first(source, _DOC_FIELDS) or name, _first(source, _HEADING_FIELDS))


def _first(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    values = (source.get(field) for field in fields)
    return next((each for each in values if isinstance(each, str) and 0 < len(each) <= _LONGEST_PLACE), "")
