"""Tables that hold anything anywhere, as only a store made to harm does: an answer, or a code."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from collated_readers import Budget, Pattern, Query, RequestError, StoreError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection, ask
from collated_readers.registry import identify
from collated_readers.single import search

OpenAt = Callable[[Path], StoreConnection]

READER = CodebaseIndex()
BUDGET = Budget.lasting(600)

TABLES = {
    "files": ("id", "path", "lang", "size_bytes", "sha256", "mtime_ns", "parser"),
    "chunks": ("id", "file_id", "line_start", "line_end", "kind", "symbol_id", "content"),
    "symbols": (
        *("id", "file_id", "name", "qualified", "kind", "line_start", "line_end", "signature"),
        *("in_degree", "out_degree"),
    ),
    "edges": (
        *("id", "edge_type", "src_kind", "src_id", "dst_kind", "dst_id", "dst_name", "file_id", "line"),
        *("resolved", "confidence", "dst_qualifier"),
    ),
}
# The third of the rows that is changed holds `main.py`, which questions are about.
FILES = (
    "README.md",
    *(
        f"typer/{name}.py"
        for name in ("cli", "params", "main", "core", "__main__", "testing", "_completion_classes")
    ),
    *(f"typer/_click/{name}.py" for name in ("_compat", "decorators", "termui", "core", "utils")),
)
LOOKED_UP = {"id", "path", "name", "dst_name", "file_id", "src_id", "dst_id", "symbol_id"}
VALUES = (
    *("NULL", "CAST(x'ff' AS TEXT)", "1.5", "'text'", "-1", "9223372036854775807"),
    "CAST({} AS BLOB)",
)
COLUMNS = [(table, column) for table, columns in TABLES.items() for column in columns]

QUESTIONS: tuple[Callable[[StoreConnection], object], ...] = (
    identify,
    lambda db: search(READER, db, Query("get command")),
    lambda db: search(READER, db, Query("get_command")),
    lambda db: search(READER, db, Query("get_command", ("typer/*",))),
    lambda db: READER.grep(db, Pattern("def"), BUDGET),
    lambda db: list(READER.texts(db)),
    lambda db: READER.read(db, "typer/main.py:40", 2),
    lambda db: READER.chunk(db, "typer/main.py", 40),
    lambda db: READER.references(db, "echo", "all", None, 100),
    lambda db: READER.references(db, "Typer.command", "all", None, 100),
    lambda db: READER.impact(db, "typer/main.py", "both", 3, BUDGET),
    lambda db: READER.impact(db, "Typer", "both", 3, BUDGET),
    lambda db: READER.symbols(db, "get", 50, exact=False),
    lambda db: READER.symbol_table(db).find("get", 50, exact=False),
    READER.postings,
    lambda db: READER.postings(db, [b"get", b"\0getcommand"]),
    READER.vocabulary,
    lambda db: READER.index(db, None),
    lambda db: READER.examine(db, "/nowhere", BUDGET),
)


@pytest.fixture(scope="module")
def untyped(code_stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `typer` store with tables whose columns have neither types nor keys.

    A third of its files are left, those that the questions are about among them: it is asked often.
    """
    path = tmp_path_factory.mktemp("untyped") / "store.sqlite"
    shutil.copyfile(code_stores / "typer" / "index.sqlite", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute(f"DELETE FROM files WHERE path NOT IN ({', '.join('?' * len(FILES))})", FILES)  # noqa: S608 - marks
        db.execute("PRAGMA foreign_keys = OFF")
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        for table in TABLES:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            db.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {table}")  # noqa: S608 - our own names
            db.execute(f"DROP TABLE {table}")
            db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            db.execute(f"INSERT INTO {table} SELECT * FROM kept")  # noqa: S608 - our own names
            db.execute("DROP TABLE kept")
            for column in LOOKED_UP.intersection(columns):
                db.execute(f"CREATE INDEX by_{table}_{column} ON {table}({column})")
    return path


def _ask_all(untyped: Path, path: Path, open_at: OpenAt, statement: str) -> None:
    shutil.copyfile(untyped, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)
    opened = open_at(path)
    for question in QUESTIONS:
        with suppress(StoreError, RequestError):
            ask(opened, question, BUDGET)


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_any_value_anywhere_is_an_answer_or_a_code(
    *, untyped: Path, tmp_path: Path, open_at: OpenAt, table: str, column: str, value: str
) -> None:
    statement = f"UPDATE {table} SET {column} = {value.format(column)} WHERE rowid % 3 = 1"  # noqa: S608 - ours
    _ask_all(untyped, tmp_path / "store.sqlite", open_at, statement)


def test_ids_of_another_type_are_a_code(untyped: Path, tmp_path: Path, open_at: OpenAt) -> None:
    statement = "UPDATE chunks SET id = CAST(id AS BLOB)"
    _ask_all(untyped, tmp_path / "store.sqlite", open_at, statement)
