"""The rules of opening (formats/book-agent.md O1–O9): what is no finished snapshot is left alone."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget, StoreError
from collated_readers.book_agent import BookAgent, PrebuiltVectorStoreAdapter
from collated_readers.opening import StoreConnection, ask, tables
from collated_readers.registry import identify

Write = Callable[..., Path]
Adapt = Callable[..., PrebuiltVectorStoreAdapter]
FailureOf = Callable[[Callable[[], object]], tuple[str, str]]
OpenAt = Callable[[Path], StoreConnection]
Refusal = Callable[..., tuple[str, str]]
Tree = Callable[[Path], dict[str, Any]]

SIDECARS = ("-wal", "-shm", "-journal")


def _identified(open_at: OpenAt, path: Path) -> str:
    return ask(open_at(path), identify, Budget.lasting(30))[0].format


@pytest.mark.parametrize("suffix", SIDECARS)
@pytest.mark.parametrize("content", [b"", b"\0" * 600])
def test_whatever_lies_beside_a_store_is_told_and_sqlite_is_not_called(
    tmp_path: Path, write_bge: Write, refusal: Refusal, suffix: str, content: bytes
) -> None:
    path = write_bge(tmp_path / "store.sqlite")
    path.write_bytes(b"SQLite format 3\0 and then nothing that SQLite could read" * 4)
    path.with_name(path.name + suffix).write_bytes(content)
    code, message = refusal(path)
    assert code == "sqlite_snapshot_incomplete"
    assert suffix in message


@pytest.mark.parametrize("suffix", SIDECARS)
def test_the_daemon_opens_no_store_with_a_file_beside_it(
    tmp_path: Path, write_bge: Write, open_at: OpenAt, failure_of: FailureOf, suffix: str
) -> None:
    path = write_bge(tmp_path / "store.sqlite")
    assert _identified(open_at, path) == "book-agent"
    path.with_name(path.name + suffix).touch()
    assert failure_of(lambda: _identified(open_at, path))[0] == "sqlite_snapshot_incomplete"


@pytest.mark.parametrize("suffix", SIDECARS)
@pytest.mark.parametrize("where", ["beside the link", "beside its target"])
def test_a_link_is_no_way_around_a_sidecar(
    tmp_path: Path, write_bge: Write, refusal: Refusal, suffix: str, where: str
) -> None:
    (tmp_path / "far").mkdir()
    target = write_bge(tmp_path / "far" / "store.sqlite")
    link = tmp_path / "link.sqlite"
    link.symlink_to(target)
    PrebuiltVectorStoreAdapter(link).close()
    beside = link if where == "beside the link" else target
    beside.with_name(beside.name + suffix).touch()
    assert refusal(link)[0] == "sqlite_snapshot_incomplete"


def test_a_sidecar_may_be_a_link_that_leads_nowhere(
    tmp_path: Path, write_bge: Write, refusal: Refusal
) -> None:
    path = write_bge(tmp_path / "store.sqlite")
    (tmp_path / "store.sqlite-wal").symlink_to(tmp_path / "nothing")
    assert refusal(path)[0] == "sqlite_snapshot_incomplete"


def test_a_store_in_wal_mode_is_refused_and_nothing_appears_beside_it(
    tmp_path: Path, write_bge: Write, refusal: Refusal, open_at: OpenAt, tree: Tree
) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    path = write_bge(folder / "store.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    before = tree(folder)
    code, message = refusal(path)
    assert (code, "wal_mode_header" in message) == ("sqlite_snapshot_incomplete", True)
    with pytest.raises(StoreError) as caught:
        _identified(open_at, path)
    assert caught.value.code == "sqlite_snapshot_incomplete"
    assert tree(folder) == before


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"x" * 4096, b"SQLite format 4\0" * 20])
def test_what_does_not_begin_like_a_database_is_none(
    tmp_path: Path, refusal: Refusal, content: bytes
) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    assert refusal(path)[0] == "not_a_database"


def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path, refusal: Refusal) -> None:
    os.mkfifo(tmp_path / "fifo.sqlite")
    (tmp_path / "loop.sqlite").symlink_to(tmp_path / "loop.sqlite")
    (tmp_path / "broken.sqlite").symlink_to(tmp_path / "nothing")
    names = ("fifo", "missing", "loop", "broken")
    codes = [refusal(tmp_path / f"{name}.sqlite")[0] for name in names]
    assert codes == ["not_a_file", "vanished", "broken_symlink", "broken_symlink"]


def test_a_path_may_hold_what_means_something_in_a_uri(
    tmp_path: Path, write_bge: Write, adapt: Adapt, tree: Tree
) -> None:
    folder = tmp_path / "a?mode=rwc#b%20c"
    folder.mkdir()
    path = write_bge(folder / "store?immutable=1%.sqlite")
    before = tree(tmp_path)
    assert len(list(adapt(path).iter_records())) == 4
    assert tree(tmp_path) == before


def test_every_operation_leaves_the_store_and_its_folder_as_they_were(
    tmp_path: Path, write_bge: Write, tree: Tree
) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    path = write_bge(folder / "store.sqlite")
    before = tree(folder)
    with PrebuiltVectorStoreAdapter(path) as adapter:
        adapter.inspect()
        adapter.validate()
        first = next(iter(adapter.iter_records()))
        assert adapter.get_record(first.id) == first
        adapter.get_source_metadata(first.id)
        adapter.search([1.0] * 1024, 3)
        assert tree(folder) == before
    adapter.close()
    assert tree(folder) == before


def test_nothing_can_be_written_and_nothing_loaded(tmp_path: Path, write_bge: Write, open_at: OpenAt) -> None:
    db = open_at(write_bge(tmp_path / "store.sqlite"))
    BookAgent().open(db, tables(db))
    assert db.execute("PRAGMA query_only").fetchone() == (1,)
    assert db.execute("PRAGMA trusted_schema").fetchone() == (0,)
    for statement in ("DELETE FROM chunks", "SELECT load_extension('x')", "CREATE TABLE temp.x (y)"):
        with pytest.raises(sqlite3.OperationalError):
            db.execute(statement)


@pytest.mark.parametrize("operation", ["validate", "search", "iter_records", "get_record", "inspect"])
def test_a_store_that_changes_under_an_open_adapter_is_told(
    tmp_path: Path, write_bge: Write, adapt: Adapt, failure_of: FailureOf, operation: str
) -> None:
    path = write_bge(tmp_path / "store.sqlite")
    adapter = adapt(path)
    work: dict[str, Callable[[], object]] = {
        "validate": adapter.validate,
        "search": lambda: adapter.search([1.0] * 1024),
        "iter_records": lambda: list(adapter.iter_records()),
        "get_record": lambda: adapter.get_record(1),
        "inspect": adapter.inspect,
    }
    work[operation]()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE chunks SET text = text || 'x' WHERE ordinal = 3")
        db.commit()
    assert failure_of(work[operation])[0] == "sqlite_snapshot_changed"


def test_a_store_that_changes_while_it_is_read_a_page_at_a_time_is_told(
    tmp_path: Path, write_bge: Write, adapt: Adapt
) -> None:
    path = write_bge(tmp_path / "store.sqlite", texts=[f"text {n}. " for n in range(600)])
    records = adapt(path).iter_records()
    next(records)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM chunks WHERE ordinal = 500")
        db.commit()
    with pytest.raises(StoreError) as caught:
        list(records)
    assert caught.value.code == "sqlite_snapshot_changed"
