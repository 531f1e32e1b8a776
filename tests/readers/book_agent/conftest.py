"""Book-agent stores of both contracts, written as their description says, and then broken."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collated_readers import Budget, Examined, Query, RequestError, StoreError
from collated_readers.book_agent import BookAgent, PrebuiltVectorStoreAdapter
from collated_readers.opening import StoreConnection, ask

TEXTS = (
    "# Erstes Kapitel\n\nThe blue zebra. ",
    "Ein naïver Gaul 🎉\n",
    "段落 and a whale.\r\n",
    "The end of it.",
)
STATED = {
    "contract": "bge-m3-lossless-v1",
    "model": "BAAI/bge-m3",
    "dimensions": "1024",
    "embedding_dtype": "float32",
    "byte_order": "little",
    "normalized": "true",
}
CHUNKS = """CREATE TABLE chunks (ordinal INTEGER PRIMARY KEY, char_start INTEGER, char_end INTEGER, text TEXT,
tokens INTEGER, text_sha256 TEXT, embedding BLOB)"""
PASSAGES = "CREATE TABLE passages (identifier TEXT PRIMARY KEY, body TEXT, vector, source TEXT)"
DTYPES = {"float32-le": "<f4", "float32-be": ">f4", "float64-le": "<f8", "float64-be": ">f8"}

Write = Callable[..., Path]


def unit(seed: int, dimensions: int = 1024) -> list[float]:
    """Return some vector of length 1."""
    vector = np.random.default_rng(seed).standard_normal(dimensions)
    numbers: list[float] = (vector / np.linalg.norm(vector)).tolist()
    return numbers


@pytest.fixture(scope="session")
def write_bge() -> Write:
    """`write_bge(path, sql…, texts=, stated=, schema=)` writes a `bge-m3-lossless-v1` store, then runs *sql*.

    *stated* replaces rows of the metadata; None takes one away.
    """

    def write(
        path: Path,
        *sql: str,
        texts: Sequence[str] = TEXTS,
        stated: Mapping[str, object] = {},
        schema: str = CHUNKS,
    ) -> Path:
        whole = "".join(texts)
        digest = hashlib.sha256(whole.encode()).hexdigest()
        metadata = {**STATED, "chunk_count": str(len(texts)), "source_sha256": digest, **stated}
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("CREATE TABLE metadata (key TEXT PRIMARY KEY, value)")
            rows = [(key, value) for key, value in metadata.items() if value is not None]
            db.executemany("INSERT INTO metadata VALUES (?, ?)", rows)
            db.execute(schema)
            db.execute("BEGIN")
            db.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", _chunks(texts))
            db.execute("COMMIT")
            for statement in sql:
                db.execute(statement)
        return path

    return write


def _chunks(texts: Sequence[str]) -> Iterator[tuple[object, ...]]:
    at = 0
    for ordinal, text in enumerate(texts):
        digest = hashlib.sha256(text.encode()).hexdigest()
        vector = np.asarray(unit(ordinal), "<f4").tobytes()
        yield ordinal, at, at + len(text), text, 9, digest, vector
        at += len(text)


@pytest.fixture(scope="session")
def stored() -> Callable[[str, Sequence[float]], object]:
    """`stored(format, numbers)` is a vector as the column holds it."""

    def encode(encoding: str, numbers: Sequence[float]) -> object:
        if encoding == "json":
            return json.dumps(list(numbers))
        return np.asarray(numbers, DTYPES.get(encoding, "<f4")).tobytes()

    return encode


@pytest.fixture(scope="session")
def write_explicit(stored: Callable[[str, Sequence[float]], object]) -> Write:
    """`write_explicit(path, rows, sql…, schema=, columns=, **fields)` writes a store and its manifest.

    A row is (id, text, numbers, source). *columns* replaces fields of `sqlite_schema`, *fields* those of
    the manifest; None takes one away.
    """

    def write(
        path: Path,
        rows: Sequence[tuple[object, object, Sequence[float], object]],
        *sql: str,
        schema: str = PASSAGES,
        columns: Mapping[str, object] = {},
        **fields: object,
    ) -> Path:
        sqlite_schema: dict[str, object] = {
            "table": "passages",
            "id": "identifier",
            "text": "body",
            "vector": "vector",
            "source_json": "source",
            "source_columns": {},
        }
        manifest: dict[str, Any] = {
            "version": "book-agent-explicit-v1",
            "model": "some-model",
            "dimensions": len(rows[0][2]) if rows else 2,
            "embedding_format": "float32-le",
            "normalization": "none",
            "metric": "dot",
            "sqlite_schema": _without_none({**sqlite_schema, **columns}),
        }
        manifest = _without_none({**manifest, **fields})
        path.with_suffix(".manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        encoding = str(manifest.get("embedding_format"))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(schema)
            db.execute("BEGIN")
            db.executemany(
                "INSERT INTO passages VALUES (?, ?, ?, ?)",
                ((key, text, stored(encoding, numbers), source) for key, text, numbers, source in rows),
            )
            db.execute("COMMIT")
            for statement in sql:
                db.execute(statement)
        return path

    return write


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@pytest.fixture
def rows() -> list[tuple[object, object, Sequence[float], object]]:
    """Four passages of two documents, for `write_explicit`."""
    return [
        ("a", "The blue zebra.", [1.0, 0.0], '{"path": "one.pdf", "chapter": "Stripes", "page": 1}'),
        ("b", "A whale, blue too.", [0.0, 1.0], '{"path": "one.pdf", "chapter": "Seas"}'),
        ("c", "Zebra and whale.", [0.6, 0.8], '{"path": "two.pdf"}'),
        ("d", "Nothing of either.", [-1.0, 0.0], None),
    ]


@pytest.fixture
def adapt(request: pytest.FixtureRequest) -> Callable[..., PrebuiltVectorStoreAdapter]:
    """`adapt(path, **options)` opens a store and, where there is one, its manifest."""

    def open_it(path: Path, **options: Any) -> PrebuiltVectorStoreAdapter:
        manifest = path.with_suffix(".manifest.json")
        adapter = PrebuiltVectorStoreAdapter(path, manifest if manifest.exists() else None, **options)
        request.addfinalizer(adapter.close)
        return adapter

    return open_it


@pytest.fixture(scope="session")
def examine() -> Callable[[StoreConnection], Examined]:
    """`examine(db)` does what the daemon does in the background: it validates, and makes the index."""

    def call(db: StoreConnection) -> Examined:
        budget = Budget.lasting(30)
        return ask(db, lambda db: BookAgent().examine(db, None, budget), budget)

    return call


@pytest.fixture
def examined(
    open_at: Callable[[Path], StoreConnection], examine: Callable[[StoreConnection], Examined]
) -> Callable[[Path], StoreConnection]:
    """`examined(path)` opens a store as the daemon does, and makes its index."""

    def open_it(path: Path) -> StoreConnection:
        db = open_at(path)
        examine(db)
        return db

    return open_it


@pytest.fixture(scope="session")
def is_indexing() -> Callable[[StoreConnection], bool]:
    """`is_indexing(db)`: does it say that its words are not known yet, however they are asked for?"""
    reader = BookAgent()

    def call(db: StoreConnection) -> bool:
        assert reader.vocabulary(db) is None
        for work in (
            lambda: reader.ranked(db, Query("zebra"), "any"),
            lambda: reader.postings(db),
            lambda: reader.postings(db, [b"zebra"]),
        ):
            with pytest.raises(StoreError) as caught:
                work()
            if caught.value.code != "indexing":
                return False
        return True

    return call


@pytest.fixture(scope="session")
def failure_of() -> Callable[[Callable[[], object]], tuple[str, str]]:
    """`failure_of(function)` is code and message of the error that *function* must raise."""

    def call(function: Callable[[], object]) -> tuple[str, str]:
        try:
            function()
        except (StoreError, RequestError) as error:
            return error.code, error.message
        raise AssertionError("it did not fail")

    return call


@pytest.fixture
def refusal(
    adapt: Callable[..., PrebuiltVectorStoreAdapter],
    failure_of: Callable[[Callable[[], object]], tuple[str, str]],
) -> Callable[..., tuple[str, str]]:
    """`refusal(path, **options)` is code and message of the error that opening or validating must raise."""

    def call(path: Path, **options: Any) -> tuple[str, str]:
        return failure_of(lambda: adapt(path, **options).validate())

    return call
