"""Budgets, private copies, other users and small limits."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import collated_readers
from collated_readers import Budget, RequestError
from collated_readers.opening import (
    StoreConnection,
    ask,
    sweep_copies,
    translate,
)
from collated_readers.opening.copies import private_directory

MakeStore = Callable[..., Path]
OpenAt = Callable[..., StoreConnection]
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


# ---------------------------------------------------------------- limits and budgets


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_an_endless_view_is_stopped_by_the_budget(tmp_path: Path, open_at: OpenAt, code_of: CodeOf) -> None:
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as made:
        made.execute(f"CREATE VIEW documents AS {ENDLESS}")
    made.close()
    db = open_at(path)
    assert code_of(lambda: ask(db, _count, Budget.lasting(0.1))) == "deadline_exceeded"
    assert ask(db, lambda db: db.execute("SELECT 1").fetchone(), Budget.lasting(30)) == (1,)


def test_a_cancelled_budget_stops_a_statement_that_is_running(
    tmp_path: Path, open_at: OpenAt, code_of: CodeOf
) -> None:
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (x)")
    made.close()
    db = open_at(path)
    budget = Budget.lasting(30)
    cancel = threading.Timer(0.05, lambda: setattr(budget, "cancelled", True))
    cancel.start()
    assert code_of(lambda: ask(db, lambda db: db.execute(ENDLESS).fetchone(), budget)) == "deadline_exceeded"
    cancel.join()


def test_a_budget_that_ends_with_the_answer_leaves_no_transaction(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt
) -> None:
    """SQLite counts the opcodes of a statement over all its executions, and so asks in any of them."""
    db = open_at(make_store(tmp_path / "store.sqlite", DOCUMENTS))
    for _ in range(5_000):
        budget = Budget.lasting(30)
        ask(db, partial(_cancel, budget), budget)
        assert not db.in_transaction


def _cancel(budget: Budget, _: StoreConnection) -> None:
    budget.cancelled = True


def test_a_spent_budget_opens_and_asks_nothing(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, code_of: CodeOf
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS)
    assert code_of(lambda: open_at(path, seconds=0)) == "deadline_exceeded"
    db = open_at(path)
    assert code_of(lambda: ask(db, _count, Budget.lasting(0))) == "deadline_exceeded"


def test_a_store_that_is_written_and_too_large_is_not_copied(
    tmp_path: Path, open_at: OpenAt, code_of: CodeOf, written_store: WrittenStore
) -> None:
    path = written_store(tmp_path)
    assert code_of(lambda: open_at(path, copy_limit_bytes=10_000)) == "too_large_to_copy"


def test_a_store_cannot_write_and_values_have_a_bound(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, code_of: CodeOf
) -> None:
    db = open_at(make_store(tmp_path / "store.sqlite", DOCUMENTS))
    for sql in (
        "CREATE TEMP TABLE t (x)",
        "DELETE FROM documents",
        "SELECT length(hex(zeroblob(900000000)))",
    ):
        assert code_of(partial(ask, db, partial(_run, sql), Budget.lasting(30)))


def _run(sql: str, db: StoreConnection) -> list[Any]:
    return db.execute(sql).fetchall()


def test_text_that_is_not_utf8_means_damaged_and_a_request_that_is_not_is_its_own_fault(
    tmp_path: Path, make_store: MakeStore, open_at: OpenAt, code_of: CodeOf
) -> None:
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
    with sqlite3.connect(path) as made:
        made.execute("UPDATE documents SET title = CAST(x'ff41' AS TEXT)")
    made.close()
    db = open_at(path)
    assert code_of(lambda: ask(db, _titles, Budget.lasting(30))) == "damaged"
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


def test_a_directory_that_is_being_made_is_not_swept(tmp_path: Path) -> None:
    """Whoever sweeps in a thread or process beside may come between a directory and its lock."""
    copies, is_over = tmp_path / "copies", threading.Event()

    def sweep() -> None:
        while not is_over.is_set():
            sweep_copies(copies)

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for _ in range(300):
            with private_directory(copies) as living:
                (living / "store").touch(exist_ok=False)
                (living / "store").unlink()
    finally:
        is_over.set()
        for sweeper in sweepers:
            sweeper.join()


def test_the_directory_of_copies_is_ours_alone(
    tmp_path: Path, open_at: OpenAt, asked: Asked, written_store: WrittenStore
) -> None:
    assert asked(open_at(written_store(tmp_path))) == 2
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
if kind == "uid" and int(value) != os.getuid():
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
def commons() -> Iterator[Path]:
    """A folder that any user may enter; pytest's own are closed to others, again and again."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.getuid() == 0 and any(above.stat().st_mode & 0o001 == 0 for above in folder.parents):
            pytest.skip(f"other users may not enter {folder.parent}")
        yield folder


@pytest.fixture
def limited(commons: Path) -> Callable[[Path, str], str]:
    """`limited(path, "uid=65534")` says how it goes to open and ask a store in such a process."""
    copies = commons / "copies"
    copies.mkdir()
    copies.chmod(0o777)
    places = os.pathsep.join(str(Path(package).parent) for package in collated_readers.__path__)
    environ = {**os.environ, "PYTHONPATH": places}

    def run(path: Path, limit: str) -> str:
        arguments: list[str | Path] = [sys.executable, "-c", LIMITED, path, copies, limit]
        done = subprocess.run(arguments, env=environ, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.strip()

    return run


@pytest.fixture
def stranger(limited: Callable[[Path, str], str]) -> Callable[[Path], str]:
    """`stranger(path)` says how it goes for a user whom the permissions of files bind."""
    uid = os.getuid() or 65_534
    return lambda path: limited(path, f"uid={uid}")


@pytest.mark.parametrize(("rollback", "mode"), [(True, "rollback"), (False, "immutable")])
def test_a_store_in_a_directory_that_may_not_be_written_opens(
    *,
    commons: Path,
    make_store: MakeStore,
    tree: Tree,
    stranger: Callable[[Path], str],
    rollback: bool,
    mode: str,
) -> None:
    folder = commons / "stores"
    path = make_store(folder / "store.sqlite", DOCUMENTS, rollback=rollback)
    path.chmod(0o444)
    folder.chmod(0o555)
    before = tree(folder)
    assert stranger(path) == f"{mode} 2"
    assert tree(folder) == before
    folder.chmod(0o755)


def test_a_store_that_is_written_in_a_directory_that_may_not_be_written_opens(
    commons: Path, tree: Tree, written_store: WrittenStore, stranger: Callable[[Path], str]
) -> None:
    folder = commons / "stores"
    path = written_store(folder)
    for name in folder.iterdir():
        name.chmod(0o444)
    folder.chmod(0o555)
    before = tree(folder)
    assert stranger(path) == "copy 2"
    assert tree(folder) == before
    folder.chmod(0o755)


def test_what_may_not_be_read_is_said_to_be_so(
    commons: Path, make_store: MakeStore, stranger: Callable[[Path], str]
) -> None:
    path = make_store(commons / "stores" / "store.sqlite", DOCUMENTS)
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
    commons: Path, written_store: WrittenStore, limited: Callable[[Path, str], str]
) -> None:
    path = written_store(commons)
    assert limited(path, "bytes=20000") == "disk_full"
    assert list((commons / "copies").iterdir()) == []


def _titles(db: StoreConnection) -> set[str]:
    return {title for (title,) in db.execute("SELECT title FROM documents")}
