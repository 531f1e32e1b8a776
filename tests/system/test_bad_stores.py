"""Files that no reader can use, and stores that mean harm: each has its reason, none stops the rest.

What a store directory can do to a reader (ANCHORS §5) is tested in these places: a file left beside a
store (case 1) in `test_untouched.py`; a directory that may not be written, a truncated -shm, an exclusive
lock, a first ingest, a dropped lock (2, 3, 10, 11, 12) in `test_bad_access.py`; a store cut to half,
replaced, rewritten in place (4, 5, 6) in `test_changing_stores.py`; an endless view, a FIFO, an empty file,
a directory (7, 8, 9) here.
"""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Snapshot
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon

ENDLESS = (
    "CREATE VIEW {} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS id, i AS doc_id, i AS path, i AS text, i AS key, i AS value FROM n"
)


@pytest.fixture(scope="module")
def shared_daemon(start_shared_daemon: StartDaemon, make_store: MakeStore) -> Daemon:
    """A daemon with one good store, which must go on answering whatever lies beside it."""
    daemon = start_shared_daemon()
    make_store(daemon.stores / "good.sqlite", {"good.md": "# Good\n\nsound words\n"})
    daemon.wait_state("good", "open")
    return daemon


@pytest.fixture
def place(shared_daemon: Daemon, request: pytest.FixtureRequest) -> Path:
    """A path for one test's store in the watched directory."""
    return shared_daemon.stores / f"t{zlib.crc32(request.node.name.encode()):08x}.sqlite"


# --------------------------------------------------------------------------- what lies there


