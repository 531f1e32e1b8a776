"""Fixtures that several folders of tests need."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from codebase_index.config import load  # type: ignore[import-untyped]  # nor has this one
from codebase_index.indexer.pipeline import build_index  # type: ignore[import-untyped]  # nor has this one
from codebase_index.storage.db import Database  # type: ignore[import-untyped]  # nor has this one
from contextpull.ingest import ingest  # type: ignore[import-untyped]  # the package has no types
from hypothesis import HealthCheck, settings

from collated_readers import Budget
from collated_readers.opening import StoreConnection, open_store

# A busy machine is no fault of the code: time is never judged here. `quick` is for `make check`.
settings.register_profile("whole", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("whole"), max_examples=20)
settings.load_profile("whole")

MakeStore = Callable[..., Path]
OpenStore = Callable[..., StoreConnection]
Program = Callable[..., subprocess.Popen[str]]
Snapshot = Callable[[Path], dict[str, tuple[object, ...]]]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of seeds, formats and reference data that lies beside the checkout."""
    default = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("COLLATE_SHARED", default))
    if not (folder / "data").is_dir():
        pytest.skip(f"no reference data at {folder}; COLLATE_SHARED names the shared folder")
    return folder


@pytest.fixture(scope="session")
def make_store(tmp_path_factory: pytest.TempPathFactory) -> MakeStore:
    """`make_store(path, {doc_path: text}, rollback=False, **ingest_options)` writes a real ContextPull store.

    The store is as `ingest` leaves it: WAL in the header and no sidecars. Writing to a *path* that
    exists ingests again, so it updates in place, as the real program does.
    """

    def make(path: Path, documents: Mapping[str, str], *, rollback: bool = False, **options: Any) -> Path:
        corpus = tmp_path_factory.mktemp("corpus")
        for name, text in documents.items():
            document = corpus / name
            document.parent.mkdir(parents=True, exist_ok=True)
            document.write_text(text, encoding="utf-8", newline="")
        path.parent.mkdir(parents=True, exist_ok=True)
        ingest(corpus, path, **options)
        if rollback:
            with sqlite3.connect(path) as db:
                db.execute("PRAGMA journal_mode = DELETE")
            db.close()
        return path

    return make


# What the extension sqlite-vec makes of a virtual table, and the program's own tables beside it.
_VECTOR_TABLES = """
CREATE TABLE vec_chunks_chunks(chunk_id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL,
  validity BLOB NOT NULL, rowids BLOB NOT NULL);
CREATE TABLE vec_chunks_vector_chunks00(rowid PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE vec_meta (model TEXT, dim INTEGER, built_at TEXT);
CREATE TABLE vec_cache (model TEXT NOT NULL, content_sha TEXT NOT NULL, embedding BLOB NOT NULL,
  PRIMARY KEY (model, content_sha));
PRAGMA writable_schema = ON;
INSERT INTO sqlite_master VALUES ('table', 'vec_chunks', 'vec_chunks', 0,
  'CREATE VIRTUAL TABLE vec_chunks USING vec0(chunk_id INTEGER PRIMARY KEY, embedding FLOAT[2])');
PRAGMA writable_schema = RESET;
"""

WriteVectors = Callable[..., None]


