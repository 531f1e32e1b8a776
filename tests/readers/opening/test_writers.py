"""Stores that others write, lock and replace while they are open here (ANCHORS §5)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget, RequestError, StoreError
from collated_readers.book_agent.manifest import manifest_beside
from collated_readers.opening import (
    StoreConnection,
    StoreMoved,
    ask,
    take_signature,
)

pytestmark = pytest.mark.slow

MakeStore = Callable[..., Path]
OpenAt = Callable[..., StoreConnection]
OtherProcess = Callable[[Path], Any]
Tree = Callable[[Path], dict[str, Any]]
CodeOf = Callable[[Callable[[], object]], str]
Asked = Callable[[StoreConnection], int]
WrittenStore = Callable[[Path], Path]

DOCUMENTS = {
    "a.md": "# Zebra\n\nA zebra lives here, in a sentence of its own.\n",
    "b.md": "# Other\n\nMore.\n",
}


def _count(db: StoreConnection) -> int:
    number: int = db.execute("SELECT count(*) FROM documents").fetchone()[0]
    return number


# ---------------------------------------------------------------- writers


def test_a_hot_journal_means_busy(
    *,
    tmp_path: Path,
    make_store: MakeStore,
    open_at: OpenAt,
    other_process: OtherProcess,
    tree: Tree,
    code_of: CodeOf,
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    writer = other_process(path)
    for sql in ("PRAGMA cache_size = 1", "BEGIN", "CREATE TABLE big AS SELECT hex(randomblob(100000)) AS x"):
        assert writer.run(sql) == "ok"
    writer.kill()
    assert (tmp_path / "store.sqlite-journal").stat().st_size > 0
    before = tree(tmp_path)
    assert code_of(lambda: open_at(path)) == "hot_journal"
    assert tree(tmp_path) == before


def test_a_journal_that_turns_hot_while_the_store_is_open_means_busy(
    *, tmp_path: Path, make_store: MakeStore, open_at: OpenAt, tree: Tree, code_of: CodeOf, asked: Asked
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    db = open_at(path)
    path.with_name("store.sqlite-journal").write_bytes(b"a writer died here".ljust(512))
    before = tree(tmp_path)
    assert code_of(lambda: asked(db)) == "hot_journal"
    assert tree(tmp_path) == before


def test_an_exclusive_lock_is_reported_at_once_and_passes(
    *,
    tmp_path: Path,
    make_store: MakeStore,
    open_at: OpenAt,
    other_process: OtherProcess,
    code_of: CodeOf,
    asked: Asked,
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    writer = other_process(path)
    assert writer.run("BEGIN EXCLUSIVE") == "ok"
    assert code_of(lambda: open_at(path, seconds=4)) == "locked"  # sqlite3 by itself would wait 5 s
    assert writer.run("COMMIT") == "ok"
    db = open_at(path)
    assert writer.run("BEGIN EXCLUSIVE") == "ok"
    assert code_of(lambda: asked(db)) == "locked"
    assert writer.run("COMMIT") == "ok"
    assert asked(db) == 2


@pytest.mark.parametrize("look", ["open_store", "take_signature", "manifest", "journal"])
def test_looking_at_a_store_does_not_drop_the_lock_of_a_running_read(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess, look: str
) -> None:
    """ANCHORS §5 case 12."""
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    shutil.copyfile(path, path.with_name("other.sqlite"))
    writer = other_process(path)

    def read(db: StoreConnection) -> str:
        assert _count(db) == 2
        if look == "open_store":
            open_at(path).close()
        elif look == "take_signature":
            take_signature(path)
        elif look == "manifest":
            (tmp_path / "store.manifest.json").symlink_to(path)
            assert manifest_beside(path) is None
        else:
            path.with_name("other.sqlite-journal").symlink_to(path)
            with pytest.raises(StoreError):
                open_at(path.with_name("other.sqlite"))
        return str(writer.run("UPDATE documents SET title = 'under a running read'"))

    assert ask(open_at(path), read, Budget.lasting(30)) == "database is locked"
    assert writer.run("UPDATE documents SET title = 'after it'") == "ok"


def test_an_open_that_fails_does_not_drop_locks_either(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess, code_of: CodeOf
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    writer = other_process(path)

    def read(db: StoreConnection) -> str:
        assert _count(db) == 2
        (tmp_path / "store.sqlite-journal").write_bytes(b"hot")
        assert code_of(lambda: open_at(path)) == "hot_journal"
        (tmp_path / "store.sqlite-journal").unlink()
        return str(writer.run("UPDATE documents SET title = 'under a running read'"))

    assert ask(open_at(path), read, Budget.lasting(30)) == "database is locked"


# ---------------------------------------------------------------- stores that change


@pytest.mark.parametrize("rollback", [True, False])
def test_a_store_replaced_by_rename_has_moved(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, asked: Asked, rollback: bool
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=rollback)
    new = make_store(tmp_path / "new.sqlite", {**DOCUMENTS, "c.md": "# C\n\nThird.\n"}, rollback=rollback)
    db = open_at(path)
    assert asked(db) == 2
    new.replace(path)
    assert db.has_moved()
    with pytest.raises(StoreMoved):
        asked(db)
    assert asked(open_at(path)) == 3


@pytest.mark.parametrize("rollback", [True, False])
def test_a_store_rewritten_in_place_has_moved(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, asked: Asked, rollback: bool
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=rollback)
    db = open_at(path)
    assert asked(db) == 2
    make_store(path, {**DOCUMENTS, "c.md": "# C\n\nThird.\n"})
    with pytest.raises(StoreMoved):
        asked(db)
    assert asked(open_at(path)) == 3


def test_a_store_that_changes_while_it_is_read_has_moved(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)

    def read(db: StoreConnection) -> int:
        path.write_bytes(path.read_bytes()[:8192])
        return _count(db)

    db = open_at(path)
    with pytest.raises(StoreMoved):
        ask(db, read, Budget.lasting(30))


def test_whatever_a_reader_found_in_a_store_that_moved_is_no_answer(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)

    def read(db: StoreConnection) -> None:
        os.utime(path)
        raise RequestError("unknown_id", "no section 'x'")

    db = open_at(path)
    with pytest.raises(StoreMoved):
        ask(db, read, Budget.lasting(30))


def test_a_store_that_is_gone_has_moved_and_then_vanished(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, code_of: CodeOf, asked: Asked
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)
    db = open_at(path)
    path.unlink()
    with pytest.raises(StoreMoved):
        asked(db)
    assert code_of(lambda: open_at(path)) == "vanished"


def test_a_copy_stays_good_while_the_original_changes(
    tmp_path: Path, open_at: OpenAt, asked: Asked, written_store: WrittenStore
) -> None:
    path = written_store(tmp_path)
    db = open_at(path)
    shutil.copy(path, tmp_path / "other")
    path.unlink()
    assert not db.has_moved()
    assert asked(db) == 2


@pytest.mark.parametrize("seconds", [1, 10])
@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_under_a_writer_that_never_rests_every_read_is_one_consistent_state(
    tmp_path: Path, open_at: OpenAt, other_process: OtherProcess, seconds: float, journal_mode: str
) -> None:
    path = tmp_path / "store.sqlite"
    writer = other_process(path)
    for sql in (
        f"PRAGMA journal_mode = {journal_mode}",
        "PRAGMA wal_autocheckpoint = 100",  # a tenth of the default: the -wal is begun anew all the time
        "PRAGMA synchronous = OFF",
        "CREATE TABLE pair (a, b, filler)",
        "INSERT INTO pair VALUES (0, 0, randomblob(3000)), (0, 0, randomblob(9000))",
        "repeat UPDATE pair SET a = a + 1, b = b + 1, filler = randomblob(length(filler))",
    ):
        assert writer.run(sql) == "ok"
    end = time.monotonic() + seconds
    values: list[int] = []
    while time.monotonic() < end:
        try:
            db = open_at(path)
            values.append(ask(db, _pair, Budget.lasting(30)))
            db.close()
        except StoreError as error:
            assert error.code in {"keeps_changing", "hot_journal", "locked"}
    assert values == sorted(values)
    if journal_mode == "wal":
        assert len(set(values)) > 3


def _pair(db: StoreConnection) -> int:
    values = {value for _ in range(5) for row in db.execute("SELECT a, b FROM pair") for value in row}
    assert len(values) == 1, f"one transaction saw two states: {values} of {db.mode}, {db.signature}"
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return int(values.pop())
