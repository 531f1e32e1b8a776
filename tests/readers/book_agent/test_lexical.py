"""The index that the reader makes itself: in `examine` alone, whole or not at all, believed if sound."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from contextpull.ingest import normalize_for_fts  # type: ignore[import-untyped]  # the package has no types
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import Budget, Examined, Pattern, Query, StoreError
from collated_readers.book_agent import BookAgent
from collated_readers.opening import StoreConnection, ask
from collated_readers.passes.words import normalised
from collated_readers.postings import Postings
from collated_readers.registry import identify
from collated_readers.single import lexical, search

Write = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Rows = list[tuple[object, object, Sequence[float], object]]
Tree = Callable[[Path], dict[str, Any]]

READER = BookAgent()
QUERIES = ("zebra", "blue zebra", "the blue zebra", "whale nothing", "Zebra.", "naïver Gaul", "段落 whale")


def _examine(db: StoreConnection) -> Examined:
    budget = Budget.lasting(30)
    return ask(db, lambda db: READER.examine(db, None, budget), budget)


def _answers(db: StoreConnection) -> list[object]:
    def answer(db: StoreConnection) -> list[object]:
        return [search(READER, db, Query(text)) for text in QUERIES]

    return ask(db, answer, Budget.lasting(30))


def _found(db: StoreConnection, text: str) -> set[str]:
    return {hit.id for hit in search(READER, db, Query(text)).hits}


def _files(db: StoreConnection) -> list[Path]:
    return sorted(db.cache.rglob("*.sqlite"))


def _is_indexing(db: StoreConnection) -> bool:
    """Tell whether the store says of its words that they are not known yet, however they are asked for."""
    assert READER.vocabulary(db) is None
    for work in (
        lambda: READER.ranked(db, Query("zebra"), "any"),
        lambda: READER.postings(db),
        lambda: READER.postings(db, [b"zebra"]),
    ):
        with pytest.raises(StoreError) as caught:
            work()
        if caught.value.code != "indexing":
            return False
    return True


# --------------------------------------------------------------------------- before and after


def test_words_are_known_once_a_store_was_examined_and_all_else_before(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows, tree: Tree
) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    db = open_at(write_explicit(folder / "book.sqlite", rows))
    before = tree(folder)
    assert ask(db, identify, Budget.lasting(30))[0].format == "book-agent"
    assert _is_indexing(db)
    assert READER.read(db, "a", 1).record.text == "The blue zebra."
    assert len(READER.grep(db, Pattern("zebra"), Budget.lasting(30)).matches) == 2
    assert READER.similar(db, [1.0, 0.0], 1, Budget.lasting(30))[0].id == "a"
    assert "one.pdf" in READER.index(db, None)
    assert not db.cache.exists()
    assert _examine(db).details["validation"] == "valid"
    assert _found(db, "zebra") == {"a", "c"}
    assert tree(folder) == before
    (made,) = _files(db)
    assert made.parent == db.cache / "book-agent"
    assert made.stat().st_mode & 0o777 == 0o600
    assert made.parent.stat().st_mode & 0o777 == 0o700
    assert list(made.parent.iterdir()) == [made]


def test_hits_say_where_they_are_from_and_show_what_matched(
    tmp_path: Path, write_explicit: Write, examined: OpenAt, rows: Rows
) -> None:
    db = examined(write_explicit(tmp_path / "book.sqlite", rows))
    first, second = search(READER, db, Query("blue zebra")).hits[:2]
    assert (first.id, first.doc, first.heading_path, first.kind) == ("a", "one.pdf", "Stripes", "passage")
    assert (first.tier, first.snippet) == ("phrase", "The **blue zebra**")
    assert second.tier == "any"
    (hit,) = search(READER, db, Query("stripes")).hits  # what stands above a passage counts too
    assert hit.id == "a"
    assert [hit.id for hit in search(READER, db, Query("zebra", ("two.pdf",))).hits] == ["c"]
    assert (
        search(READER, db, Query("zebra", ("t*",))).hits
        == search(READER, db, Query("zebra", ("two.pdf",))).hits
    )


def test_a_second_examination_finds_what_the_first_found(
    tmp_path: Path, write_bge: Write, open_at: OpenAt
) -> None:
    path = write_bge(tmp_path / "book.sqlite", stated={"source_sha256": None})
    db = open_at(path)
    first = _examine(db)
    (warned,) = first.details["warnings"]
    assert warned["code"] == "source_text_unverified"
    (made,) = _files(db)
    about = made.stat()
    assert _examine(open_at(path)) == first
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (about.st_ino, about.st_mtime_ns)


def test_bm25_over_the_arrays_is_the_rank_to_the_last_bit(
    tmp_path: Path, write_explicit: Write, examined: OpenAt
) -> None:
    texts = [f"{'zebra ' * (n % 5)}blue {'whale ' * (n % 3)}in line {n}" for n in range(200)]
    rows = [(f"{n}", text, [1.0], f'{{"heading": "part {n % 7} blue"}}') for n, text in enumerate(texts)]
    db = examined(write_explicit(tmp_path / "store.sqlite", rows))
    postings = READER.postings(db)
    assert postings is not None
    assert list(postings.ids) == sorted(f"{n}" for n in range(200))
    for text in ("zebra", "zebra whale", "blue", "part 3", "nothing"):
        query = Query(text, limit=1_000)
        terms = [term for phrase in READER.phrases(query) for term in phrase]
        found = {one.id: one.rank for one in READER.ranked(db, query, "any")}
        some = READER.postings(db, terms)
        assert some is not None
        assert _ranks(postings, terms) == _ranks(some, terms) == found


def _ranks(postings: Postings, terms: Sequence[bytes]) -> dict[str, float]:
    """Return the rank of every record with one of *terms*, in FTS5's order of operations."""
    scores: dict[str, float] = {}
    average = postings.total_tokens / postings.total_rows
    counts: list[dict[int, float]] = []
    for term in terms:
        weights: dict[int, float] = {}
        if term in postings.terms:
            number = list(postings.terms).index(term)
            part = slice(postings.starts[number], postings.starts[number + 1])
            for row, at in zip(postings.rows[part].tolist(), postings.positions[part].tolist(), strict=True):
                weights[row] = weights.get(row, 0.0) + postings.weights[at >> 24]
        counts.append(weights)
    for row in sorted({row for weights in counts for row in weights}):
        score = 0.0
        for weights in counts:
            idf = math.log((postings.total_rows - len(weights) + 0.5) / (len(weights) + 0.5))
            frequency = weights.get(row, 0.0)
            length = float(postings.lengths[row]) / average
            score += (idf if idf > 0 else 1e-6) * (
                (frequency * 2.2) / (frequency + 1.2 * (1 - 0.75 + 0.75 * length))
            )
        scores[postings.ids[row]] = -1.0 * score
    return scores