def _database(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def _writing(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _linking(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target.format(own=path.name))


def _holding(*statements: str) -> Callable[[Path], object]:
    return lambda path: _database(path, *statements)


FILES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "empty": (_writing(b""), "refused", "empty_file"),
    "text": (_writing(b"# Not a database\n"), "refused", "not_sqlite"),
    "zeros": (_writing(bytes(8_192)), "refused", "not_sqlite"),
    "half a magic": (_writing(b"SQLite f"), "refused", "not_sqlite"),
    "a magic alone": (_writing(b"SQLite format 3\0"), "unreadable", "damaged"),
    "a header of 0xff": (_writing(b"SQLite format 3\0" + b"\xff" * 4_080), "refused", "not_sqlite"),
    "a directory": (Path.mkdir, "refused", "not_a_file"),
    "a FIFO": (_fifo, "refused", "not_a_file"),
    "a socket": (_socket, "refused", "not_a_file"),
    "a device": (_linking("/dev/zero"), "refused", "not_a_file"),
    "a dangling symlink": (_linking("nowhere"), "unreadable", "broken_symlink"),
    "a looping symlink": (_linking("{own}"), "unreadable", "broken_symlink"),
    "another database": (_holding("CREATE TABLE t (x)"), "refused", "unknown_format"),
    "a database without tables": (_holding("PRAGMA user_version = 7"), "refused", "unknown_format"),
    "meta without a version": (_holding("CREATE TABLE meta (key, value)"), "refused", "unknown_format"),
    "a version and nothing else": (
        _holding("CREATE TABLE meta (key, value)", "INSERT INTO meta VALUES ('schema_version', '1.0')"),
        "refused",
        "wrong_schema",
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_store_is_listed_with_its_reason(
    shared_daemon: Daemon, snapshot: Snapshot, place: Path, kind: str
) -> None:
    make, state, code = FILES[kind]
    make(place)
    before = snapshot(shared_daemon.stores)
    shared_daemon.ask("rescan")
    store = shared_daemon.status_of(place.stem)
    assert (store["state"], store["reason"]["code"]) == (state, code)
    assert store["path"] == ("/dev/zero" if kind == "a device" else str(place))
    assert shared_daemon.found("sound") == ["good:good.md#0"]
    assert shared_daemon.refusal("read", ref=f"{place.stem}:a.md#0").code == "store_unavailable"
    assert snapshot(shared_daemon.stores) == before


@pytest.mark.parametrize("length", [1, 15, 16, 99, 100, 512, 4_095, 4_096, 5_000, 12_288, -4_096, -1])
def test_a_truncated_store_is_listed_with_a_reason_or_answers(
    shared_daemon: Daemon, make_store: MakeStore, place: Path, length: int
) -> None:
    whole = make_store(place, {"cut.md": "# Cut\n\nwhatever\n"}).read_bytes()
    place.write_bytes(whole[:length])
    shared_daemon.ask("rescan")
    store = shared_daemon.status_of(place.stem)
    if store["state"] == "open":  # what is missing is found when it is asked for
        answer = shared_daemon.ask("search", query="whatever", stores=[place.stem])
        assert answer["complete"] is not bool(answer["stores"]["failed"])
        assert [failure["code"] for failure in answer["stores"]["failed"]] in ([], ["damaged"])
    else:
        assert store["reason"]["code"] in {"not_sqlite", "damaged", "unknown_format"}
    assert shared_daemon.found("sound") == ["good:good.md#0"]


# --------------------------------------------------------------------------- stores that mean harm


HOSTILE: dict[str, tuple[tuple[str, ...], str]] = {
    "sections is an endless view": (
        ("DROP TABLE sections", ENDLESS.format("sections")),
        "wrong_schema",
    ),
    "documents is an endless view": (
        ("DROP TABLE documents", ENDLESS.format("documents")),
        "wrong_schema",
    ),
    "meta is an endless view": (
        ("DROP TABLE meta", ENDLESS.format("meta")),
        "wrong_schema",
    ),
    "the index is an endless view": (
        ("DROP TABLE sections_fts", ENDLESS.format("sections_fts")),
        "wrong_schema",
    ),
    "the index is an ordinary table": (
        ("DROP TABLE sections_fts", "CREATE TABLE sections_fts (id, heading_path, text)"),
        "wrong_schema",
    ),
    "the index reads another table": (
        (
            "DROP TABLE sections_fts",
            "CREATE VIRTUAL TABLE sections_fts USING fts5(id, heading_path, text, content='sections')",
        ),
        "wrong_schema",
    ),
    "a column computes": (
        (
            "DROP TABLE meta",
            "CREATE TABLE meta (key, value AS (hex(zeroblob(30000000))))",
            "INSERT INTO meta VALUES ('schema_version')",
        ),
        "unknown_format",
    ),
    "schema 2.0": (("UPDATE meta SET value = '2.0' WHERE key = 'schema_version'",), "unsupported_version"),
    "no version": (("DELETE FROM meta WHERE key = 'schema_version'",), "unknown_format"),
    "no digits in the version": (
        ("UPDATE meta SET value = 'ⅷ' || char(27) WHERE key = 'schema_version'",),
        "unsupported_version",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_store_that_is_not_what_it_says_is_refused(
    shared_daemon: Daemon, make_store: MakeStore, snapshot: Snapshot, place: Path, kind: str
) -> None:
    statements, code = HOSTILE[kind]
    _database(make_store(place, {"a.md": "# A\n\nsound\n"}), "PRAGMA foreign_keys = OFF", *statements)
    before = snapshot(shared_daemon.stores)
    shared_daemon.ask("rescan")
    store = shared_daemon.status_of(place.stem)
    assert (store["state"], store["reason"]["code"]) == ("refused", code)
    assert shared_daemon.found("sound") == ["good:good.md#0"]
    assert snapshot(shared_daemon.stores) == before


def test_a_store_of_another_schema_version_is_refused_with_both_versions(
    shared_daemon: Daemon, make_store: MakeStore, place: Path
) -> None:
    _database(
        make_store(place, {"a.md": "# A\n"}), "UPDATE meta SET value = '2.0' WHERE key = 'schema_version'"
    )
    shared_daemon.ask("rescan")
    reason = shared_daemon.status_of(place.stem)["reason"]
    assert reason["code"] == "unsupported_version"
    assert "2.0" in reason["message"]
    assert "1.x" in reason["message"]


def test_a_damaged_index_is_named_in_failed_and_the_others_answer(
    shared_daemon: Daemon, make_store: MakeStore, place: Path
) -> None:
    make_store(place, {"a.md": "# A\n\nsound\n"})
    _database(place, "UPDATE sections_fts_data SET block = randomblob(length(block)) WHERE id > 1")
    shared_daemon.ask("rescan")
    shared_daemon.wait_for(
        lambda: shared_daemon.status_of(place.stem)["state"] != "opening", what="the store to be looked into"
    )
    answer = shared_daemon.ask("search", query="sound")
    assert [hit["ref"] for hit in answer["hits"]] == ["good:good.md#0"]
    assert answer["complete"] is False
    failed = {failure["store"]: failure["code"] for failure in answer["stores"]["failed"]}
    assert failed[place.stem] == "damaged"
    place.unlink()
    shared_daemon.ask("rescan")


def test_a_store_that_takes_too_long_is_named_backed_off_and_forgiven(
    start_daemon: StartDaemon, make_store: MakeStore, make_slow_store: MakeSlowStore, slow_query: str
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\nsidecars = false\n", is_launched=False)
    make_store(daemon.stores / "good.sqlite", {"good.md": "# Good\n\nla\n"})
    make_slow_store(daemon.stores / "slow.sqlite")
    daemon.start().ask("rescan")
    codes: list[str] = []
    for _ in range(4):
        answer = daemon.ask("search", query=slow_query, deadline_ms=600)
        assert [hit["ref"] for hit in answer["hits"]] == ["good:good.md#0"]
        codes += [failure["code"] for failure in answer["stores"]["failed"]]
    assert codes == ["deadline_exceeded"] * 3 + ["backed_off"]
    daemon.ask("rescan")
    assert daemon.found("quick") == ["slow:a.md#0"]


# --------------------------------------------------------------------------- names


NAMES = [
    b"hash#1.sqlite",
    b"query?mode=rwc.sqlite",
    b"percent%20%00.sqlite",
    b"two words  .sqlite",
    b"plus+&=;'\".sqlite",
    b"line\nfeed\x1b[31m.sqlite",
    b"\xff\xfe not utf-8.sqlite",
    "ümläut 日本語.sqlite".encode(),
    b"-wal.sqlite",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_store_of_any_name_is_opened_and_answers(
    shared_daemon: Daemon, make_store: MakeStore, snapshot: Snapshot, tmp_path: Path, name: bytes
) -> None:
    made = make_store(tmp_path / "made.sqlite", {"a.md": "# A\n\noddly named\n"})
    path = Path(os.fsdecode(os.path.join(os.fsencode(shared_daemon.stores), name)))  # noqa: PTH118 - bytes
    made.rename(path)
    before = snapshot(shared_daemon.stores)
    shared_daemon.ask("rescan")
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    (ours,) = [each for each in shared_daemon.ask("stores")["stores"] if each["path"] == shown]
    assert ours["state"] == "open"
    assert re.fullmatch(r"[a-z0-9._-]+", ours["name"])
    assert shared_daemon.found("oddly") == [f"{ours['name']}:a.md#0"]
    assert snapshot(shared_daemon.stores) == before
    path.unlink()
    shared_daemon.ask("rescan")
