"""Stores that are changed under a running daemon: each answer is whole, old or new, or the store is named.

A client asks without a pause while the store is locked, deleted, truncated, replaced or rewritten.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Program, Sql
    from tests.system.conftest import Daemon, StartDaemon

pytestmark = pytest.mark.slow

SECTIONS = 12
ROUNDS = 20
# What may be said of a store that is being changed. `internal` and `unsupported_version`, say, may not.
PASSING = {
    "backed_off",
    "broken_symlink",
    "building",
    "damaged",
    "deadline_exceeded",
    "empty_file",
    "hot_journal",
    "keeps_changing",
    "locked",
    "not_sqlite",
    "opening",
    "unknown_format",
    "vanished",
    "wrong_schema",
}


def _documents(version: str) -> dict[str, str]:
    # One document: the real writer commits once for each.
    parts = (
        f"# Part {n}\n\nLong enough to be a section of its own, changing {version}\n" for n in range(SECTIONS)
    )
    return {"a.md": "\n".join(parts)}


class Asking:
    """A client that asks all stores over and over, and checks every answer."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.is_over = threading.Event()
        self.answers = 0
        self.versions: set[str] = set()
        self.failures: set[str] = set()
        self.fault: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def wait_for_more(self, answers: int = 1) -> None:
        """Return once the client has so many answers more, or has found a fault."""
        enough = self.answers + answers
        self.daemon.wait_for(lambda: self.answers >= enough or self.fault, what=f"{answers} more answers")

    def _run(self) -> None:
        try:
            with self.daemon.client() as client:
                while not self.is_over.is_set():
                    self._check(client.ask("search", query="changing", limit=50))
                    self.answers += 1
        except BaseException as fault:  # noqa: BLE001 - it is raised again on the test's own thread
            self.fault = fault

    def _check(self, answer: Any) -> None:
        hits = [hit["snippet"] for hit in answer["hits"] if hit["store"] == "victim"]
        good = [hit["ref"] for hit in answer["hits"] if hit["store"] == "good"]
        failed = {failure["store"]: failure["code"] for failure in answer["stores"]["failed"]}
        # Where the directory is moved away, the good store goes with it, and is named.
        assert good == ["good:good.md#0"] or failed["good"] == "vanished"
        assert answer["complete"] is not bool(failed)
        assert failed.keys() <= {"victim", "good"}
        assert set(failed.values()) <= PASSING
        assert len(hits) in (0, SECTIONS)
        versions = {snippet.split()[-1] for snippet in hits}
        assert len(versions) <= 1, "one answer from two contents"
        self.versions |= versions
        self.failures |= set(failed.values())


@contextmanager
def _asking(daemon: Daemon) -> Generator[Asking]:
    asking = Asking(daemon)
    asking.thread.start()
    try:
        yield asking
        asking.wait_for_more()
    finally:
        asking.is_over.set()
        asking.thread.join()
    if asking.fault is not None:
        raise asking.fault
    said = ", ".join(sorted(asking.failures)) or "nothing"
    print(f"{asking.answers} answers, from {len(asking.versions)} contents; said meanwhile: {said}")


@pytest.fixture
def changing(start_daemon: StartDaemon, make_store: MakeStore) -> Daemon:
    """A daemon without a cache, with a good store and one that will be changed."""
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    make_store(daemon.stores / "good.sqlite", {"good.md": "# Good\n\nchanging nothing\n"})
    make_store(daemon.stores / "victim.sqlite", _documents("first"))
    daemon.start().ask("rescan")
    assert _versions(daemon) == {"first"}
    return daemon


def _versions(daemon: Daemon) -> set[str]:
    try:
        answer = daemon.ask("search", query="changing", stores=["victim"], limit=50)
    except daemon.Error as refused:
        assert refused.code == "unknown_store"  # a look fell between its removal and its return
        return set()
    return {hit["snippet"].split()[-1] for hit in answer["hits"]}


@pytest.fixture
def contents(make_store: MakeStore, tmp_path: Path) -> list[Path]:
    """Two stores, at rest, that answer `first` and `second`."""
    return [
        make_store(tmp_path / f"{version}.sqlite", _documents(version)) for version in ("first", "second")
    ]


def _replaced(victim: Path, content: Path) -> None:
    beside = victim.with_name("tmp")
    shutil.copyfile(content, beside)
    beside.replace(victim)


def _overwritten(victim: Path, content: Path) -> None:
    with victim.open("r+b") as file:
        file.truncate(0)
        file.write(content.read_bytes())