@pytest.fixture(scope="session")
def write_vectors() -> WriteVectors:
    """`write_vectors(db, {chunk: vector}, model, size=1024)` adds vectors to a code store.

    The tables are as the program and its extension, which is not needed, leave them; *size* vectors fit
    in a block, of which the last places are used. Chunks that are not there are written too, but for
    `vec_cache`.
    """

    def write(
        db: sqlite3.Connection, vectors: Mapping[int, Sequence[float]], model: str, *, size: int = 1024
    ) -> None:
        db.executescript(_VECTOR_TABLES)
        packed = {row: struct.pack(f"<{len(vector)}f", *vector) for row, vector in vectors.items()}
        rows = list(packed)
        for number, at in enumerate(range(0, len(rows), size), start=1):
            some = rows[at : at + size]
            free = size - len(some)
            used = ((1 << size) - (1 << free)).to_bytes((size + 7) // 8, "little")
            ids = struct.pack(f"<{size}q", *[0] * free, *some)
            block = bytes(len(packed[some[0]]) * free) + b"".join(packed[row] for row in some)
            db.execute("INSERT INTO vec_chunks_chunks VALUES (?, ?, ?, ?)", (number, size, used, ids))
            db.execute("INSERT INTO vec_chunks_vector_chunks00 VALUES (?, ?)", (number, block))
        db.execute("INSERT INTO vec_meta VALUES (?, 0, '2026-01-01T00:00:00+00:00')", (model,))
        for row, content in db.execute("SELECT id, content FROM chunks").fetchall():
            if row in packed:
                cached = (model, hashlib.sha256(content.encode()).hexdigest(), packed[row])
                db.execute("INSERT OR REPLACE INTO vec_cache VALUES (?, ?, ?)", cached)

    return write


@pytest.fixture(scope="session")
def make_code_store(tmp_path_factory: pytest.TempPathFactory, write_vectors: WriteVectors) -> MakeStore:
    """`make_code_store(path, {file: text}, root=None)` writes a real codebase-index store of those files.

    With *root* they are written there and stay. A *path* that exists is indexed again, in place. Symbols
    are found where the program has its grammars, which it may want to download. With `embed_model` and
    `embed_fn(model, texts)` it has vectors.
    """

    def make(
        path: Path,
        files: Mapping[str, str],
        *,
        root: Path | None = None,
        embed_model: str = "",
        embed_fn: Callable[[str, list[str]], list[list[float]]] | None = None,
    ) -> Path:
        project = root or tmp_path_factory.mktemp("project")
        for name, text in files.items():
            file = project / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        path.parent.mkdir(parents=True, exist_ok=True)
        with Database(path) as db:
            build_index(load(project), db, root=project)
        if embed_fn is not None:
            with closing(sqlite3.connect(path)) as made:
                chunks = made.execute("SELECT id, content FROM chunks").fetchall()
                vectors = embed_fn(embed_model, [content for _, content in chunks])
                write_vectors(
                    made,
                    {row: vector for (row, _), vector in zip(chunks, vectors, strict=True)},
                    embed_model,
                )
                made.commit()
        return path

    return make


@pytest.fixture
def open_at(tmp_path: Path) -> Iterator[OpenStore]:
    """`open_at(path)` opens a store for half a minute, with copies in a directory of the test's own."""
    opened: list[StoreConnection] = []

    def open_it(path: Path, *, copy_limit_bytes: int = 1 << 30, seconds: float = 30.0) -> StoreConnection:
        budget = Budget.lasting(seconds)
        db = open_store(path, copies=tmp_path / "copies", copy_limit_bytes=copy_limit_bytes, budget=budget)
        opened.append(db)
        return db

    yield open_it
    for db in opened:
        db.close()


@pytest.fixture
def program() -> Iterator[Program]:
    """`program(code, *args)` runs Python beside the test, with pipes; ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *args: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


class Sql:
    """Another program that has a database open; it answers each statement with `ok` or the error."""

    CODE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
for line in sys.stdin:
    try:
        db.execute(line).fetchall()
        print("ok", flush=True)
    except sqlite3.Error as error:
        print(error, flush=True)
"""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(self, sql: str) -> str:
        """Run one statement there and return what it says; empty when the program has died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(sql + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def sql(program: Program) -> Callable[[Path], Sql]:
    """`sql(path)` starts another program that has the database at *path* open."""
    return lambda path: Sql(program(Sql.CODE, path))


@pytest.fixture(scope="session")
def snapshot() -> Snapshot:
    """`snapshot(directory)` gives all that a reader could have touched: kind, bytes, inode, time stamps."""

    def entry(path: Path) -> tuple[object, ...]:
        about = path.lstat()
        content: object = None
        if stat.S_ISREG(about.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(about.st_mode):
            content = path.readlink()
        return (about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns, content)

    def take(directory: Path) -> dict[str, tuple[object, ...]]:
        every = [directory, *directory.rglob("*")]
        return {str(path.relative_to(directory)): entry(path) for path in every}

    return take
