"""Sidecars of a real daemon: they come, stay, follow their stores and never stand in the way of an answer."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Snapshot
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon

pytestmark = pytest.mark.slow

ONE = {"a.md": "# Whales\n\nThe whale is no fish.\n", "b.md": "# Ships\n\nA ship follows the whale.\n"}
OTHER = {"c.md": "# Gulls\n\nThe gull follows the ship.\n"}
QUESTIONS = ("whale", "the ship", "gull whale", "no fish", "nothing of the kind")


def directory(daemon: Daemon) -> Path:
    return daemon.copies.with_name("sidecars")


def files(daemon: Daemon) -> dict[str, int]:
    """Return the files of the sidecars with the time at which each was written."""
    return {path.name: path.stat().st_mtime_ns for path in directory(daemon).glob("*.segment")}


def sidecars(daemon: Daemon) -> Any:
    return daemon.ask("status")["sidecars"]


def wait_ready(daemon: Daemon, count: int) -> Any:
    """Return `sidecars` of `status` once so many stores are ready and no other is to be."""

    def ready() -> Any:
        now = sidecars(daemon)
        is_ready = (now["ready"], now["building"], now["waiting"], now["error"]) == (count, 0, 0, None)
        return now if is_ready else None

    return daemon.wait_for(ready, what=f"{count} stores to have sidecars")


def is_running(pid: int) -> bool:
    try:
        # A zombie waits for whoever inherited it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def answers(daemon: Daemon) -> list[Any]:
    with daemon.client() as client:
        found = [client.ask("search", query=question)["hits"] for question in QUESTIONS]
        return [*found, client.ask("grep", pattern="follows the")["matches"]]


@pytest.fixture
def known(start_daemon: StartDaemon, make_store: MakeStore) -> Daemon:
    """A daemon with two stores, whose answers are never remembered."""
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    make_store(daemon.stores / "one.sqlite", ONE)
    make_store(daemon.stores / "other.sqlite", OTHER)
    return daemon


# --------------------------------------------------------------------------- while all is well


def test_sidecars_come_and_survive_a_restart_and_change_no_answer(known: Daemon) -> None:
    known.configure("[cache]\nanswers_bytes = 0\nsidecars = false\n")
    without = answers(known.start())
    assert not directory(known).exists()
    known.configure("[cache]\nanswers_bytes = 0\n")
    known.ask("reload")
    wait_ready(known, 2)
    assert answers(known) == without
    before = files(known)
    known.restart()
    assert wait_ready(known, 2)["worker"] is None
    assert files(known) == before
    assert answers(known) == without


def test_a_rewritten_store_is_followed_and_a_removed_one_let_go(known: Daemon, make_store: MakeStore) -> None:
    known.start()
    wait_ready(known, 2)
    before = {each["store"]: each["fingerprint"] for each in known.ask("cache")["entries"]}
    make_store(known.stores / "one.sqlite", {"a.md": "# Whales\n\nThe whale sings.\n"})
    known.wait_for(lambda: known.found("sings") == ["one:a.md#0"], what="the new contents")

    def is_followed() -> bool:
        one = next(each for each in known.ask("cache")["entries"] if each["store"] == "one")
        return bool(one["fingerprint"] != before["one"] and one["state"] == "ready")

    known.wait_for(is_followed, what="the sidecar of the new contents")
    (known.stores / "one.sqlite").unlink()
    known.ask("rescan")
    wait_ready(known, 1)
    assert known.found("gull") == ["other:c.md#0"]


def test_the_cache_is_listed_and_cleared_over_the_wire(known: Daemon) -> None:
    known.start()
    stats = wait_ready(known, 2)
    result = known.ask("cache")
    assert result["directory"] == str(directory(known))
    assert (result["bytes"], result["freed_bytes"], result["error"]) == (stats["bytes"], 0, None)
    assert result["limit_bytes"] == 2 << 30
    assert [(each["store"], each["records"], each["state"]) for each in result["entries"]] == [
        ("one", 2, "ready"),
        ("other", 1, "ready"),
    ]
    before = files(known)
    cleared = known.ask("cache", clear=True)
    assert cleared["freed_bytes"] == result["bytes"]
    wait_ready(known, 2)
    assert not files(known).keys() & before.keys()


def test_nothing_is_left_beside_a_store(known: Daemon, snapshot: Snapshot) -> None:
    before = snapshot(known.stores)
    known.start()
    wait_ready(known, 2)
    answers(known)
    assert known.stop() == 0
    assert snapshot(known.stores) == before
    assert not list(known.copies.iterdir()) if known.copies.exists() else True


def test_turned_off_by_a_reload_the_files_stay(known: Daemon) -> None:
    known.start()
    wait_ready(known, 2)
    before = files(known)
    known.configure("[cache]\nsidecars = false\n")
    known.ask("reload")
    known.wait_for(lambda: sidecars(known)["segments"] == 0, what="the sidecars to be let go")
    known.wait_for(lambda: sidecars(known)["worker"] is None, what="the worker to end")
    assert files(known) == before
    assert known.ask("cache")["entries"] == []


# --------------------------------------------------------------------------- workers


def test_a_worker_is_gone_when_its_daemon_is_killed_in_the_middle_of_a_job(
    known: Daemon, make_slow_store: MakeSlowStore
) -> None:
    make_slow_store(known.stores / "slow.sqlite")
    known.start()

    def at_work() -> Any:  # a job is there before its worker is
        now = sidecars(known)
        return now["worker"] if now["building"] else None

    worker = known.wait_for(at_work, what="a worker with a job")
    assert is_running(worker)
    assert known.stop(signal.SIGKILL) == -signal.SIGKILL
    known.wait_for(lambda: not is_running(worker), what="the worker to end")
    known.start()
    known.wait_for(lambda: sidecars(known)["ready"] >= 2, what="the sidecars of the others")
    assert {path.suffix for path in directory(known).iterdir()} <= {"", ".segment"}


def test_a_worker_ends_when_there_is_nothing_to_do_and_with_its_daemon(known: Daemon) -> None:
    known.start()
    worker = wait_ready(known, 2)["worker"]
    known.wait_for(lambda: sidecars(known)["worker"] is None, what="the worker to be let go")
    known.wait_for(lambda: not is_running(worker), what="the worker to end")
    known.ask("cache", clear=True)
    worker = wait_ready(known, 2)["worker"]
    assert known.stop() == 0
    assert not is_running(worker)


def test_answers_stay_the_same_while_workers_are_killed(known: Daemon, make_store: MakeStore) -> None:
    for number in range(30):
        make_store(
            known.stores / f"s{number}.sqlite", {f"{number}.md": f"# N\n\nThe whale {number} sings.\n"}
        )
    expected = answers(known.start())
    killed = 0
    for _ in range(10):
        known.ask("cache", clear=True)
        known.wait_for(lambda: sidecars(known)["building"] or sidecars(known)["ready"] == 32, what="a job")
        worker = sidecars(known)["worker"]
        if worker is not None:
            os.kill(worker, signal.SIGKILL)
            killed += 1
        assert answers(known) == expected
    assert killed
    wait_ready(known, 32)
    assert answers(known) == expected


# --------------------------------------------------------------------------- failures


def test_a_daemon_whose_cache_another_one_keeps_serves_without_and_says_so(
    known: Daemon, start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    known.start()
    wait_ready(known, 2)
    before = files(known)
    second = start_daemon(environ={"XDG_CACHE_HOME": str(known.base / "cache")})
    make_store(second.stores / "one.sqlite", ONE)
    second.wait_state("one", "open")
    assert second.found("whale") == ["one:a.md#0", "one:b.md#0"]
    second.wait_for(lambda: "another daemon" in (sidecars(second)["error"] or ""), what="the reason")
    assert files(known) == before
    assert known.stop() == 0
    wait_ready(second, 1)


def _small_disk(where: Path, size: str) -> Sequence[str]:
    """Return a wrapper that gives the daemon a file system of its own at *where*."""
    mount = f'mount -t tmpfs -o size={size} none "{where}" && exec "$@"'
    wrapper = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    where.mkdir(parents=True)
    if shutil.which("unshare") is None or subprocess.run([*wrapper, "true"], check=False).returncode:
        pytest.skip("there are no user namespaces to mount a small file system in")
    return wrapper


def test_a_full_disk_leaves_the_daemon_serving_and_saying_so(known: Daemon, make_store: MakeStore) -> None:
    known.wrapper = _small_disk(directory(known), "64k")
    make_store(
        known.stores / "large.sqlite",
        {f"{n}.md": " ".join(f"w{n}x{i}" for i in range(300)) for n in range(90)},
    )
    known.start()
    known.wait_for(lambda: "no room" in (sidecars(known)["error"] or ""), what="the disk to be full")
    assert known.found("w7x7") == ["large:7.md#0"]
    assert known.found("gull") == ["other:c.md#0"]
    assert "no room" in known.ask("cache")["error"]
    assert known.status_of("large")["state"] == "open"
    (known.stores / "large.sqlite").unlink()
    known.ask("rescan")
    wait_ready(known, 2)
    assert "w7x7" not in known.log


def test_a_cache_directory_that_cannot_be_used_is_done_without(
    known: Daemon, unprivileged: Sequence[str]
) -> None:
    known.wrapper = unprivileged
    (known.base / "cache").mkdir(mode=0o500)
    known.start()
    assert known.found("gull") == ["other:c.md#0"]
    known.wait_for(lambda: sidecars(known)["error"], what="the reason")
    (known.base / "cache").chmod(0o700)
    wait_ready(known, 2)


def test_a_daemon_that_can_start_no_worker_serves_and_says_so(known: Daemon) -> None:
    known.start()
    os.kill(wait_ready(known, 2)["worker"], signal.SIGKILL)
    answers(known)  # opens the stores
    with known.client() as client:
        client.ask("ping")
        there = [int(each.name) for each in Path(f"/proc/{known.pid}/fd").iterdir()]
        soft, hard = resource.prlimit(known.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(known.pid, resource.RLIMIT_NOFILE, (max(there) + 2, hard))
        client.ask("cache", clear=True)
        known.wait_for(lambda: client.ask("status")["sidecars"]["error"], what="the reason")
        assert client.ask("search", query="gull")["hits"][0]["ref"] == "other:c.md#0"
    resource.prlimit(known.pid, resource.RLIMIT_NOFILE, (soft, hard))
    wait_ready(known, 2)


def test_files_that_are_damaged_between_two_runs_are_built_anew(known: Daemon) -> None:
    expected = answers(known.start())
    wait_ready(known, 2)
    assert known.stop() == 0
    damaged = files(known)
    for name in damaged:
        path = directory(known) / name
        path.write_bytes(path.read_bytes()[:-64] + bytes(64))
    known.start()
    wait_ready(known, 2)
    assert not damaged.keys() & files(known).keys()
    assert answers(known) == expected
