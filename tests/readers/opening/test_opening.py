"""A store is opened without a trace, whatever its name and whatever lies there (DESIGN §3)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget, StoreError
from collated_readers.opening import (
    StoreConnection,
    ask,
    tables,
)

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


# ---------------------------------------------------------------- without a trace


def _at_rest(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    return make_store(folder / "store.sqlite", DOCUMENTS)


def _rollback(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    return make_store(folder / "store.sqlite", DOCUMENTS, rollback=True)


def _live_writer(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    path = make_store(folder / "store.sqlite", DOCUMENTS)
    writer = other_process(path)
    assert writer.run("UPDATE documents SET title = 'not checkpointed'") == "ok"
    return path


def _dead_writer(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    path = make_store(folder / "store.sqlite", DOCUMENTS)
    writer = other_process(path)
    assert writer.run("UPDATE documents SET title = 'not checkpointed'") == "ok"
    writer.kill()
    return path


def _empty_wal(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    path = make_store(folder / "store.sqlite", DOCUMENTS)
    (folder / "store.sqlite-wal").touch()
    return path


def _kept_journal(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    path = make_store(folder / "store.sqlite", DOCUMENTS, rollback=True)
    (folder / "store.sqlite-journal").write_bytes(bytes(512))  # as journal_mode=PERSIST leaves it
    return path


@pytest.mark.parametrize(
    ("situation", "mode"),
    [
        (_rollback, "rollback"),
        (_kept_journal, "rollback"),
        (_at_rest, "immutable"),
        (_empty_wal, "immutable"),
        (_live_writer, "copy"),
        (_dead_writer, "copy"),
    ],
)
def test_opening_querying_and_closing_changes_nothing(
    *,
    tmp_path: Path,
    make_store: MakeStore,
    open_at: OpenAt,
    other_process: OtherProcess,
    tree: Tree,
    asked: Asked,
    situation: Callable[..., Path],
    mode: str,
) -> None:
    folder = tmp_path / "stores"
    path = situation(folder, make_store, other_process)
    before = tree(folder)
    for _ in range(3):
        db = open_at(path)
        assert db.mode == mode
        assert asked(db) == 2
        assert tree(folder) == before
        db.close()
    assert tree(folder) == before
    assert list((tmp_path / "copies").glob("*")) == []


def test_frames_that_are_not_checkpointed_are_seen(
    tmp_path: Path, open_at: OpenAt, written_store: WrittenStore
) -> None:
    path = written_store(tmp_path)
    titles = ask(open_at(path), _titles, Budget.lasting(30))
    assert titles == {"not checkpointed"}


def _titles(db: StoreConnection) -> set[str]:
    return {title for (title,) in db.execute("SELECT title FROM documents")}


def test_no_file_beside_the_store_is_mapped(
    tmp_path: Path, open_at: OpenAt, asked: Asked, written_store: WrittenStore
) -> None:
    path = written_store(tmp_path)
    db = open_at(path)
    assert asked(db) == 2
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not list a process's maps in /proc")
    assert str(tmp_path / "store.sqlite") not in maps.read_text()
    # ANCHORS §5 case 3: with a foreign -shm mapped, this would end the process with SIGBUS.
    os.truncate(tmp_path / "store.sqlite-shm", 0)
    assert asked(db) == 2


def test_a_closed_connection_leaves_no_descriptor_and_may_be_closed_again(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, asked: Asked
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    before = len(list(Path("/dev/fd").iterdir()))
    first, second = open_at(path), open_at(path)
    assert asked(first) + asked(second) == 4
    for db in (first, second, first):
        db.close()
    assert len(list(Path("/dev/fd").iterdir())) == before


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    [
        b"a#b.sqlite",
        b"a?mode=rwc.sqlite",
        b"a%41.sqlite",
        b"a b;c.sqlite",
        b"caf\xe9 \xff.sqlite",
        "ä🤖.db".encode(),
    ],
)
@pytest.mark.parametrize("rollback", [True, False])
def test_any_name_opens_and_leaves_no_stray_file(
    *, tmp_path: Path, make_store: MakeStore, open_at: OpenAt, asked: Asked, name: bytes, rollback: bool
) -> None:
    made = make_store(tmp_path / "made.sqlite", DOCUMENTS, rollback=rollback)
    folder = tmp_path / "stores"
    folder.mkdir()
    path = folder / os.fsdecode(name)
    made.rename(path)
    assert asked(open_at(path)) == 2
    assert [os.fsencode(found.name) for found in folder.iterdir()] == [name]


def test_a_path_that_begins_with_two_slashes_opens(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, asked: Asked
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)
    assert asked(open_at(Path("/" + str(path)))) == 2


def test_a_symlink_is_its_target_and_so_are_its_sidecars(
    tmp_path: Path, open_at: OpenAt, written_store: WrittenStore
) -> None:
    path = written_store(tmp_path / "target")
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    db = open_at(link)
    assert db.mode == "copy"
    assert db.path == path
    assert ask(db, _titles, Budget.lasting(30)) == {"not checkpointed"}


# ---------------------------------------------------------------- what is not a store


def _directory(path: Path) -> None:
    path.mkdir()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))  # a socket's path must be short


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _empty(path: Path) -> None:
    path.touch()


def _garbage(path: Path) -> None:
    path.write_bytes(b"x" * 5_000)


def _cut_short(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(20))


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _nothing(path: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_directory, "not_a_file"),
        (_fifo, "not_a_file"),
        (_socket, "not_a_file"),
        (_device, "not_a_file"),
        (_empty, "empty_file"),
        (_garbage, "not_sqlite"),
        (_cut_short, "damaged"),
        (_dangling, "broken_symlink"),
        (_loop, "broken_symlink"),
        (_nothing, "vanished"),
    ],
)
def test_what_is_not_a_store_is_refused_with_its_code(
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code_of: CodeOf,
    open_at: OpenAt,
    make: Callable[[Path], None],
    code: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "store.sqlite"
    make(path)
    assert code_of(lambda: open_at(path)) == code


def test_a_store_below_a_file_has_vanished(tmp_path: Path, open_at: OpenAt, code_of: CodeOf) -> None:
    (tmp_path / "file").touch()
    assert code_of(lambda: open_at(tmp_path / "file" / "store.sqlite")) == "vanished"


def test_a_truncated_store_is_damaged(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, code_of: CodeOf
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    for size in range(4096, path.stat().st_size, 4096):
        os.truncate(path, path.stat().st_size - 4096)
        assert code_of(lambda: ask(open_at(path), _read_all, Budget.lasting(30))) == "damaged", size


def _read_all(db: StoreConnection) -> None:
    # sqlite_master first, so that each table there is tried.
    for name in tables(db):
        if not name.startswith("sqlite_autoindex") and tables(db)[name] == "table":
            db.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608 - names from our own store
    if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
        raise StoreError("damaged", "found by integrity_check")


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_fifo_as_sidecar_blocks_nobody(
    *, tmp_path: Path, make_store: MakeStore, open_at: OpenAt, code_of: CodeOf, asked: Asked, suffix: str
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    os.mkfifo(tmp_path / f"store.sqlite{suffix}")
    if suffix == "-wal":
        assert asked(open_at(path)) == 2
    else:
        assert code_of(lambda: open_at(path)) == "not_a_file"
