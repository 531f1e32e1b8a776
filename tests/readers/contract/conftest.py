"""A small store of each format, for the promises of `Reader`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from collated_readers import Budget, Examiner, Reader
from collated_readers.opening import StoreConnection, ask

MakeStore = Callable[..., Path]
Makers = Callable[[str], MakeStore]
OpenAt = Callable[[Path], StoreConnection]
Documents = Mapping[str, str]

DOCUMENTS = {
    f"{name}.md": "\n\n".join(
        [
            f"# {name}",
            *(f"## Part {n}\n\nThe blue zebra and a whale, part {n % 4} of {name}." for n in range(8)),
        ]
    )
    for name in ("first", "second", "third")
}
DOCUMENTS["copy.md"] = DOCUMENTS["second.md"]


def _contextpull(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_store")(path, documents, min_chars=1, rollback=True)


def _embedded_contextpull(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_store")(path, documents, rollback=True, embed_model="openai:any", embed_fn=_embed_all)


def _embed_all(model: str, texts: list[str]) -> list[list[float]]:
    return [[1.0, 0.0] for _ in texts]


def _codebase_index(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_code_store")(path, documents)


def _embedded_codebase_index(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_code_store")(path, documents, embed_model="openai:any", embed_fn=_embed_all)


def _book_agent(path: Path, make: Makers, documents: Documents) -> Path:
    manifest = {
        "version": "book-agent-explicit-v1",
        "model": "any",
        "dimensions": 2,
        "embedding_format": "json",
        "normalization": "l2",
        "metric": "dot",
        "sqlite_schema": {
            "table": "passages",
            "id": "id",
            "text": "body",
            "vector": "vector",
            "source_columns": {"path": "doc"},
        },
    }
    path.with_suffix(".manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    passages = [
        (f"{doc}#{n}", text, doc) for doc in documents for n, text in enumerate(documents[doc].split("\n\n"))
    ]
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE passages (id TEXT PRIMARY KEY, body TEXT, vector TEXT, doc TEXT)")
        made.executemany("INSERT INTO passages VALUES (?, ?, '[0.6, 0.8]', ?)", passages)
        made.commit()
    return path


# A new format is tried by everything below once it has a line here.
Example = Callable[[Path, Makers, Documents], Path]
EXAMPLES: dict[str, Example] = {
    "contextpull": _contextpull,
    "codebase-index": _codebase_index,
    "book-agent": _book_agent,
}
WITH_VECTORS: dict[str, Example] = {
    "contextpull": _embedded_contextpull,
    "codebase-index": _embedded_codebase_index,
    "book-agent": _book_agent,
}
"""Stores whose vectors have two numbers."""


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Makers:
    """`make("make_store")` is the fixture of that name: a format's own writer."""
    return request.getfixturevalue


@pytest.fixture
def example(reader: Reader, tmp_path: Path, make: Makers, open_at: OpenAt) -> Callable[..., StoreConnection]:
    """`example(documents)` opens a store of the reader's format, and has done what the daemon does then."""

    def open_it(documents: Documents = DOCUMENTS, name: str = "store") -> StoreConnection:
        path = EXAMPLES[reader.format](tmp_path / f"{name}.sqlite", make, documents)
        return _examined(reader, open_at(path))

    return open_it


@pytest.fixture
def db(example: Callable[..., StoreConnection]) -> StoreConnection:
    """A store of the reader's format."""
    return example()


@pytest.fixture
def embedded(reader: Reader, tmp_path: Path, make: Makers, open_at: OpenAt) -> StoreConnection:
    """A store of the reader's format whose vectors have two numbers."""
    path = WITH_VECTORS[reader.format](tmp_path / "store.sqlite", make, DOCUMENTS)
    return _examined(reader, open_at(path))


def _examined(reader: Reader, db: StoreConnection) -> StoreConnection:
    """Have done what the daemon does in the background, once a store is open."""
    if isinstance(reader, Examiner):
        budget = Budget.lasting(30)
        ask(db, lambda db: reader.examine(db, None, budget), budget)
    return db
