"""The store's index, read through fts5vocab (https://sqlite.org/fts5.html#the_fts5vocab_virtual_table_module)."""

from __future__ import annotations

import re
import sqlite3
from itertools import chain
from typing import Literal

from .terms import TOKENIZER

__all__ = ["has_known_index", "vocabulary_of", "vocabulary_table"]

# Any other option, or only other spelling, may make an index that says something else.
_DECLARATION = re.compile(
    r"CREATE VIRTUAL TABLE (?:IF NOT EXISTS )?sections_fts USING fts5\s*"
    rf'\(\s*id UNINDEXED\s*,\s*heading_path\s*,\s*text\s*,\s*tokenize\s*=\s*"{re.escape(TOKENIZER)}"\s*\)'
)
# Without a parenthesis no column is computed and nothing is checked. FTS5 itself writes them so.
_SHADOW = re.compile(r"CREATE TABLE 'sections_fts_\w+'\([\w\s,]+\)")
_DECLARED = """
SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name IN
('sections_fts', 'sections_fts_content', 'sections_fts_data', 'sections_fts_docsize')"""


def has_known_index(db: sqlite3.Connection) -> bool:
    """Tell whether the index is declared as the format has it, so that its terms are those of `phrases`."""
    declared: dict[str, object] = dict(db.execute(_DECLARED))
    main = str(declared.pop("sections_fts", ""))
    return (
        _DECLARATION.fullmatch(main) is not None
        and len(declared) == 3  # noqa: PLR2004 - the three just named
        and all(_SHADOW.fullmatch(str(sql)) for sql in declared.values())
        # Elsewhere a term as a BLOB would not be UTF-8.
        and db.execute("PRAGMA encoding").fetchone()[0] == "UTF-8"
    )


def vocabulary_of(db: sqlite3.Connection) -> list[bytes] | None:
    """Return every term, ascending; None for an index that is not the format's."""
    if not has_known_index(db):
        return None
    table = vocabulary_table(db, "row")
    return list(chain.from_iterable(db.execute(f"SELECT CAST(term AS BLOB) FROM {table}")))  # noqa: S608 - our own name


def vocabulary_table(db: sqlite3.Connection, kind: Literal["row", "instance"]) -> str:
    """Return the name of the connection's fts5vocab table of that *kind*.

    It is in the `temp` schema, which is in memory, so the store is not written to. The end of a
    transaction by ROLLBACK takes it away again.
    """
    name = f"collated_{kind}"
    if db.execute("SELECT 1 FROM temp.sqlite_master WHERE name = ?", (name,)).fetchone() is None:
        db.execute("PRAGMA query_only = OFF")  # it forbids writing to `temp` too
        try:
            db.execute(f"CREATE VIRTUAL TABLE temp.{name} USING fts5vocab('main', 'sections_fts', '{kind}')")
        finally:
            db.execute("PRAGMA query_only = ON")
    return f"temp.{name}"
