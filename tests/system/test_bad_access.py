"""Stores that may not be read just now: permissions, locks, writers at work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Snapshot, Sql
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon

pytestmark = pytest.mark.slow


def test_an_unreadable_store_says_so_and_is_opened_once_it_may_be_read(
    start_daemon: StartDaemon, make_store: MakeStore, unprivileged: Sequence[str]
) -> None:
    daemon = start_daemon(wrapper=unprivileged)
    path = make_store(daemon.stores / "secret.sqlite", {"a.md": "# A\n\nsecret\n"})
    path.chmod(0)
    daemon.ask("rescan")
    store = daemon.status_of("secret")
    assert (store["state"], store["reason"]["code"]) == ("unreadable", "permission_denied")
    path.chmod(0o400)
    daemon.wait_state("secret", "open")
    assert daemon.found("secret") == ["secret:a.md#0"]


@pytest.mark.parametrize("is_rollback", [False, True])
def test_a_store_in_a_directory_that_may_not_be_written_answers(
    start_daemon: StartDaemon,
    make_store: MakeStore,
    snapshot: Snapshot,
    unprivileged: Sequence[str],
    is_rollback: bool,
) -> None:
    daemon = start_daemon(wrapper=unprivileged)
    path = make_store(daemon.stores / "fixed.sqlite", {"a.md": "# A\n\nfixed\n"}, rollback=is_rollback)
    path.chmod(0o444)
    daemon.stores.chmod(0o555)
    before = snapshot(daemon.stores)
    daemon.ask("rescan")
    assert daemon.found("fixed") == ["fixed:a.md#0"]
    assert daemon.stop() == 0
    assert snapshot(daemon.stores) == before
    daemon.stores.chmod(0o755)


def test_an_unreadable_directory_holds_nothing_up(
    start_daemon: StartDaemon, make_store: MakeStore, unprivileged: Sequence[str]
) -> None:
    daemon = start_daemon(wrapper=unprivileged, is_launched=False)
    closed = daemon.base / "closed"
    make_store(closed / "a.sqlite", {"a.md": "# A\n\nhidden\n"})
    make_store(daemon.stores / "good.sqlite", {"good.md": "# Good\n\nsound\n"})
    (daemon.stores / "linked.sqlite").symlink_to(closed / "a.sqlite")
    closed.chmod(0)
    daemon.configure(f'[[watch]]\npath = "{closed}"\n[[watch]]\npath = "{daemon.stores}"\n')
    daemon.start()
    daemon.ask("rescan")
    assert daemon.found("sound") == ["good:good.md#0"]
    assert daemon.status_of("linked")["reason"]["code"] == "permission_denied"
    closed.chmod(0o700)


def test_a_locked_store_is_named_at_once_and_answers_when_it_is_free(
    start_daemon: StartDaemon, make_store: MakeStore, sql: Callable[[Path], Sql]
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    path = make_store(daemon.stores / "locked.sqlite", {"a.md": "# A\n\nshared\n"}, rollback=True)
    make_store(daemon.stores / "good.sqlite", {"good.md": "# Good\n\nshared\n"})
    daemon.start().ask("rescan")
    other = sql(path)
    # Nobody can lock a store while its sidecar is made of it.
    daemon.wait_for(lambda: other.run("BEGIN EXCLUSIVE") == "ok", what="the lock")
    answer = daemon.ask("search", query="shared")
    assert [hit["ref"] for hit in answer["hits"]] == ["good:good.md#0"]
    assert [(each["store"], each["code"]) for each in answer["stores"]["failed"]] == [("locked", "locked")]
    assert other.run("COMMIT") == "ok"
    assert sorted(daemon.found("shared")) == ["good:good.md#0", "locked:a.md#0"]


def test_a_store_that_is_found_locked_is_busy_until_it_is_free(
    daemon: Daemon, make_store: MakeStore, sql: Callable[[Path], Sql], tmp_path: Path
) -> None:
    made = make_store(tmp_path / "made.sqlite", {"a.md": "# A\n\nshared\n"}, rollback=True)
    other = sql(made)
    assert other.run("BEGIN EXCLUSIVE") == "ok"
    (daemon.stores / "locked.sqlite").symlink_to(made)
    daemon.ask("rescan")
    store = daemon.status_of("locked")
    assert (store["state"], store["reason"]["code"]) == ("busy", "locked")
    assert other.run("COMMIT") == "ok"
    daemon.wait_state("locked", "open")
    assert daemon.found("shared") == ["locked:a.md#0"]


def test_a_store_in_the_middle_of_its_first_ingest_is_building_not_empty(
    daemon: Daemon, make_store: MakeStore, sql: Callable[[Path], Sql]
) -> None:
    path = make_store(daemon.stores / "new.sqlite", {"a.md": "# A\n\nnew\n"})
    other = sql(path)
    assert other.run("UPDATE meta SET key = 'later' WHERE key = 'corpus_fingerprint'") == "ok"
    daemon.ask("rescan")
    store = daemon.status_of("new")
    assert (store["state"], store["reason"]["code"]) == ("building", "building")
    answer = daemon.ask("search", query="new")
    assert [failure["code"] for failure in answer["stores"]["failed"]] == ["building"]
    assert other.run("UPDATE meta SET key = 'corpus_fingerprint' WHERE key = 'later'") == "ok"
    daemon.wait_state("new", "open")
    assert daemon.found("new") == ["new:a.md#0"]


def test_nothing_of_a_store_is_mapped_so_a_truncated_shm_kills_nobody(
    daemon: Daemon, make_store: MakeStore, sql: Callable[[Path], Sql]
) -> None:
    path = make_store(daemon.stores / "wal.sqlite", {"a.md": "# A\n\nmapped\n"})
    other = sql(path)
    assert other.run("INSERT INTO meta VALUES ('x', 'y')") == "ok"
    assert path.with_name("wal.sqlite-wal").stat().st_size > 0
    shm = path.with_name("wal.sqlite-shm")
    assert shm.stat().st_size > 0
    daemon.wait_state("wal", "open")
    assert daemon.found("mapped") == ["wal:a.md#0"]
    assert str(daemon.stores) not in Path(f"/proc/{daemon.pid}/maps").read_text(encoding="utf-8")
    os.truncate(shm, 0)
    for _ in range(10):
        assert daemon.found("mapped", sync=True) == ["wal:a.md#0"]


def test_looking_at_a_store_does_not_drop_the_lock_of_a_running_query(
    start_daemon: StartDaemon, make_slow_store: MakeSlowStore, slow_query: str, sql: Callable[[Path], Sql]
) -> None:
    daemon = start_daemon(is_launched=False)
    path = make_slow_store(daemon.stores / "slow.sqlite")
    daemon.start().ask("rescan")
    other = sql(path)

    def is_locked() -> bool:
        answer = other.run("BEGIN EXCLUSIVE")
        return answer == "database is locked" or other.run("ROLLBACK") != "ok"

    with daemon.client() as client:
        running = client.send("search", query=slow_query, deadline_ms=60_000)
        daemon.wait_for(is_locked, what="the query to hold its lock")
        os.utime(path)  # what any look takes for a new store: it is opened, read and identified again
        daemon.ask("rescan")
        assert is_locked()
        client.send("$/cancelRequest", id=running)
        assert {message["id"] for message in (client.receive(), client.receive())} == {running, running + 1}
    daemon.wait_for(lambda: not is_locked(), what="the lock to be gone with the query")
