"""The full-text index of a store's texts, which the format does not have: see `textindex`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from collated_readers.contract import Budget
from collated_readers.opening import StoreConnection
from collated_readers.textindex import Text, TextIndex

from .ids import NativeId, is_id, text_id
from .layout import Layout, quoted
from .passages import Row, bounded_id, find, name_of, place_of

__all__ = ["KIND", "build", "in_id_order", "index_of"]

KIND = "passage"


def index_of(db: StoreConnection, layout: Layout) -> TextIndex:
    """Return the store's index, there or not."""
    return TextIndex(db, "book-agent", layout.digest)


def build(db: StoreConnection, layout: Layout, outcome: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """Make the store's index, and return *outcome* with what was left out of it; that is kept with it.

    Raises:
        StoreError: `deadline_exceeded`.
        OSError: there is no room, or the directory is not ours.
    """
    total: int = db.execute(f"SELECT count(*) FROM {quoted(layout.columns.table)}").fetchone()[0]  # noqa: S608 - quoted
    return index_of(db, layout).build(_texts(db, layout), outcome, budget, total)


def _texts(db: StoreConnection, layout: Layout) -> Iterator[Text]:
    """Yield every passage whose id and text are sound."""
    for record_id, row in in_id_order(db, layout):
        if isinstance(row[1], str):
            place = place_of(layout, row, name_of(db.path))
            yield Text(record_id, place.doc, place.heading_path, KIND, row[1])


def in_id_order(
    db: sqlite3.Connection, layout: Layout, condition: str = "1", *arguments: Any
) -> Iterator[tuple[str, Row]]:
    """Yield (id as text, row) of the records for which *condition* holds, by that id.

    Without those that have no id, or one that is another's as text; `Examiner.examine` tells of them.
    """
    columns = layout.columns
    sql = f"SELECT {bounded_id(columns)} FROM {quoted(columns.table)} WHERE {condition}"  # noqa: S608 - quoted
    with closing(db.execute(sql, arguments)) as rows:
        ids: dict[str, NativeId] = {}
        for (value,) in rows:
            if is_id(value) and (isinstance(value, str) or text_id(value) not in ids):
                ids[text_id(value)] = value  # as `found_as` finds it
    for record_id in sorted(ids):
        row = find(db, columns, ids[record_id])
        if row is not None:
            yield record_id, row