@given(st.text(st.sampled_from("-_. aÄ1½\n|日\u0301"), max_size=40) | st.text())
def test_texts_are_indexed_as_the_contracts_writer_does(text: str) -> None:
    assert normalised(text) == normalize_for_fts(text)


# --------------------------------------------------------------------------- damage


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
    tmp_path: Path, write_bge: Write, examined: OpenAt, damage: Callable[[Path], object]
) -> None:
    db = examined(write_bge(tmp_path / "book.sqlite"))
    answers = _answers(db)
    (made,) = _files(db)
    damage(made)
    assert _is_indexing(db)
    assert _examine(db).details["validation"] == "valid"
    assert _answers(db) == answers


def test_an_index_that_was_damaged_before_it_was_first_used_is_made_again(
    tmp_path: Path, write_bge: Write, examined: OpenAt
) -> None:
    db = examined(write_bge(tmp_path / "book.sqlite"))
    answers = _answers(db)
    (made,) = _files(db)
    _flip(made, made.stat().st_size // 2)
    _examine(db)
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
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
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
    assert _is_indexing(db)
    assert _examine(db).details["validation"] == "valid"
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


# --------------------------------------------------------------------------- what is kept


def test_one_index_is_kept_for_a_store_whatever_becomes_of_it(
    tmp_path: Path, write_bge: Write, open_at: OpenAt
) -> None:
    path = write_bge(tmp_path / "book.sqlite")
    first = open_at(path)
    _examine(first)
    (old,) = _files(first)
    path.unlink()
    db = open_at(write_bge(path, texts=("Another zebra.",)))
    assert _is_indexing(db)
    _examine(db)
    (new,) = _files(db)
    assert new != old
    assert new.name.split("-")[0] == old.name.split("-")[0]
    assert search(READER, db, Query("another")).hits[0].doc == "book"


def test_indexes_of_stores_that_are_gone_go_and_those_of_others_stay(
    tmp_path: Path, write_bge: Write, open_at: OpenAt
) -> None:
    paths = [write_bge(tmp_path / f"{name}.sqlite") for name in ("one", "two", "three")]
    opened = [open_at(path) for path in paths]
    _examine(opened[0])
    _examine(opened[1])
    assert len(_files(opened[0])) == 2
    paths[0].unlink()
    _examine(opened[2])
    assert len(_files(opened[2])) == 2
    assert READER.vocabulary(opened[1]) is not None


def test_another_manifest_makes_another_store_of_the_same_file(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    path = write_explicit(tmp_path / "book.sqlite", rows)
    db = open_at(path)
    before = ask(db, identify, Budget.lasting(30))[1]
    _examine(db)
    manifest = path.with_suffix(".manifest.json")
    manifest.write_text(manifest.read_text().replace('"source_json": "source", ', ""))
    after = ask(db, identify, Budget.lasting(30))[1]
    assert (before.documents, after.documents) == (3, 1)
    assert before.identity != after.identity
    assert _is_indexing(db)
    _examine(db)
    assert {hit.doc for hit in search(READER, db, Query("zebra")).hits} == {"book"}


def test_passages_that_are_not_sound_are_left_out_and_told_and_the_others_found(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    path = write_explicit(
        tmp_path / "book.sqlite",
        [*rows, ("e", None, [1.0, 0.0], None), (None, "A lost zebra.", [1.0, 0.0], None)],
    )
    db = open_at(path)
    details = _examine(db).details
    assert (details["validation"], details["unindexed"]) == ("invalid_record_text", 2)
    assert "'e'" in details["message"]
    assert _found(db, "zebra") == {"a", "c"}
    assert READER.read(db, "a", 0).record.text == "The blue zebra."
    for work in (
        lambda: READER.read(db, "e", 0),
        lambda: READER.grep(db, Pattern("zebra"), Budget.lasting(30)),
        lambda: list(READER.texts(db)),
    ):
        with pytest.raises(StoreError) as caught:
            work()
        assert (caught.value.code, "'e'" in caught.value.message) == ("invalid_record_text", True)


def test_a_bad_vector_is_told_and_words_are_found_all_the_same(
    tmp_path: Path, write_bge: Write, open_at: OpenAt
) -> None:
    db = open_at(write_bge(tmp_path / "book.sqlite", "UPDATE chunks SET embedding = x'00' WHERE ordinal = 2"))
    assert _examine(db).details["validation"] == "invalid_vector"
    assert [hit.id for hit in search(READER, db, Query("zebra")).hits] == ["0"]
    with pytest.raises(StoreError) as caught:
        READER.similar(db, [1.0] * 1024, 3, Budget.lasting(30))
    assert caught.value.code == "invalid_vector"


def test_ids_that_are_one_as_text_are_one_record(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
) -> None:
    schema = "CREATE TABLE passages (identifier PRIMARY KEY, body TEXT, vector, source TEXT)"
    rows = [
        (1, "number zebra", [1.0], None),
        ("1", "text zebra", [1.0], None),
        (2, "other zebra", [1.0], None),
    ]
    db = open_at(write_explicit(tmp_path / "book.sqlite", rows, schema=schema))
    assert _examine(db).details["unindexed"] == 1
    for hit in search(READER, db, Query("zebra")).hits:
        record = READER.read(db, hit.id, 0).record
        assert record.text.split()[0] in hit.snippet
    assert READER.read(db, "1", 0).record.text == "text zebra"
    assert [record_id for record_id, _ in READER.texts(db)] == ["1", "2"]


def test_texts_of_every_kind_are_indexed_as_they_are(
    tmp_path: Path, write_explicit: Write, examined: OpenAt
) -> None:
    texts = [
        "",
        "\0zebra\0whale",
        "x" * 100_000,
        "'; DROP TABLE sections; --",
        '" OR zebra',
        "ⅷ ½ İstanbul 🤖",
    ]
    rows = [(f"{n}", text, [1.0], None) for n, text in enumerate(texts)]
    db = examined(write_explicit(tmp_path / "book.sqlite", rows))
    assert {one.id for one in lexical(READER, db, Query("zebra"))} == {"1", "4"}
    assert {one.id for one in lexical(READER, db, Query("drop table"))} == {"3"}
    whole = READER.postings(db)
    assert whole is not None
    assert list(whole.ids) == ["0", "1", "2", "3", "4", "5"]
    assert all(first < second for first, second in pairwise(whole.terms))


def test_a_store_with_tables_of_the_same_names_as_the_index_is_no_matter(
    tmp_path: Path, write_explicit: Write, examined: OpenAt, rows: Rows
) -> None:
    path = write_explicit(
        tmp_path / "book.sqlite",
        rows,
        "CREATE TABLE documents (path)",
        "CREATE VIEW sections_fts AS SELECT 1 AS rowid",
        "ALTER TABLE passages RENAME TO sections",
        columns={"table": "sections"},
    )
    assert _found(examined(path), "zebra") == {"a", "c"}


def test_the_index_is_a_database_that_only_this_user_reads(
    tmp_path: Path, write_bge: Write, examined: OpenAt
) -> None:
    db = examined(write_bge(tmp_path / "book.sqlite"))
    (made,) = _files(db)
    with closing(sqlite3.connect(made)) as index:
        assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert index.execute("SELECT store FROM made_for").fetchone() == (os.fsencode(db.path),)
