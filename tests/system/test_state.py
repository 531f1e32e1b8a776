"""What the daemon remembers between runs: kept, lost, damaged, locked, on a full disk; never fatal."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Sql
    from tests.system.conftest import Daemon, StartDaemon

pytestmark = pytest.mark.slow


@pytest.fixture
def known(start_daemon: StartDaemon, make_store: MakeStore) -> Daemon:
    """A daemon that knows a store and a file that is none, and has been stopped."""
    daemon = start_daemon(is_launched=False)
    make_store(daemon.stores / "known.sqlite", {"a.md": "# A\n\nremembered words\n"})
    (daemon.stores / "text.sqlite").write_text("no store", encoding="utf-8")
    daemon.start().ask("rescan")
    assert daemon.stop() == 0
    return daemon


def _knows_all(daemon: Daemon) -> bool:
    states = {store["name"]: store["state"] for store in daemon.ask("stores")["stores"]}
    return states == {"known": "open", "text": "refused"}


def _state_error(daemon: Daemon) -> Any:
    return daemon.ask("status")["watch"]["state_error"]


def _remembered(path: Path) -> int:
    with sqlite3.connect(path) as db:
        count: int = db.execute("SELECT count(*) FROM store").fetchone()[0]
    db.close()
    return count


def test_known_stores_are_not_opened_at_the_next_start(known: Daemon) -> None:
    known.start()
    known.wait_for(lambda: _knows_all(known), what="all to be known")
    known.wait_for(lambda: known.ask("status")["watch"]["looks"], what="the first look")
    store = known.status_of("known")
    assert (store["documents"], store["records"], store["schema_version"]) == (1, 1, "1.0")
    assert known.ask("status")["memory"]["open_stores"] == 0
    assert known.found("remembered") == ["known:a.md#0"]
    assert _state_error(known) is None


def test_what_happened_while_no_daemon_ran_is_seen_at_the_start(known: Daemon, make_store: MakeStore) -> None:
    make_store(known.stores / "known.sqlite", {"a.md": "# A\n\nrewritten words\n"})
    make_store(known.stores / "new.sqlite", {"a.md": "# A\n\nbrand new words\n"})
    (known.stores / "text.sqlite").unlink()
    known.start()
    assert sorted(known.found("words")) == ["known:a.md#0", "new:a.md#0"]
    assert known.found("remembered") == []
    assert known.status_of("text") is None


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "file").touch()


def _older_version(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE store (something, altogether, different)")
        db.execute("PRAGMA user_version = 7")
    db.close()


def _damaged_rows(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE store (path BLOB PRIMARY KEY, value BLOB) STRICT")
        db.execute("INSERT INTO store VALUES (x'2f78', x'c1c1')")
    db.close()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "lost": lambda path: None,
    "empty": Path.touch,
    "garbage": lambda path: path.write_bytes(os.urandom(8_192)),
    "a FIFO": os.mkfifo,
    "a directory with files": _directory,
    "a symlink that leads in a circle": lambda path: path.symlink_to(path),
    "of an older version": _older_version,
    "rows that cannot be read": _damaged_rows,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_memory_is_rebuilt_or_done_without(known: Daemon, damage: str) -> None:
    for file in known.state.iterdir():
        file.unlink()
    DAMAGES[damage](known.state / "state.sqlite")
    known.start()
    known.wait_for(lambda: _knows_all(known), what="all to be found again")
    assert known.found("remembered") == ["known:a.md#0"]
    if damage == "a directory with files":  # not ours to remove
        assert _state_error(known)
        return
    assert _state_error(known) is None
    assert known.stop() == 0
    assert _remembered(known.state / "state.sqlite") == 2


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_memory_is_rebuilt(known: Daemon, share: float) -> None:
    path = known.state / "state.sqlite"
    os.truncate(path, int(path.stat().st_size * share))
    known.start()
    known.wait_for(lambda: _knows_all(known), what="all to be found again")
    assert known.found("remembered") == ["known:a.md#0"]
    assert known.stop() == 0
    assert _remembered(path) == 2


def test_a_memory_that_is_removed_under_the_daemon_costs_nothing_but_the_memory(
    known: Daemon, make_store: MakeStore
) -> None:
    known.start()
    known.wait_for(lambda: _knows_all(known), what="all to be known")
    shutil.rmtree(known.state)
    make_store(known.stores / "new.sqlite", {"a.md": "# A\n\nbrand new words\n"})
    known.wait_state("new", "open")
    assert sorted(known.found("words")) == ["known:a.md#0", "new:a.md#0"]
    known.restart()
    assert sorted(known.found("words")) == ["known:a.md#0", "new:a.md#0"]


def test_a_memory_that_another_program_holds_locked_is_done_without(
    known: Daemon, sql: Callable[[Path], Sql]
) -> None:
    other = sql(known.state / "state.sqlite")
    assert other.run("PRAGMA locking_mode = EXCLUSIVE") == "ok"
    assert other.run("BEGIN EXCLUSIVE") == "ok"
    known.start()
    known.wait_for(lambda: _knows_all(known), what="all to be found")
    assert known.found("remembered") == ["known:a.md#0"]


@pytest.mark.parametrize("kind", ["a file", "closed"])
def test_a_state_directory_that_cannot_be_used_is_done_without(
    start_daemon: StartDaemon, make_store: MakeStore, unprivileged: Sequence[str], kind: str
) -> None:
    daemon = start_daemon(is_launched=False, wrapper=unprivileged)
    for directory in ("state", "cache"):
        if kind == "a file":
            (daemon.base / directory).touch()
        else:
            (daemon.base / directory).mkdir(mode=0o500)
    make_store(daemon.stores / "new.sqlite", {"a.md": "# A\n\nbrand new words\n"})
    daemon.start()
    assert daemon.found("words") == ["new:a.md#0"]
    assert _state_error(daemon)


# --------------------------------------------------------------------------- full disks


def _small_disk(directory: Path, size: str = "256k") -> Sequence[str]:
    """Return a wrapper that gives the daemon a file system of its own at *directory*."""
    namespace = ("unshare", "--user", "--map-root-user", "--mount")
    mount = f'mount -t tmpfs -o size={size} none "{directory}" && exec "$@"'
    wrapper = (*namespace, "sh", "-c", mount, "sh")
    directory.mkdir(parents=True)
    if shutil.which("unshare") is None or subprocess.run([*wrapper, "true"], check=False).returncode:
        pytest.skip("there are no user namespaces to mount a small file system in")
    return wrapper


def _fill(directory: Path) -> Path:
    """Write until the disk is full, and return the file that fills it."""
    filler = directory / "filler"
    with pytest.raises(OSError, match="No space left") as full, filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4_096))
    assert full.value.errno == errno.ENOSPC
    return filler


def test_a_disk_without_room_for_any_memory_stops_nothing(
    start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    daemon = start_daemon(is_launched=False)
    daemon.wrapper = _small_disk(daemon.state, "4k")
    make_store(daemon.stores / "one.sqlite", {"a.md": "# A\n\nall the same words\n"})
    daemon.start()
    assert daemon.found("words") == ["one:a.md#0"]
    assert "full" in _state_error(daemon)


def test_a_full_disk_under_the_memory_is_said_and_stops_nothing(
    start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    daemon = start_daemon(is_launched=False)
    daemon.wrapper = _small_disk(daemon.state)
    daemon.start()
    daemon.wait_for(lambda: daemon.ask("status")["watch"]["looks"], what="the memory to be there")
    seen_from_outside = Path(f"/proc/{daemon.pid}/root{daemon.state}")
    filler = _fill(seen_from_outside)
    for number in range(40):
        make_store(daemon.stores / f"s{number}.sqlite", {"a.md": f"# A\n\nnumbered words {number}\n"})
    daemon.ask("rescan")
    assert len(daemon.found("numbered", limit=50)) == 40
    assert "full" in _state_error(daemon)
    filler.unlink()
    make_store(daemon.stores / "last.sqlite", {"a.md": "# A\n\nlast words\n"})
    daemon.wait_state("last", "open")
    daemon.wait_for(lambda: _state_error(daemon) is None, what="the memory to be written again")


def test_a_full_disk_under_the_copies_makes_a_store_busy_and_stops_no_other(
    start_daemon: StartDaemon, make_store: MakeStore, sql: Callable[[Path], Sql]
) -> None:
    daemon = start_daemon(is_launched=False)
    daemon.wrapper = _small_disk(daemon.copies)
    daemon.start()
    seen_from_outside = Path(f"/proc/{daemon.pid}/root{daemon.copies}")
    filler = _fill(seen_from_outside)
    make_store(daemon.stores / "good.sqlite", {"a.md": "# A\n\nsound words\n"})
    other = sql(make_store(daemon.stores / "written.sqlite", {"a.md": "# A\n\nwritten words\n"}))
    assert other.run("INSERT INTO meta VALUES ('x', 'y')") == "ok"  # the -wal has frames: only a copy will do
    daemon.ask("rescan")
    assert daemon.status_of("written")["reason"]["code"] == "disk_full"
    answer = daemon.ask("search", query="words")
    assert [hit["ref"] for hit in answer["hits"]] == ["good:a.md#0"]
    assert [failure["code"] for failure in answer["stores"]["failed"]] == ["disk_full"]
    filler.unlink()
    daemon.wait_state("written", "open")
    # Whoever indexes the store has a copy of its own for a moment.
    daemon.wait_for(lambda: not list(seen_from_outside.iterdir()), what="the copies to lose their names")
