"""The terms of FTS5 indexes (https://sqlite.org/fts5.html#the_fts5vocab_virtual_table_module)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Literal

__all__ = ["is_declared", "terms_in", "vocabulary_table"]

_DECLARED = """
SELECT name, sql FROM sqlite_master
WHERE type = 'table' AND name IN (SELECT value FROM json_each(?))"""
# Without a parenthesis no column is computed and nothing is checked. FTS5 itself writes them so.
_SHADOW = r"CREATE TABLE '{}_\w+'\([\w\s,]+\)"


def is_declared(
    db: sqlite3.Connection, table: str, declaration: re.Pattern[str], shadows: Sequence[str]
) -> bool:
    """Tell whether *table* is declared as its format has it, and its own tables as FTS5 writes them."""
    names = [table, *(f"{table}_{shadow}" for shadow in shadows)]
    declared: dict[str, object] = dict(db.execute(_DECLARED, (json.dumps(names),)))
    main = str(declared.pop(table, ""))
    return (
        declaration.fullmatch(main) is not None
        and len(declared) == len(shadows)
        and all(re.fullmatch(_SHADOW.format(table), str(sql)) for sql in declared.values())
        # Elsewhere a term as a BLOB would not be UTF-8.
        and db.execute("PRAGMA encoding").fetchone()[0] == "UTF-8"
    )


def terms_in(db: sqlite3.Connection, table: str) -> list[bytes]:
    """Return every term of an FTS5 table's index, ascending."""
    vocabulary = vocabulary_table(db, table, "row")
    return list(chain.from_iterable(db.execute(f"SELECT CAST(term AS BLOB) FROM {vocabulary}")))  # noqa: S608 - our own name


def vocabulary_table(db: sqlite3.Connection, table: str, kind: Literal["row", "instance"]) -> str:
    """Return the name of the connection's fts5vocab table of that *kind* over the FTS5 table.

    It is in the `temp` schema, which is in memory, so the store is not written to. The end of a
    transaction by ROLLBACK takes it away again.
    """
    name = f"collated_{table}_{kind}"
    if db.execute("SELECT 1 FROM temp.sqlite_master WHERE name = ?", (name,)).fetchone() is None:
        db.execute("PRAGMA query_only = OFF")  # it forbids writing to `temp` too
        try:
            db.execute(f"CREATE VIRTUAL TABLE temp.{name} USING fts5vocab('main', '{table}', '{kind}')")
        finally:
            db.execute("PRAGMA query_only = ON")
    return f"temp.{name}"
