"""Rows by name: `TABLE/RUN/ROW`, which citations, hits and greps share, and what one row says."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers.contextful.model import Bounds
from collated_readers.contextful.schemas import quoted
from collated_readers.contextful.wire import Row, RowParams

from .call import Call

__all__ = ["NAME", "RowName", "named", "row", "text_of"]

NAME = """"_run_id" || '/' || CAST("_row_seq" AS VARCHAR)"""
"""The name of a row within its table, in SQL."""

_NUMBER = re.compile("0|[1-9][0-9]{0,18}", re.ASCII)
_HIGHEST = 2**63 - 1
_NODES = ("_commit_seq", "_site_id")  # what tells such rows apart
_MOST = 100  # rows of one name: one for each node that had a run of that id


class RowName(Struct, frozen=True):
    """A row: its table, the run that landed it, and its number within that run."""

    table: str
    run_id: str
    row_seq: int

    def __str__(self) -> str:
        """Return the id of the row in the federation."""
        return f"{self.table}/{self.run_id}/{self.row_seq}"


def named(text: str) -> RowName | None:
    """Return the row that *text* names, None if it names none; a table's name may hold slashes."""
    table, _, rest = text.rpartition("/")
    table, _, run_id = table.rpartition("/")
    is_name = table and run_id and _NUMBER.fullmatch(rest) and int(rest) <= _HIGHEST
    return RowName(table, run_id, int(rest)) if is_name else None


def row(call: Call, params: RowParams) -> Row | None:
    """Return a row as a record, None where the table's relation has no such row.

    Raises:
        RequestError: what stands against reading the table.
    """
    name = named(params.id)
    reads = call.reads_of(Bounds())
    if name is None or name.table not in reads.relations & reads.store.tables.keys():
        return None
    known = {column.name for column in reads.columns(name.table)}
    order = ", ".join([*(one for one in _NODES if one in known), "1"])
    where = f'WHERE "_run_id" = ? AND "_row_seq" = ? ORDER BY {order}'
    sql = f"SELECT * FROM {quoted(name.table)} {where}"  # noqa: S608 - composed here
    page = reads.query(sql, [name.run_id, name.row_seq], limit=_MOST)
    if not page.rows:
        return None
    texts = [text_of(dict(zip(page.columns, cells, strict=True))) for cells in page.rows]
    return Row(str(name), name.table, name.run_id, "\n\n".join(texts))


def text_of(cells: dict[str, Any]) -> str:
    """Return the cells of a row as text, one a line; none of those that every table has, and no nulls."""
    shown = {name: value for name, value in cells.items() if value is not None and not name.startswith("_")}
    return "\n".join(f"{name}: {_cell(value)}" for name, value in shown.items())


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
