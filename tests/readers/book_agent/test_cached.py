"""The file in which an index is kept: whole or not at all, believed if sound, and gone with its store."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from collated_readers import Budget, Examined, Query, StoreError
from collated_readers.book_agent import BookAgent
from collated_readers.opening import StoreConnection, ask
from collated_readers.registry import identify
from collated_readers.single import search

Write = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Rows = list[tuple[object, object, Sequence[float], object]]
Examine = Callable[[StoreConnection], Examined]
IsIndexing = Callable[[StoreConnection], bool]

READER = BookAgent()
QUERIES = ("zebra", "blue zebra", "the blue zebra", "whale nothing", "Zebra.", "naïver Gaul", "段落 whale")


def _files(db: StoreConnection) -> list[Path]:
    return sorted(db.cache.rglob("*.sqlite"))


def _answers(db: StoreConnection) -> list[object]:
    def answer(db: StoreConnection) -> list[object]:
        return [search(READER, db, Query(text)) for text in QUERIES]

    return ask(db, answer, Budget.lasting(30))


def _cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut to nothing": lambda path: _cut(path, 0),
    "cut within its header": lambda path: _cut(path, 70),
    "cut to a page": lambda path: _cut(path, 4096),
    "cut by a page": lambda path: _cut(path, path.stat().st_size - 4096),
    "longer by a page": lambda path: _cut(path, path.stat().st_size + 4096),
    "a bit of its header": lambda path: _flip(path, 40),
    "a bit of its sum": lambda path: _flip(path, 70),
    "a bit of its schema": lambda path: _flip(path, 4000),
    "a bit of its texts": lambda path: _flip(path, path.read_bytes().index(b"blue zebra") + 2),
    "its last bit": lambda path: _flip(path, -1),
    "something else": lambda path: path.write_bytes(b"SQLite format 3\0" * 4096),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_index_is_not_believed_and_made_again(
    *,
    tmp_path: Path,
    write_bge: Write,
    examined: OpenAt,
    damage: Callable[[Path], object],
    examine: Examine,
    is_indexing: IsIndexing,
) -> None:
    db = examined(write_bge(tmp_path / "book.sqlite"))
    answers = _answers(db)
    (made,) = _files(db)
    damage(made)
    assert is_indexing(db)
    assert examine(db).details["validation"] == "valid"
    assert _answers(db) == answers


def test_an_index_that_was_damaged_before_it_was_first_used_is_made_again(
    tmp_path: Path, write_bge: Write, examined: OpenAt, examine: Examine
) -> None:
    db = examined(write_bge(tmp_path / "book.sqlite"))
    answers = _answers(db)
    (made,) = _files(db)
    _flip(made, made.stat().st_size // 2)
    examine(db)
    assert _answers(db) == answers


_EXAMINING = """
import sys
from pathlib import Path
from collated_readers import Budget
from collated_readers.book_agent import BookAgent
from collated_readers.opening import ask, open_store
budget = Budget.lasting(50)
db = open_store(Path(sys.argv[1]), copies=Path(sys.argv[2]), copy_limit_bytes=0, budget=budget)
ask(db, lambda db: BookAgent().examine(db, None, budget), budget)
print("done")
"""


@pytest.mark.slow
def test_what_a_killed_process_left_is_never_believed_and_goes(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, examine: Examine, is_indexing: IsIndexing
) -> None:
    words = " ".join(f"word{n}" for n in range(400))
    rows = [(f"{n}", f"zebra {n} {words}", [1.0, n], None) for n in range(8_000)]
    path = write_explicit(tmp_path / "book.sqlite", rows)
    db = open_at(path)
    process = subprocess.Popen(
        [sys.executable, "-c", _EXAMINING, path, tmp_path / "copies"], stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 40
    while not (left := [each for each in db.cache.rglob("made") if each.stat().st_size > 100_000]):
        assert process.poll() is None, "it was done before it could be killed"
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    assert process.communicate()[0] == b""
    assert left[0].exists()
    assert _files(db) == []
    assert is_indexing(db)
    assert examine(db).details["validation"] == "valid"
    assert len(READER.ranked(db, Query("zebra 77", limit=9), "all")) == 1
    assert [each.name for each in (db.cache / "book-agent").iterdir()] == [_files(db)[0].name]


def test_an_examination_that_runs_out_of_time_leaves_nothing(
    tmp_path: Path, write_bge: Write, open_at: OpenAt
) -> None:
    db = open_at(write_bge(tmp_path / "book.sqlite", texts=[f"text {n}. " for n in range(300)]))
    budget = Budget.lasting(30)

    def examine(db: StoreConnection) -> Examined:
        budget.cancelled = True
        return READER.examine(db, None, budget)

    with pytest.raises(StoreError) as caught:
        ask(db, examine, budget)
    assert caught.value.code == "deadline_exceeded"
    assert _files(db) == []


@pytest.mark.slow
def test_a_question_to_the_index_ends_with_the_budget_of_who_asks(
    tmp_path: Path, write_bge: Write, examined: OpenAt
) -> None:
    db = examined(write_bge(tmp_path / "book.sqlite", texts=[f"text {n} the. " for n in range(3_000)]))
    budget = Budget.lasting(30)

    def ranked(db: StoreConnection) -> object:
        budget.cancelled = True
        return READER.ranked(db, Query("text the", limit=3_000), "any")

    with pytest.raises(StoreError) as caught:
        ask(db, ranked, budget)
    assert caught.value.code == "deadline_exceeded"
    assert len(_files(db)) == 1


def test_one_index_is_kept_for_a_store_whatever_becomes_of_it(
    tmp_path: Path, write_bge: Write, open_at: OpenAt, examine: Examine, is_indexing: IsIndexing
) -> None:
    path = write_bge(tmp_path / "book.sqlite")
    first = open_at(path)
    examine(first)
    (old,) = _files(first)
    path.unlink()
    db = open_at(write_bge(path, texts=("Another zebra.",)))
    assert is_indexing(db)
    examine(db)
    (new,) = _files(db)
    assert new != old
    assert new.name.split("-")[0] == old.name.split("-")[0]
    assert search(READER, db, Query("another")).hits[0].doc == "book"


def test_indexes_of_stores_that_are_gone_go_and_those_of_others_stay(
    tmp_path: Path, write_bge: Write, open_at: OpenAt, examine: Examine
) -> None:
    paths = [write_bge(tmp_path / f"{name}.sqlite") for name in ("one", "two", "three")]
    opened = [open_at(path) for path in paths]
    examine(opened[0])
    examine(opened[1])
    assert len(_files(opened[0])) == 2
    paths[0].unlink()
    examine(opened[2])
    assert len(_files(opened[2])) == 2
    assert READER.vocabulary(opened[1]) is not None


def test_another_manifest_makes_another_store_of_the_same_file(
    *,
    tmp_path: Path,
    write_explicit: Write,
    open_at: OpenAt,
    rows: Rows,
    examine: Examine,
    is_indexing: IsIndexing,
) -> None:
    path = write_explicit(tmp_path / "book.sqlite", rows)
    db = open_at(path)
    before = ask(db, identify, Budget.lasting(30))[1]
    examine(db)
    manifest = path.with_suffix(".manifest.json")
    manifest.write_text(manifest.read_text().replace('"source_json": "source", ', ""))
    after = ask(db, identify, Budget.lasting(30))[1]
    assert (before.documents, after.documents) == (3, 1)
    assert before.identity != after.identity
    assert is_indexing(db)
    examine(db)
    assert {hit.doc for hit in search(READER, db, Query("zebra")).hits} == {"book"}


def test_the_index_is_a_database_that_only_this_user_reads(
    tmp_path: Path, write_bge: Write, examined: OpenAt
) -> None:
    db = examined(write_bge(tmp_path / "book.sqlite"))
    (made,) = _files(db)
    with closing(sqlite3.connect(made)) as index:
        assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert index.execute("SELECT store FROM made_for").fetchone() == (os.fsencode(db.path),)
