"""A store is opened without a trace, whatever lies there (DESIGN §3, ANCHORS §5)."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import collated_readers
from collated_readers import Budget, RequestError, StoreError
from collated_readers.opening import (
    StoreConnection,
    StoreMoved,
    ask,
    sweep_copies,
    tables,
    take_signature,
    translate,
)
from collated_readers.opening.copies import private_directory

OpenAt = Callable[..., StoreConnection]
MakeStore = Callable[..., Path]
OtherProcess = Callable[[Path], Any]

DOCUMENTS = {
    "a.md": "# Zebra\n\nA zebra lives here, in a sentence of its own.\n",
    "b.md": "# Other\n\nMore.\n",
}
COUNT = "SELECT count(*) FROM documents"


def _count(db: StoreConnection) -> int:
    number: int = db.execute(COUNT).fetchone()[0]
    return number


def _asked(db: StoreConnection) -> int:
    return ask(db, _count, Budget.lasting(30))


def _tree(folder: Path) -> dict[str, Any]:
    """Everything in *folder*: names, bytes, modes and times of last change."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else None,
            path.lstat().st_mtime_ns,
            path.lstat().st_mode,
        )
        for path in [folder, *folder.rglob("*")]
    }


def _code_of(function: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as caught:
        function()
    return caught.value.code


# ---------------------------------------------------------------- without a trace


def _at_rest(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    return make_store(folder / "store.sqlite", DOCUMENTS)


def _rollback(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    return make_store(folder / "store.sqlite", DOCUMENTS, rollback=True)


def _live_writer(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    path = make_store(folder / "store.sqlite", DOCUMENTS)
    writer = other_process(path)
    assert writer.run("UPDATE documents SET title = 'written but not checkpointed'") == "ok"
    return path


def _dead_writer(folder: Path, make_store: MakeStore, other_process: OtherProcess) -> Path:
    path = make_store(folder / "store.sqlite", DOCUMENTS)
    writer = other_process(path)
    assert writer.run("UPDATE documents SET title = 'written but not checkpointed'") == "ok"
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
    tmp_path: Path,
    make_store: MakeStore,
    open_at: OpenAt,
    other_process: OtherProcess,
    *,
    situation: Callable[..., Path],
    mode: str,
) -> None:
    folder = tmp_path / "stores"
    path = situation(folder, make_store, other_process)
    before = _tree(folder)
    for _ in range(3):
        db = open_at(path)
        assert db.mode == mode
        assert _asked(db) == 2
        assert _tree(folder) == before
        db.close()
    assert _tree(folder) == before
    assert list((tmp_path / "copies").glob("*")) == []


def test_frames_that_are_not_checkpointed_are_seen(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = _live_writer(tmp_path, make_store, other_process)
    titles = ask(open_at(path), _titles, Budget.lasting(30))
    assert titles == {"written but not checkpointed"}


def _titles(db: StoreConnection) -> set[str]:
    return {title for (title,) in db.execute("SELECT title FROM documents")}


def test_no_file_beside_the_store_is_mapped(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = _live_writer(tmp_path, make_store, other_process)
    db = open_at(path)
    assert _asked(db) == 2
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not list a process's maps in /proc")
    assert str(tmp_path / "store.sqlite") not in maps.read_text()
    # ANCHORS §5 case 3: with a foreign -shm mapped, this would end the process with SIGBUS.
    os.truncate(tmp_path / "store.sqlite-shm", 0)
    assert _asked(db) == 2


def test_a_closed_connection_leaves_no_descriptor_and_may_be_closed_again(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    before = len(list(Path("/dev/fd").iterdir()))
    first, second = open_at(path), open_at(path)
    assert _asked(first) + _asked(second) == 4
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
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, name: bytes, rollback: bool
) -> None:
    made = make_store(tmp_path / "made.sqlite", DOCUMENTS, rollback=rollback)
    folder = tmp_path / "stores"
    folder.mkdir()
    path = folder / os.fsdecode(name)
    made.rename(path)
    assert _asked(open_at(path)) == 2
    assert [os.fsencode(found.name) for found in folder.iterdir()] == [name]


def test_a_path_that_begins_with_two_slashes_opens(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)
    assert _asked(open_at(Path("/" + str(path)))) == 2


def test_a_symlink_is_its_target_and_so_are_its_sidecars(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = _live_writer(tmp_path / "target", make_store, other_process)
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    db = open_at(link)
    assert db.mode == "copy"
    assert db.path == path
    assert ask(db, _titles, Budget.lasting(30)) == {"written but not checkpointed"}


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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_at: OpenAt,
    make: Callable[[Path], None],
    code: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "store.sqlite"
    make(path)
    assert _code_of(lambda: open_at(path)) == code


def test_a_store_below_a_file_has_vanished(tmp_path: Path, open_at: OpenAt) -> None:
    (tmp_path / "file").touch()
    assert _code_of(lambda: open_at(tmp_path / "file" / "store.sqlite")) == "vanished"


def test_a_truncated_store_is_damaged(tmp_path: Path, make_store: MakeStore, open_at: OpenAt) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    for size in range(4096, path.stat().st_size, 4096):
        os.truncate(path, path.stat().st_size - 4096)
        assert _code_of(lambda: ask(open_at(path), _read_all, Budget.lasting(30))) == "damaged", size


def _read_all(db: StoreConnection) -> None:
    # sqlite_master first, so that each table there is tried.
    for name in tables(db):
        if not name.startswith("sqlite_autoindex") and tables(db)[name] == "table":
            db.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608 - names from our own store
    if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
        raise StoreError("damaged", "found by integrity_check")


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_fifo_as_sidecar_blocks_nobody(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, suffix: str
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    os.mkfifo(tmp_path / f"store.sqlite{suffix}")
    if suffix == "-wal":
        assert _asked(open_at(path)) == 2
    else:
        assert _code_of(lambda: open_at(path)) == "not_a_file"


# ---------------------------------------------------------------- writers


def test_a_hot_journal_means_busy(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    writer = other_process(path)
    for sql in ("PRAGMA cache_size = 1", "BEGIN", "CREATE TABLE big AS SELECT hex(randomblob(100000)) AS x"):
        assert writer.run(sql) == "ok"
    writer.kill()
    assert (tmp_path / "store.sqlite-journal").stat().st_size > 0
    before = _tree(tmp_path)
    assert _code_of(lambda: open_at(path)) == "hot_journal"
    assert _tree(tmp_path) == before


def test_a_journal_that_turns_hot_while_the_store_is_open_means_busy(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    db = open_at(path)
    path.with_name("store.sqlite-journal").write_bytes(b"a writer died here".ljust(512))
    before = _tree(tmp_path)
    assert _code_of(lambda: _asked(db)) == "hot_journal"
    assert _tree(tmp_path) == before


def test_an_exclusive_lock_is_reported_at_once_and_passes(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    writer = other_process(path)
    assert writer.run("BEGIN EXCLUSIVE") == "ok"
    assert _code_of(lambda: open_at(path, seconds=4)) == "locked"  # sqlite3 by itself would wait 5 s
    assert writer.run("COMMIT") == "ok"
    db = open_at(path)
    assert writer.run("BEGIN EXCLUSIVE") == "ok"
    assert _code_of(lambda: _asked(db)) == "locked"
    assert writer.run("COMMIT") == "ok"
    assert _asked(db) == 2


@pytest.mark.parametrize("look", ["open_store", "take_signature"])
def test_looking_at_a_store_does_not_drop_the_lock_of_a_running_read(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess, look: str
) -> None:
    """ANCHORS §5 case 12."""
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    writer = other_process(path)

    def read(db: StoreConnection) -> str:
        assert _count(db) == 2
        if look == "open_store":
            open_at(path).close()
        else:
            take_signature(path)
        return str(writer.run("UPDATE documents SET title = 'under a running read'"))

    assert ask(open_at(path), read, Budget.lasting(30)) == "database is locked"
    assert writer.run("UPDATE documents SET title = 'after it'") == "ok"


def test_an_open_that_fails_does_not_drop_locks_either(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    writer = other_process(path)

    def read(db: StoreConnection) -> str:
        assert _count(db) == 2
        (tmp_path / "store.sqlite-journal").write_bytes(b"hot")
        assert _code_of(lambda: open_at(path)) == "hot_journal"
        (tmp_path / "store.sqlite-journal").unlink()
        return str(writer.run("UPDATE documents SET title = 'under a running read'"))

    assert ask(open_at(path), read, Budget.lasting(30)) == "database is locked"


# ---------------------------------------------------------------- stores that change


@pytest.mark.parametrize("rollback", [True, False])
def test_a_store_replaced_by_rename_has_moved(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, rollback: bool
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=rollback)
    new = make_store(tmp_path / "new.sqlite", {**DOCUMENTS, "c.md": "# C\n\nThird.\n"}, rollback=rollback)
    db = open_at(path)
    assert _asked(db) == 2
    new.replace(path)
    assert db.has_moved()
    with pytest.raises(StoreMoved):
        _asked(db)
    assert _asked(open_at(path)) == 3


@pytest.mark.parametrize("rollback", [True, False])
def test_a_store_rewritten_in_place_has_moved(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, rollback: bool
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=rollback)
    db = open_at(path)
    assert _asked(db) == 2
    make_store(path, {**DOCUMENTS, "c.md": "# C\n\nThird.\n"})
    with pytest.raises(StoreMoved):
        _asked(db)
    assert _asked(open_at(path)) == 3


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
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)
    db = open_at(path)
    path.unlink()
    with pytest.raises(StoreMoved):
        _asked(db)
    assert _code_of(lambda: open_at(path)) == "vanished"


def test_a_copy_stays_good_while_the_original_changes(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = _live_writer(tmp_path, make_store, other_process)
    db = open_at(path)
    shutil.copy(path, tmp_path / "other")
    path.unlink()
    assert not db.has_moved()
    assert _asked(db) == 2


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(120)])])
@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_under_a_writer_that_never_rests_every_read_is_one_consistent_state(
    tmp_path: Path, open_at: OpenAt, other_process: OtherProcess, seconds: float, journal_mode: str
) -> None:
    path = tmp_path / "store.sqlite"
    writer = other_process(path)
    for sql in (
        f"PRAGMA journal_mode = {journal_mode}",
        "PRAGMA wal_autocheckpoint = 7",
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
    assert len(values) == 1, "one transaction saw two states"
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return int(values.pop())


# ---------------------------------------------------------------- limits and budgets


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_an_endless_view_is_stopped_by_the_budget(tmp_path: Path, open_at: OpenAt) -> None:
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as made:
        made.execute(f"CREATE VIEW documents AS {ENDLESS}")
    made.close()
    db = open_at(path)
    assert _code_of(lambda: ask(db, _count, Budget.lasting(0.1))) == "deadline_exceeded"
    assert ask(db, lambda db: db.execute("SELECT 1").fetchone(), Budget.lasting(30)) == (1,)


def test_a_cancelled_budget_stops_a_statement_that_is_running(tmp_path: Path, open_at: OpenAt) -> None:
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (x)")
    made.close()
    db = open_at(path)
    budget = Budget.lasting(30)
    cancel = threading.Timer(0.05, lambda: setattr(budget, "cancelled", True))
    cancel.start()
    assert _code_of(lambda: ask(db, lambda db: db.execute(ENDLESS).fetchone(), budget)) == "deadline_exceeded"
    cancel.join()


def test_a_spent_budget_opens_and_asks_nothing(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)
    assert _code_of(lambda: open_at(path, seconds=0)) == "deadline_exceeded"
    db = open_at(path)
    assert _code_of(lambda: ask(db, _count, Budget.lasting(0))) == "deadline_exceeded"


def test_a_store_that_is_written_and_too_large_is_not_copied(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    path = _live_writer(tmp_path, make_store, other_process)
    assert _code_of(lambda: open_at(path, copy_limit_bytes=10_000)) == "too_large_to_copy"


def test_a_store_cannot_write_and_values_have_a_bound(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    db = open_at(make_store(tmp_path / "store.sqlite", DOCUMENTS))
    for sql in (
        "CREATE TEMP TABLE t (x)",
        "DELETE FROM documents",
        "SELECT length(hex(zeroblob(900000000)))",
    ):
        assert _code_of(partial(ask, db, partial(_run, sql), Budget.lasting(30)))


def _run(sql: str, db: StoreConnection) -> list[Any]:
    return db.execute(sql).fetchall()


def test_text_that_is_not_utf8_means_damaged_and_a_request_that_is_not_is_its_own_fault(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    with sqlite3.connect(path) as made:
        made.execute("UPDATE documents SET title = CAST(x'ff41' AS TEXT)")
    made.close()
    db = open_at(path)
    assert _code_of(lambda: ask(db, _titles, Budget.lasting(30))) == "damaged"
    with pytest.raises(RequestError) as caught:
        ask(db, lambda db: db.execute("SELECT ?", ("\ud800",)).fetchone(), Budget.lasting(30))
    assert caught.value.code == "invalid_params"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("no such module: fts5", "fts5_missing"),
        ("no such table: sections", "wrong_schema"),
        ("no such column: s.text", "wrong_schema"),
        ("malformed database schema (x)", "damaged"),
    ],
)
def test_what_sqlite_says_becomes_a_code(message: str, code: str) -> None:
    failure = translate(sqlite3.OperationalError(message), Path("/nowhere"))
    assert failure.code == code
    if code == "fts5_missing":
        assert f"sqlite3 (SQLite {sqlite3.sqlite_version})" in failure.message


# ---------------------------------------------------------------- copies


def test_leftovers_of_a_dead_process_are_swept_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    sweep_copies(copies)
    with private_directory(copies) as living:
        (living / "store").touch()
        dead = copies / "tmpdead"
        dead.mkdir()
        (dead / "store").touch()
        sweep_copies(copies)
        assert list(copies.iterdir()) == [living]
        assert (living / "store").exists()
    assert list(copies.iterdir()) == []


def test_the_directory_of_copies_is_ours_alone(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, other_process: OtherProcess
) -> None:
    assert _asked(open_at(_live_writer(tmp_path, make_store, other_process))) == 2
    assert stat.S_IMODE((tmp_path / "copies").stat().st_mode) == 0o700


# ---------------------------------------------------------------- other users, other limits

# Opens the store argv[1] with copies in argv[2] under the limit argv[3], and prints what happens.
LIMITED = """
import os, resource, sys
from pathlib import Path
import collated_readers
from collated_readers import Budget, StoreError
from collated_readers.opening import ask, open_store
kind, _, value = sys.argv[3].partition("=")
budget = Budget.lasting(30)
held = []
if kind == "uid":
    os.setgroups([])
    os.setgid(int(value))
    os.setuid(int(value))
if kind == "bytes":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(value), int(value)))
if kind == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(value), int(value)))
    while True:
        try:
            held.append(os.dup(0))
        except OSError:
            break
try:
    db = open_store(Path(sys.argv[1]), copies=Path(sys.argv[2]), copy_limit_bytes=1 << 30, budget=budget)
    print(db.mode, ask(db, lambda db: db.execute("SELECT count(*) FROM documents").fetchone()[0], budget))
except StoreError as error:
    print(error.code)
"""


@pytest.fixture
def limited(tmp_path: Path) -> Callable[[Path, str], str]:
    """`limited(path, "uid=65534")` says how it goes to open and ask a store in such a process."""

    def run(path: Path, limit: str) -> str:
        copies = tmp_path / "copies"
        copies.mkdir(exist_ok=True)
        copies.chmod(0o777)
        places = os.pathsep.join(str(Path(package).parent) for package in collated_readers.__path__)
        environ = {**os.environ, "PYTHONPATH": places}
        arguments: list[str | Path] = [sys.executable, "-c", LIMITED, path, copies, limit]
        done = subprocess.run(arguments, env=environ, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.strip()

    return run


@pytest.fixture
def stranger(tmp_path: Path, limited: Callable[[Path, str], str]) -> Iterator[Callable[[Path], str]]:
    """`stranger(path)` says how it goes for a user whom the permissions of files bind."""
    if os.getuid() != 0:
        yield lambda path: limited(path, f"uid={os.getuid()}")
        return
    above = [folder for folder in tmp_path.parents if folder.stat().st_mode & 0o005 != 0o005]
    modes = [(folder, folder.stat().st_mode) for folder in above]
    for folder, mode in modes:
        folder.chmod(mode | 0o005)
    tmp_path.chmod(0o755)
    yield lambda path: limited(path, "uid=65534")
    for folder, mode in modes:
        folder.chmod(mode)


@pytest.mark.parametrize(("rollback", "mode"), [(True, "rollback"), (False, "immutable")])
def test_a_store_in_a_directory_that_may_not_be_written_opens(
    tmp_path: Path, make_store: MakeStore, stranger: Callable[[Path], str], rollback: bool, mode: str
) -> None:
    folder = tmp_path / "stores"
    path = make_store(folder / "store.sqlite", DOCUMENTS, rollback=rollback)
    path.chmod(0o444)
    folder.chmod(0o555)
    before = _tree(folder)
    assert stranger(path) == f"{mode} 2"
    assert _tree(folder) == before
    folder.chmod(0o755)


def test_a_store_that_is_written_in_a_directory_that_may_not_be_written_opens(
    tmp_path: Path, make_store: MakeStore, stranger: Callable[[Path], str], other_process: OtherProcess
) -> None:
    folder = tmp_path / "stores"
    path = _live_writer(folder, make_store, other_process)
    for name in folder.iterdir():
        name.chmod(0o444)
    folder.chmod(0o555)
    before = _tree(folder)
    assert stranger(path) == "copy 2"
    assert _tree(folder) == before
    folder.chmod(0o755)


def test_what_may_not_be_read_is_said_to_be_so(
    tmp_path: Path, make_store: MakeStore, stranger: Callable[[Path], str]
) -> None:
    path = make_store(tmp_path / "stores" / "store.sqlite", DOCUMENTS)
    path.chmod(0)
    assert stranger(path) == "permission_denied"
    path.chmod(0o644)
    path.parent.chmod(0)
    assert stranger(path) == "permission_denied"
    path.parent.chmod(0o755)


def test_too_few_descriptors_have_their_own_code(
    tmp_path: Path, make_store: MakeStore, limited: Callable[[Path, str], str]
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    assert limited(path, "files=30") == "too_many_open_files"


def test_no_room_for_a_copy_has_its_own_code(
    tmp_path: Path, make_store: MakeStore, limited: Callable[[Path, str], str], other_process: OtherProcess
) -> None:
    path = _live_writer(tmp_path, make_store, other_process)
    assert limited(path, "bytes=20000") == "disk_full"
    assert list((tmp_path / "copies").iterdir()) == []
