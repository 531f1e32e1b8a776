"""Opening, asking and closing leave a store's bytes, time stamps and directory as they were (DESIGN §3)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Program, Snapshot, Sql
    from tests.system.conftest import Daemon, StartDaemon

pytestmark = pytest.mark.slow

DOCUMENTS = {
    "a.md": "# Alpha\n\nThe first of some sections about whales, long enough to stand alone.\n",
    "b/c.md": "# Beta\n\nAnother one about whales and ships, in a document of its own.\n",
}


def _use(daemon: Daemon, name: str) -> None:
    """Ask the store *name* everything that can be asked."""
    with daemon.client() as client:
        client.ask("stores")
        for question in ("whales", "whales ships", "the first of some", "nothing of the kind", "---"):
            client.ask("search", query=question, stores=[name])
        client.ask("search", query="whales", stores=[name], mode="hybrid")
        client.ask("grep", pattern="whales", stores=[name])
        client.ask("grep", pattern="w.ales$", regex=True, stores=[name])
        client.ask("read", ref=f"{name}:a.md#0", context=2)
        client.ask("neighbours", ref=f"{name}:b/c.md#0")
        client.ask("index", store=name)
        client.ask("search", query="whales", stores=[name], sync=True)
        client.ask("rescan")


def _check_untouched(daemon: Daemon, name: str, directory: Path, snapshot: Snapshot, before: Any) -> None:
    for _ in range(3):
        _use(daemon, name)
        assert snapshot(directory) == before
    daemon.restart()
    _use(daemon, name)
    assert daemon.stop() == 0
    assert snapshot(directory) == before


@pytest.mark.parametrize("is_rollback", [True, False], ids=["rollback", "WAL at rest"])
def test_a_store_at_rest_is_left_as_it_was(
    start_daemon: StartDaemon, make_store: MakeStore, snapshot: Snapshot, is_rollback: bool
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    make_store(daemon.stores / "one.sqlite", DOCUMENTS, rollback=is_rollback)
    before = snapshot(daemon.stores)
    daemon.start()
    _check_untouched(daemon, "one", daemon.stores, snapshot, before)


def test_a_store_with_frames_in_its_wal_that_nobody_writes_is_left_as_it_was(
    start_daemon: StartDaemon, make_store: MakeStore, snapshot: Snapshot, sql: Callable[[Path], Sql]
) -> None:
    daemon = start_daemon(is_launched=False)
    other = sql(make_store(daemon.stores / "one.sqlite", DOCUMENTS))
    assert other.run("INSERT INTO meta VALUES ('x', 'y')") == "ok"
    other.process.kill()
    other.process.wait()
    before = snapshot(daemon.stores)
    assert {"one.sqlite-wal", "one.sqlite-shm"} <= before.keys()
    daemon.start()
    _check_untouched(daemon, "one", daemon.stores, snapshot, before)


def test_a_store_with_an_idle_writer_is_left_as_it_was_and_the_writer_writes_on(
    start_daemon: StartDaemon, make_store: MakeStore, snapshot: Snapshot, sql: Callable[[Path], Sql]
) -> None:
    daemon = start_daemon(is_launched=False)
    other = sql(make_store(daemon.stores / "one.sqlite", DOCUMENTS))
    assert other.run("INSERT INTO meta VALUES ('x', 'y')") == "ok"
    before = snapshot(daemon.stores)
    daemon.start()
    _check_untouched(daemon, "one", daemon.stores, snapshot, before)
    assert other.run("DELETE FROM meta WHERE key = 'x'") == "ok"
    assert other.run("PRAGMA integrity_check") == "ok"


# Adds rows one by one, and at the end says how many it had added and what SQLite thinks of the file.
WRITER = """
import select, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
number = 0
while not select.select([sys.stdin], [], [], 0.001)[0]:
    db.execute("INSERT INTO meta VALUES (?, 'y')", (f"x{number}",))
    number += 1
count = db.execute("SELECT count(*) FROM meta WHERE key LIKE 'x%'").fetchone()[0]
print(number, count, db.execute("PRAGMA integrity_check").fetchone()[0])
"""


def test_a_live_writer_loses_nothing_and_is_never_in_the_way(
    start_daemon: StartDaemon, make_store: MakeStore, program: Program
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    path = make_store(daemon.stores / "one.sqlite", DOCUMENTS)
    writer = program(WRITER, path)  # it waits for no lock: any of ours would end it with an error
    daemon.start()
    daemon.wait_for(lambda: daemon.found("whales"), what="an answer beside the writer")
    for _ in range(20):
        daemon.ask("search", query="whales", sync=True)
    said, _ = writer.communicate("stop\n", timeout=30)
    written, counted, verdict = said.split()
    assert (written, verdict) == (counted, "ok")
    assert int(written) > 20
    # Its -wal and -shm are its own; it removes them itself when it ends well.
    assert [each.name for each in daemon.stores.iterdir()] == ["one.sqlite"]
    daemon.wait_for(lambda: list(daemon.copies.iterdir()) == [], what="the private copies to be gone")


@pytest.mark.parametrize("is_rollback", [True, False], ids=["rollback", "WAL at rest"])
def test_a_store_in_a_read_only_directory_answers_and_is_left_as_it_was(
    start_daemon: StartDaemon,
    make_store: MakeStore,
    snapshot: Snapshot,
    unprivileged: Sequence[str],
    is_rollback: bool,
) -> None:
    daemon = start_daemon(is_launched=False, wrapper=unprivileged)
    path = make_store(daemon.stores / "one.sqlite", DOCUMENTS, rollback=is_rollback)
    path.chmod(0o444)
    daemon.stores.chmod(0o555)
    before = snapshot(daemon.stores)
    daemon.start()
    assert len(daemon.found("whales")) == 2
    _check_untouched(daemon, "one", daemon.stores, snapshot, before)
    daemon.stores.chmod(0o755)


@pytest.mark.parametrize("number", [15, 9])
def test_a_daemon_that_ends_in_the_middle_leaves_a_store_as_it_was(
    start_daemon: StartDaemon, make_store: MakeStore, snapshot: Snapshot, number: int
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    for name, is_rollback in (("one", True), ("two", False)):
        make_store(daemon.stores / f"{name}.sqlite", DOCUMENTS, rollback=is_rollback)
    before = snapshot(daemon.stores)
    daemon.start()
    with daemon.client() as client:
        for limit in range(1, 51):
            client.send("search", query="whales ships", limit=limit)
        os.kill(daemon.pid, number)
        assert daemon.stop() in (0, -9)
    assert snapshot(daemon.stores) == before


def test_no_reference_store_is_touched(start_daemon: StartDaemon, shared: Path, snapshot: Snapshot) -> None:
    daemon = start_daemon(is_launched=False)
    shutil.copytree(shared / "data", daemon.base / "all", copy_function=shutil.copy2)
    for directory, _, files in os.walk(daemon.base / "all"):
        for each in (directory, *(str(Path(directory) / name) for name in files)):
            Path(each).chmod(0o755)
    before = snapshot(daemon.base / "all")
    daemon.configure(f'[[watch]]\npath = "{daemon.base / "all"}"\nmatch = ["**/*.sqlite", "**/*.db"]\n')
    daemon.start()
    daemon.ask("rescan")
    stores = daemon.ask("stores")["stores"]
    assert len(stores) > 50
    assert {store["state"] for store in stores} <= {"open", "refused", "busy", "unreadable"}
    daemon.ask("search", query="whale the a of", limit=50)
    assert daemon.stop() == 0
    assert snapshot(daemon.base / "all") == before
