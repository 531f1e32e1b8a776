"""Stores that come, change and go under a running daemon, told of by events and found by the timer alone.

How long each took is printed (`pytest -rP`): the promise is one second after the last write. Only a
generous deadline is asserted, since a test machine may be busy with other things.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Snapshot, Sql
    from tests.system.conftest import Daemon, StartDaemon

pytestmark = pytest.mark.slow

VISIBLE_S = 20.0
SETTINGS = {
    "events": "",
    "timer": "[discovery]\nevents = false\nrescan_s = 0.2\n",
}


@pytest.fixture(scope="module", params=SETTINGS)
def watching(start_shared_daemon: StartDaemon, request: pytest.FixtureRequest) -> Daemon:
    """A daemon that watches `stores`, and the projects in `src`; `late` does not exist yet."""
    daemon = start_shared_daemon(is_launched=False)
    source = daemon.base / "src"
    source.mkdir()
    daemon.configure(
        f"{SETTINGS[request.param]}"
        f'[[watch]]\npath = "{daemon.stores}"\n'
        f'[[watch]]\npath = "{source}"\nmatch = ["*/.contextpull/*.sqlite"]\n'
        f'[[watch]]\npath = "{daemon.base / "late" / "root"}"\n'
        f'[[store]]\npath = "{daemon.base / "single" / "pinned.sqlite"}"\nname = "by-hand"\n'
    )
    return daemon.start()


def _soon(daemon: Daemon, condition: Callable[[], object], what: str) -> None:
    """Wait for *condition*, which an action that is over now must bring about, and print how long it took."""
    begin = time.monotonic()
    daemon.wait_for(condition, VISIBLE_S, what=what)
    print(f"{what}: {time.monotonic() - begin:.3f} s")


def _text(words: str) -> dict[str, str]:
    return {"notes.md": f"# Notes\n\n{words}\n"}


def test_a_store_that_is_dropped_in_is_searchable(
    watching: Daemon, make_store: MakeStore, tmp_path: Path
) -> None:
    made = make_store(tmp_path / "made.sqlite", _text("dropped"))
    shutil.copyfile(made, watching.stores / "dropped.sqlite")
    _soon(watching, lambda: watching.found("dropped") == ["dropped:notes.md#0"], "a store dropped in")


def test_a_store_that_is_ingested_again_answers_anew(watching: Daemon, make_store: MakeStore) -> None:
    path = make_store(watching.stores / "ingested.sqlite", _text("firstly"))
    _soon(watching, lambda: watching.found("firstly"), "a store ingested")
    make_store(path, _text("secondly"))
    _soon(watching, lambda: watching.found("secondly"), "a store ingested again")
    assert watching.found("firstly") == []


def test_a_store_that_is_replaced_by_a_rename_answers_anew(
    watching: Daemon, make_store: MakeStore, tmp_path: Path
) -> None:
    path = make_store(watching.stores / "replaced.sqlite", _text("older"))
    _soon(watching, lambda: watching.found("older"), "a store to be replaced")
    made = make_store(tmp_path / "made.sqlite", _text("newer"))
    beside = path.with_suffix(".new")
    shutil.copyfile(made, beside)
    beside.replace(path)
    _soon(watching, lambda: watching.found("newer"), "a store replaced by a rename")
    assert watching.found("older") == []


def test_a_store_that_is_removed_is_gone(watching: Daemon, make_store: MakeStore) -> None:
    path = make_store(watching.stores / "removed.sqlite", _text("removable"))
    watching.wait_state("removed", "open")
    path.unlink()
    _soon(watching, lambda: watching.status_of("removed") is None, "a store removed")
    assert watching.found("removable") == []


def test_a_refused_file_that_becomes_a_store_is_opened(
    watching: Daemon, make_store: MakeStore, tmp_path: Path
) -> None:
    path = watching.stores / "becoming.sqlite"
    path.write_bytes(b"nothing yet")
    watching.wait_state("becoming", "refused")
    made = make_store(tmp_path / "made.sqlite", _text("becoming"))
    shutil.copyfile(made, path)
    _soon(watching, lambda: watching.found("becoming"), "a store in place of a refused file")


def test_a_new_project_is_found_with_the_directories_it_comes_with(
    watching: Daemon, make_store: MakeStore, tmp_path: Path
) -> None:
    made = make_store(tmp_path / "made.sqlite", _text("projected"))
    folder = watching.base / "src" / "My Project" / ".contextpull"
    folder.mkdir(parents=True)  # all at once: the system tells of the first directory only
    shutil.copyfile(made, folder / "store.sqlite")
    _soon(watching, lambda: watching.found("projected") == ["my-project:notes.md#0"], "a new project")
    store = watching.status_of("my-project")
    assert store["root"] == str(folder.parent)
    make_store(folder / "store.sqlite", _text("project of later"))
    _soon(watching, lambda: watching.found("later"), "a project ingested again")
    folder.parent.rename(tmp_path / "moved away")
    _soon(watching, lambda: watching.status_of("my-project") is None, "a project moved away")


def test_a_project_that_is_moved_in_is_found(watching: Daemon, make_store: MakeStore, tmp_path: Path) -> None:
    make_store(tmp_path / "moved" / ".contextpull" / "store.sqlite", _text("movable"))
    shutil.move(tmp_path / "moved", watching.base / "src" / "moved")
    _soon(watching, lambda: watching.found("movable") == ["moved:notes.md#0"], "a project moved in")


def test_a_symlink_made_by_hand_is_followed_and_so_are_its_targets_changes(
    watching: Daemon, make_store: MakeStore, snapshot: Snapshot, tmp_path: Path
) -> None:
    target = make_store(tmp_path / "elsewhere" / "store.sqlite", _text("linked"))
    before = snapshot(target.parent)
    link = watching.stores / "linked-by-hand.sqlite"
    link.symlink_to(target)
    _soon(watching, lambda: watching.found("linked") == ["linked-by-hand:notes.md#0"], "a symlink added")
    assert watching.status_of("linked-by-hand")["path"] == str(target)
    assert snapshot(target.parent) == before
    make_store(target, _text("relinked"))
    _soon(watching, lambda: watching.found("relinked"), "a symlink's target rewritten")
    target.unlink()
    watching.wait_state("linked-by-hand", "unreadable", VISIBLE_S)
    assert watching.status_of("linked-by-hand")["reason"]["code"] == "broken_symlink"
    link.unlink()
    _soon(watching, lambda: watching.status_of("linked-by-hand") is None, "a symlink removed")


def test_a_directory_that_does_not_exist_yet_is_watched_once_it_does_and_again_after_its_removal(
    watching: Daemon, make_store: MakeStore
) -> None:
    root = watching.base / "late" / "root"
    for number in range(2):
        make_store(root / "late.sqlite", _text(f"late number{number}"))
        _soon(watching, lambda: watching.found("late"), f"a watched directory created ({number})")
        shutil.rmtree(root.parent)
        _soon(watching, lambda: watching.status_of("late") is None, f"a watched directory removed ({number})")


def test_a_pinned_store_has_its_name_and_comes_and_goes_like_any_other(
    watching: Daemon, make_store: MakeStore
) -> None:
    path = make_store(watching.base / "single" / "pinned.sqlite", _text("pinned"))
    _soon(watching, lambda: watching.found("pinned") == ["by-hand:notes.md#0"], "a single store")
    make_store(path, _text("pinnedagain"))
    _soon(watching, lambda: watching.found("pinnedagain"), "a single store rewritten")
    path.unlink()
    _soon(watching, lambda: watching.found("pinnedagain") == [], "a single store removed")


def test_what_is_no_store_is_not_listed(watching: Daemon, make_store: MakeStore) -> None:
    for name in (
        ".hidden.sqlite",
        "notes.txt",
        "x.sqlite-journal",
        "x.sqlite-wal",
        "x.sqlite-shm",
        "no-suffix",
    ):
        (watching.stores / name).write_bytes(b"x")
    path = make_store(watching.stores / "seen.sqlite", _text("seen"))
    _soon(watching, lambda: watching.found("seen"), "a store among others")
    names = {Path(store["path"]).name for store in watching.ask("stores")["stores"]}
    assert not names & {".hidden.sqlite", "notes.txt", "x.sqlite-journal", "x.sqlite-wal", "no-suffix"}
    path.unlink()


# --------------------------------------------------------------------------- where the system tells nothing


def test_a_directory_that_must_be_polled_is_looked_at_every_second(
    start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    daemon = start_daemon(is_launched=False)
    daemon.configure(
        f'[discovery]\nevents = false\nrescan_s = 3600\n[[watch]]\npath = "{daemon.stores}"\npoll = true\n'
    )
    daemon.start()
    make_store(daemon.stores / "polled.sqlite", _text("polled"))
    _soon(daemon, lambda: daemon.found("polled"), "a store in a directory that is polled")


def test_a_system_that_refuses_to_watch_is_reported_and_polled(
    start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    # A user namespace has limits of its own.
    forbid = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
    wrapper = ("unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh")
    if shutil.which("unshare") is None or subprocess.run([*wrapper, "true"], check=False).returncode:
        pytest.skip("there are no user namespaces to forbid watching in")
    daemon = start_daemon(wrapper=wrapper)
    error = daemon.wait_for(lambda: daemon.ask("status")["watch"]["error"], what="the watch to fail")
    assert "max_user_instances" in error
    make_store(daemon.stores / "polled.sqlite", _text("polled"))
    _soon(daemon, lambda: daemon.found("polled"), "a store where nothing can be watched")


def test_answering_does_not_make_the_daemon_look_again(
    start_daemon: StartDaemon, make_store: MakeStore, sql: Callable[[Path], Sql]
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    for name, is_rollback in (("rollback", True), ("rest", False), ("written", False)):
        make_store(daemon.stores / f"{name}.sqlite", _text("quiet"), rollback=is_rollback)
    writer = sql(daemon.stores / "written.sqlite")
    assert writer.run("INSERT INTO meta VALUES ('x', 'y')") == "ok"
    daemon.start()
    assert len(daemon.found("quiet")) == 3
    looks = daemon.wait_for(_steady_looks(daemon), what="the watch to be armed")
    for limit in range(1, 31):
        daemon.ask("search", query="quiet", limit=limit)
    assert daemon.ask("status")["watch"]["looks"] == looks


def _steady_looks(daemon: Daemon) -> Callable[[], int]:
    """Return a condition: the number of looks, once it has not grown for a while."""
    last = [0, time.monotonic()]

    def check() -> int:
        looks, now = daemon.ask("status")["watch"]["looks"], time.monotonic()
        if looks != last[0]:
            last[:] = [looks, now]
        return looks if now - last[1] > 0.6 else 0

    return check


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_names_that_collide_are_told_apart_by_their_paths_whatever_came_first(
    start_daemon: StartDaemon, make_store: MakeStore, order: str
) -> None:
    daemon = start_daemon(is_launched=False)
    source = daemon.base / "src"
    source.mkdir()
    daemon.configure(f'[[watch]]\npath = "{source}"\nmatch = ["*/*/.contextpull/*.sqlite"]\n')
    daemon.start()
    for owner in order:
        make_store(source / owner / "Docs" / ".contextpull" / "store.sqlite", _text("named"))
        daemon.ask("rescan")
    assert _roots(daemon) == {"a-docs": source / "a" / "Docs", "b-docs": source / "b" / "Docs"}
    assert daemon.found("named") == ["a-docs:notes.md#0", "b-docs:notes.md#0"]
    shutil.rmtree(source / "a")
    daemon.ask("rescan")
    assert _roots(daemon) == {"docs": source / "b" / "Docs"}
    assert daemon.found("named") == ["docs:notes.md#0"]


def test_a_pinned_name_is_taken_from_whoever_would_have_it(
    start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    daemon = start_daemon(is_launched=False)
    make_store(daemon.stores / "docs.sqlite", _text("named"))
    pinned = make_store(daemon.base / "other" / "x.sqlite", _text("pinned"))
    daemon.configure(f'[[watch]]\npath = "{daemon.stores}"\n[[store]]\npath = "{pinned}"\nname = "docs"\n')
    daemon.start()
    daemon.ask("rescan")
    assert daemon.found("named") == ["stores-docs:notes.md#0"]
    assert daemon.found("pinned") == ["docs:notes.md#0"]


def _roots(daemon: Daemon) -> dict[str, Path]:
    return {store["name"]: Path(store["root"]) for store in daemon.ask("stores")["stores"]}


# --------------------------------------------------------------------------- at once


@pytest.mark.parametrize("method", ["search", "grep", "read", "index"])
def test_sync_answers_from_what_is_on_disk_when_the_request_arrives(
    start_daemon: StartDaemon, make_store: MakeStore, method: str
) -> None:
    # Neither events nor the timer would show it in time.
    daemon = start_daemon("[discovery]\nevents = false\nrescan_s = 3600\n")
    path = daemon.stores / "notes.sqlite"
    params: dict[str, Any] = {
        "search": {"query": "edition"},
        "grep": {"pattern": "edition"},
        "read": {"ref": "notes:notes.md#0"},
        "index": {"store": "notes"},
    }[method]
    for edition in range(3):
        make_store(
            path,
            {"notes.md": f"# Edition {edition}\n\nThe edition numbered {edition}, of all the editions.\n"},
        )
        answer = daemon.ask(method, params, sync=True)
        assert f"dition {edition}" in json.dumps(answer) or f"numbered {edition}" in json.dumps(answer)
    path.unlink()
    if method in ("search", "grep"):
        assert daemon.ask(method, params, sync=True)["stores"]["asked"] == 0
    else:
        assert daemon.refusal(method, params, sync=True).code == "unknown_store"
