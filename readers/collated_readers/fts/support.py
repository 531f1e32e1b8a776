"""Whether this Python's SQLite has FTS5 at all."""

from __future__ import annotations

import sqlite3

from collated_readers.contract import StoreError

__all__ = ["check_fts5"]


def check_fts5(db: sqlite3.Connection, question: str) -> None:
    """Return when the statement *question*, which asks an FTS5 table, can be run.

    Raises:
        StoreError: `fts5_missing`.
    """
    try:
        db.execute(question).fetchone()
    except sqlite3.OperationalError as error:
        if not str(error).startswith("no such module"):
            raise
        raise StoreError(
            "fts5_missing", f"this Python's sqlite3 (SQLite {sqlite3.sqlite_version}) was built without FTS5"
        ) from error
