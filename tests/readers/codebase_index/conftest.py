"""Code stores: those that the real program made, altered copies of them, and small ones in memory."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collated_readers.opening import StoreConnection

CodeStore = Callable[[str], StoreConnection]
Recorded = Callable[[str, str], list[tuple[list[str], Any]]]

# formats/codebase-index.md §2, without the full-text index.
_SCHEMA = """
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, lang TEXT, size_bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL, mtime_ns INTEGER NOT NULL, parser TEXT NOT NULL);
CREATE TABLE symbols (id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, name TEXT NOT NULL, qualified TEXT,
  kind TEXT NOT NULL, line_start INTEGER NOT NULL, line_end INTEGER NOT NULL, signature TEXT);
CREATE INDEX idx_symbols_name ON symbols(name);
CREATE INDEX idx_symbols_file ON symbols(file_id);
CREATE TABLE edges (id INTEGER PRIMARY KEY, edge_type TEXT NOT NULL, src_kind TEXT NOT NULL,
  src_id INTEGER NOT NULL, dst_kind TEXT, dst_id INTEGER, dst_name TEXT, file_id INTEGER NOT NULL,
  line INTEGER, resolved INTEGER NOT NULL DEFAULT 0, confidence TEXT, dst_qualifier TEXT);
CREATE INDEX idx_edges_src ON edges(src_kind, src_id);
CREATE INDEX idx_edges_dst ON edges(dst_kind, dst_id);
CREATE INDEX idx_edges_name ON edges(dst_name);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, line_start INTEGER NOT NULL,
  line_end INTEGER NOT NULL, kind TEXT, symbol_id INTEGER, content TEXT NOT NULL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class SmallStore:
    """A store in memory, filled row by row; every method returns the row's id."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.executescript(_SCHEMA)

    def file(self, path: str, lang: str | None = "python", parser: str = "treesitter") -> int:
        """Add a file."""
        return self._add(
            "files", path=path, lang=lang, size_bytes=1, sha256=f"sha of {path}", mtime_ns=1, parser=parser
        )

    def symbol(self, file: int, name: str, line: int = 1, end: int | None = None, **columns: Any) -> int:
        """Add a function, or what *columns* say."""
        row = {"file_id": file, "name": name, "qualified": name, "kind": "function", "line_start": line}
        return self._add("symbols", **{**row, "line_end": end or line, **columns})

    def edge(self, file: int, source: int, name: str, target: int | None = None, **columns: Any) -> int:
        """Add a call from one symbol to another, or what *columns* say."""
        row = {"edge_type": "call", "src_kind": "symbol", "src_id": source, "dst_name": name, "file_id": file}
        found = {"dst_kind": "symbol", "dst_id": target, "resolved": 1, "confidence": "extracted"}
        lost = {"confidence": "ambiguous"}
        return self._add("edges", **{**row, "line": 1, **(lost if target is None else found), **columns})

    def chunk(self, file: int, lines: tuple[int, int], content: str = "", kind: str | None = "window") -> int:
        """Add a chunk."""
        start, end = lines
        return self._add("chunks", file_id=file, line_start=start, line_end=end, kind=kind, content=content)

    def meta(self, key: str, value: object) -> int:
        """Add a row of `meta`."""
        return self._add("meta", key=key, value=value)

    def _add(self, table: str, **columns: Any) -> int:
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - our own names
        row = self.db.execute(sql, tuple(columns.values())).lastrowid
        assert row is not None
        return row


@pytest.fixture
def small_store() -> Iterator[Callable[[], SmallStore]]:
    """`small_store()` makes an empty store in memory."""
    made: list[SmallStore] = []

    def make() -> SmallStore:
        made.append(SmallStore())
        return made[-1]

    yield make
    for store in made:
        store.db.close()


@pytest.fixture(scope="session")
def code_stores(shared: Path) -> Path:
    """The folder of stores that the real program made."""
    return shared / "data" / "codebase-index"


@pytest.fixture
def code_store(code_stores: Path, open_at: Callable[[Path], StoreConnection]) -> CodeStore:
    """`code_store("typer/index.sqlite")` opens one of them where it lies."""
    return lambda name: open_at(code_stores / name)


@pytest.fixture
def altered_store(
    code_stores: Path, tmp_path: Path, open_at: Callable[[Path], StoreConnection]
) -> Callable[..., StoreConnection]:
    """`altered_store(sql…)` opens a copy of the `typer` store after those statements were run on it."""

    def alter(*statements: str) -> StoreConnection:
        path = tmp_path / "altered.sqlite"
        shutil.copyfile(code_stores / "typer" / "index.sqlite", path)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)
        return open_at(path)

    return alter


@pytest.fixture(scope="session")
def recorded(code_stores: Path) -> Recorded:
    """`recorded(store, command)` is what the real program was asked by *command*, and answered."""

    def read(store: str, command: str) -> list[tuple[list[str], Any]]:
        lines = (code_stores / store / "expected.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        asked = [(entry["cmd"][2:], entry["stdout"]) for entry in entries if entry["cmd"][1] == command]
        assert asked, "nothing is tested"
        return asked

    return read
