"""Fixtures that several folders of tests need."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from contextpull.ingest import ingest  # type: ignore[import-untyped]  # the package has no types

from collated_readers import Budget
from collated_readers.opening import StoreConnection, open_store

MakeStore = Callable[..., Path]
OpenStore = Callable[..., StoreConnection]


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
