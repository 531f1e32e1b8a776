"""The rows that are ranked: the newest of each table, and those that a probe names (retrieve.md §5)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from collated_readers.contextful.reads import Reads
from collated_readers.contextful.schemas import quoted

from .arms import Arm, Row
from .columns import joined
from .filters import Where

__all__ = ["Kept", "admitted", "among", "newest", "rejoined", "rows_of", "window_of", "window_sql"]

_SMALLEST_WINDOW = 200
_WINDOW_FACTOR = 8
_KEPT_CHARACTERS = 4 * 1024 * 1024
_OVERHEAD = 50  # of a cell, in characters

Window = tuple[str, tuple[str, ...], Where, int]
"""A table, its columns that are read, the condition on its rows, and how many rows."""


class Kept:
    """The newest rows of tables, kept for the next question to the same state under the same bounds.

    They are the same whatever is asked. What was kept first is forgotten first, one window that alone is
    too large at once.
    """

    def __init__(self, characters: int = _KEPT_CHARACTERS) -> None:
        """Keep nothing yet, and later as many *characters* of cells."""
        self._characters = characters
        self._windows: OrderedDict[Window, list[Row]] = OrderedDict()
        self._sizes: dict[Window, int] = {}

    def __len__(self) -> int:
        """Return how many windows are kept."""
        return len(self._windows)

    def get(self, window: Window) -> list[Row] | None:
        """Return the rows of a window, if they are kept."""
        return self._windows.get(window)

    def put(self, window: Window, rows: list[Row]) -> None:
        """Keep the *rows* of a window."""
        self._windows[window] = rows
        self._sizes[window] = sum(_OVERHEAD + len(str(cell)) for row in rows for cell in row.cells)
        while sum(self._sizes.values()) > self._characters:
            first, _ = self._windows.popitem(last=False)
            del self._sizes[first]


def window_of(limit: int) -> int:
    """Return how many of a table's newest rows are looked at for *limit* rows."""
    return max(_WINDOW_FACTOR * limit, _SMALLEST_WINDOW)


def window_sql(arm: Arm, where: Where, window: int) -> str:
    """Return the statement that reads the newest *window* rows of a table."""
    return f"{_select(arm)}{where.clause()} ORDER BY {arm.order} LIMIT {window}"


def newest(reads: Reads, arm: Arm, where: Where, window: int, kept: Kept) -> list[Row]:
    """Return the newest *window* rows of a table, newest first."""
    key = (arm.table, arm.selected, where, window)
    rows = None if arm.is_volatile else kept.get(key)
    if rows is None:
        rows = rows_of(arm, reads.query(window_sql(arm, where, window), where.values).rows)
        if not arm.is_volatile:
            kept.put(key, rows)
    return rows


def rejoined(reads: Reads, arm: Arm, where: Where, column: str, ids: Sequence[str]) -> list[Row]:
    """Return the rows of a table whose *column* is among *ids*, newest first."""
    sql = f"{_select(arm)}{where.clause(among(column))} ORDER BY {arm.order}"
    return rows_of(arm, reads.query(sql, (list(ids), *where.values)).rows)


def admitted(reads: Reads, arm: Arm, where: Where, column: str, ids: Sequence[str]) -> set[str]:
    """Return those of *ids* that a table's *column* has in a row that meets *where*."""
    ids_of = f"SELECT DISTINCT CAST({quoted(column)} AS VARCHAR) FROM {quoted(arm.table)}"  # noqa: S608 - ours
    sql = f"{ids_of}{where.clause(among(column))}"
    return {row[0] for row in reads.query(sql, (list(ids), *where.values)).rows}


def rows_of(arm: Arm, pages: Sequence[Sequence[Any]]) -> list[Row]:
    """Return *pages*, cells in the order of `arm.selected`, as candidates."""
    at = arm.at()
    scored = [at[name] for name in arm.scored]
    return [
        Row(arm, at, cells, joined(cells[place] for place in scored).lower() if scored else None)
        for cells in pages
    ]


def among(column: str) -> str:
    """Return the condition that a *column*, as text, is among the list of texts that is bound first."""
    return f"CAST({quoted(column)} AS VARCHAR) IN (SELECT unnest(CAST(? AS VARCHAR[])))"


def _select(arm: Arm) -> str:
    columns = [quoted(name) for name in arm.selected]
    if arm.key is not None:
        columns.append(f"CAST({quoted(arm.key)} AS VARCHAR)")
    return f"SELECT {', '.join(columns)} FROM {quoted(arm.table)}"  # noqa: S608 - composed of quoted names