def _truncated_and_restored(victim: Path, content: Path) -> None:
    os.truncate(victim, victim.stat().st_size // 2)
    _overwritten(victim, content)


def _deleted_and_restored(victim: Path, content: Path) -> None:
    victim.unlink()
    shutil.copyfile(content, victim)


def _directory_moved_away(victim: Path, content: Path) -> None:
    away = victim.parent.with_name("away")
    victim.parent.rename(away)
    away.rename(victim.parent)
    _replaced(victim, content)


def _turned_into_a_directory(victim: Path, content: Path) -> None:
    victim.unlink()
    victim.mkdir()
    victim.rmdir()
    shutil.copyfile(content, victim)


DISTURBANCES = [
    _replaced,
    _overwritten,
    _truncated_and_restored,
    _deleted_and_restored,
    _directory_moved_away,
    _turned_into_a_directory,
]


@pytest.mark.parametrize("disturb", DISTURBANCES, ids=lambda each: each.__name__.strip("_"))
def test_a_store_that_changes_under_queries_answers_old_or_new_or_is_named(
    changing: Daemon, contents: list[Path], disturb: Callable[[Path, Path], None]
) -> None:
    victim = changing.stores / "victim.sqlite"
    with _asking(changing) as asking:
        for number in range(ROUNDS):
            disturb(victim, contents[number % 2])
            asking.wait_for_more()
    changing.wait_for(lambda: _versions(changing) == {"second"}, what="the last content")


def test_a_store_that_is_cut_to_half_is_named_until_it_is_whole_again(changing: Daemon) -> None:
    victim = changing.stores / "victim.sqlite"
    whole = victim.read_bytes()
    os.truncate(victim, len(whole) // 2)
    answer = changing.ask("search", query="changing")
    assert [hit["ref"] for hit in answer["hits"]] == ["good:good.md#0"]
    assert [(each["store"], each["code"]) for each in answer["stores"]["failed"]] == [("victim", "damaged")]
    assert changing.wait_state("victim", "unreadable")["reason"]["code"] == "damaged"
    victim.write_bytes(whole)
    changing.wait_for(lambda: _versions(changing) == {"first"}, what="the whole store")


# Changes every section again and again, each time in one transaction, until its standard input ends.
WRITER = """
import itertools, select, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
for number in itertools.count():
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE sections SET text = 'changing v' || ?", (number,))
    db.execute("UPDATE sections_fts SET text = 'changing v' || ?", (number,))
    db.execute("COMMIT")
    if select.select([sys.stdin], [], [], 0.001)[0]:
        break
db.close()
print(f"v{number}")
"""


@pytest.mark.parametrize("mode", ["wal", "delete", "persist", "truncate"])
def test_a_writer_that_never_rests_is_read_in_whole_states_only(
    changing: Daemon, program: Program, sql: Callable[[Path], Sql], mode: str
) -> None:
    victim = changing.stores / "victim.sqlite"
    assert sql(victim).run(f"PRAGMA journal_mode = {mode}") == "ok"
    writer = program(
        WRITER.replace("timeout=10)", f"timeout=10)\ndb.execute('PRAGMA journal_mode = {mode}')"), victim
    )
    with _asking(changing) as asking:
        asking.wait_for_more(ROUNDS)
        last, _ = writer.communicate("stop\n", timeout=30)
    changing.wait_for(lambda: _versions(changing) == {last.strip()}, what="the writer's last words")


def test_a_store_that_is_ingested_again_answers_in_whole_states_only(
    changing: Daemon, make_store: MakeStore
) -> None:
    with _asking(changing) as asking:
        for version in ("second", "third", "fourth"):
            make_store(changing.stores / "victim.sqlite", _documents(version))
        asking.wait_for_more(ROUNDS)
    changing.wait_for(lambda: _versions(changing) == {"fourth"}, what="the last content")


def test_a_store_that_is_locked_and_freed_under_queries_answers_or_is_named_locked(
    changing: Daemon, sql: Callable[[Path], Sql]
) -> None:
    other = sql(changing.stores / "victim.sqlite")
    assert other.run("PRAGMA journal_mode = DELETE") == "ok"
    changing.wait_for(lambda: _versions(changing) == {"first"}, what="the same content in another mode")
    with _asking(changing) as asking:
        for _ in range(5):
            changing.wait_for(lambda: other.run("BEGIN EXCLUSIVE") == "ok", what="the lock")
            asking.wait_for_more(2)
            assert other.run("COMMIT") == "ok"
    assert asking.failures == {"locked"}
    assert _versions(changing) == {"first"}


def test_a_writer_that_is_killed_leaves_a_store_that_answers_its_last_commit(
    changing: Daemon, sql: Callable[[Path], Sql]
) -> None:
    other = sql(changing.stores / "victim.sqlite")
    assert other.run("UPDATE sections SET text = 'changing half'") == "ok"
    assert other.run("UPDATE sections_fts SET text = 'changing half'") == "ok"
    other.process.kill()
    other.process.wait()
    assert (changing.stores / "victim.sqlite-wal").exists()
    changing.wait_for(lambda: _versions(changing) == {"half"}, what="what the killed writer had committed")


def test_a_hot_journal_makes_a_store_busy_until_somebody_rolls_it_back(
    changing: Daemon, sql: Callable[[Path], Sql]
) -> None:
    victim = changing.stores / "victim.sqlite"
    other = sql(victim)
    for statement in (
        "PRAGMA journal_mode = DELETE",
        "PRAGMA cache_size = 1",
        "PRAGMA cache_spill = 1",
        "BEGIN IMMEDIATE",
        "UPDATE sections SET text = 'changing ' || hex(randomblob(20000))",
    ):
        assert other.run(statement) == "ok"
    other.process.kill()
    other.process.wait()
    assert victim.with_name("victim.sqlite-journal").stat().st_size > 0
    changing.ask("rescan")
    store = changing.status_of("victim")
    assert (store["state"], store["reason"]["code"]) == ("busy", "hot_journal")
    assert changing.found("changing") == ["good:good.md#0"]
    assert sql(victim).run("SELECT count(*) FROM sections") == "ok"  # any writer's open rolls it back
    changing.wait_state("victim", "open")
    assert _versions(changing) == {"first"}
