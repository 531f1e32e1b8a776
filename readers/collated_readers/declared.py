"""What stands behind a name: a hostile store may have a view, a virtual table or computed columns there."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Mapping

from .contract import StoreError
from .values import text

__all__ = ["check_ordinary", "declaration_of", "is_ordinary", "lacking"]

_ORDINARY = re.compile(r"CREATE\s+TABLE\b", re.IGNORECASE)


def check_ordinary(
    db: sqlite3.Connection, tables: Mapping[str, str], name: str, columns: Collection[str]
) -> None:
    """Return when *name* is an ordinary table of a store with these *tables*, and *columns* are its own.

    Raises:
        StoreError: `wrong_schema`.
    """
    if tables.get(name) != "table" or not is_ordinary(db, name):
        raise StoreError("wrong_schema", f"the store has no table {name}, or something else of that name")
    for column in lacking(db, name, columns):
        raise StoreError("wrong_schema", f"the store's table {name} has no ordinary column {column}")


def declaration_of(db: sqlite3.Connection, name: str) -> str:
    """Return the statement that made the table *name*, empty where there is none."""
    row = db.execute("SELECT sql FROM sqlite_master WHERE name = ? AND type = 'table'", (name,)).fetchone()
    return "" if row is None or row[0] is None else text(row[0])


def is_ordinary(db: sqlite3.Connection, name: str) -> bool:
    """Tell whether *name* is a table, and not one that a module or a view computes."""
    return bool(_ORDINARY.match(declaration_of(db, name)))


def lacking(db: sqlite3.Connection, name: str, columns: Collection[str]) -> list[str]:
    """Return those of *columns* that the table *name* does not have as ordinary ones, by name."""
    # hidden: 2 and 3 are generated columns, which a hostile store could make compute for ever
    found = dict(db.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,)))
    return [column for column in sorted(columns) if found.get(column) != 0]
