"""The reader as the daemon uses it: which files are of the format, and passages as records."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from collated_readers import (
    HINT_NO_EMBEDDER,
    Budget,
    Pattern,
    Query,
    Record,
    RequestError,
    StoreError,
    StoreFacts,
)
from collated_readers.book_agent import BookAgent
from collated_readers.contract import Examiner
from collated_readers.opening import StoreConnection, ask
from collated_readers.registry import identify
from collated_readers.single import search
from collated_readers.vectors import VectorReader

Write = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Rows = list[tuple[object, object, Sequence[float], object]]

READER = BookAgent()
_CHECKED: tuple[VectorReader, Examiner] = (READER, READER)


def _facts(db: StoreConnection) -> StoreFacts:
    reader, facts = ask(db, identify, Budget.lasting(30))
    assert isinstance(reader, BookAgent)
    return facts


def _code(db: StoreConnection) -> str:
    with pytest.raises(StoreError) as caught:
        _facts(db)
    return caught.value.code


# --------------------------------------------------------------------------- recognition


@pytest.mark.parametrize("name", ["book.manifest.json", "book.sqlite.manifest.json"])
def test_a_store_is_known_by_the_manifest_beside_it(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows, name: str
) -> None:
    path = write_explicit(tmp_path / "book.sqlite", rows)
    path.with_suffix(".manifest.json").rename(tmp_path / name)
    facts = _facts(open_at(path))
    assert (facts.schema_version, facts.model) == ("book-agent-explicit-v1", "some-model")
    assert (facts.documents, facts.records) == (3, 4)
    assert facts.details == {
        "contract": "book-agent-explicit-v1",
        "model": "some-model",
        "dimensions": 2,
        "metric": "dot",
    }


def test_the_manifest_under_the_whole_name_is_the_stores_own(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    path = write_explicit(tmp_path / "book.sqlite", rows)
    manifest = path.with_suffix(".manifest.json")
    (tmp_path / "book.sqlite.manifest.json").write_text(
        manifest.read_text().replace("some-model", "own-model")
    )
    assert _facts(open_at(path)).model == "own-model"


def test_a_link_leads_to_the_manifest_of_its_target(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link.sqlite").symlink_to(write_explicit(tmp_path / "far" / "book.sqlite", rows))
    assert _facts(open_at(tmp_path / "link.sqlite")).model == "some-model"


def test_a_store_is_known_by_its_tables(tmp_path: Path, write_bge: Write, open_at: OpenAt) -> None:
    facts = _facts(open_at(write_bge(tmp_path / "book.sqlite")))
    assert (facts.schema_version, facts.model) == ("bge-m3-lossless-v1", "BAAI/bge-m3")
    assert (facts.documents, facts.records) == (1, 4)


@pytest.mark.parametrize(
    ("manifest", "code"),
    [
        (None, "unknown_format"),
        (b"", "unknown_format"),
        (b'{"version": 3, "files": []}', "unknown_format"),
        (b'{"version": "book-agent-explicit-v9"}', "unknown_sqlite_schema"),
        (b'{"sqlite_schema": {}}', "unknown_sqlite_schema"),
        (b'{"version": "book-agent-explicit-v1"', "invalid_manifest"),
        (b'{"version": "book-agent-explicit-v1"}' + b" " * (1 << 20), "unknown_format"),
    ],
)
def test_a_manifest_that_is_ours_and_wrong_is_refused_and_any_other_is_not_ours(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, manifest: bytes | None, code: str
) -> None:
    path = write_explicit(tmp_path / "book.sqlite", [])
    beside = path.with_suffix(".manifest.json")
    beside.unlink()
    if manifest is not None:
        beside.write_bytes(manifest)
    assert _code(open_at(path)) == code


def test_a_manifest_may_be_anything_and_is_never_waited_for(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    path = write_explicit(tmp_path / "book.sqlite", rows)
    beside = path.with_suffix(".manifest.json")
    beside.unlink()
    os.mkfifo(beside)
    (tmp_path / "book.sqlite.manifest.json").mkdir()
    assert _code(open_at(path)) == "unknown_format"


def test_a_store_of_another_format_stays_that_whatever_lies_beside_it(
    tmp_path: Path, make_store: Write, open_at: OpenAt
) -> None:
    path = make_store(tmp_path / "store.sqlite", {"a.md": "# A\n\nzebra\n"}, rollback=True)
    path.with_suffix(".manifest.json").write_text('{"version": "book-agent-explicit-v1"}')
    assert ask(open_at(path), identify, Budget.lasting(30))[0].format == "contextpull"


@pytest.mark.parametrize(
    "sql",
    [
        ("DROP TABLE chunks", "CREATE VIEW chunks AS SELECT 1 AS ordinal, 2 AS embedding"),
        ("DROP TABLE metadata",),
        ("ALTER TABLE chunks DROP COLUMN embedding",),
    ],
)
def test_other_tables_are_nobodys(
    tmp_path: Path, write_bge: Write, open_at: OpenAt, sql: tuple[str, ...]
) -> None:
    assert _code(open_at(write_bge(tmp_path / "book.sqlite", *sql))) == "unknown_format"


def test_a_connection_that_knows_no_path_is_no_store() -> None:
    with closing(sqlite3.connect(":memory:")) as db, pytest.raises(TypeError):
        READER.recognises(db, {})


# --------------------------------------------------------------------------- records


def test_passages_are_read_in_the_order_of_their_document(
    tmp_path: Path, write_bge: Write, open_at: OpenAt
) -> None:
    texts = [f"text {number}. " for number in range(15)]
    db = open_at(write_bge(tmp_path / "book.sqlite", texts=texts))
    reading = READER.read(db, "7", 2)
    assert reading.record == Record("7", "book", "", "passage", "text 7. ", "6", "8")
    assert [each.id for each in reading.context] == ["5", "6", "8", "9"]
    assert [each.id for each in READER.neighbours(db, "10", 2, 1).records] == ["8", "9", "10", "11"]
    assert [each.id for each in READER.read(db, "0", 99).context] == ["1", "2", "3", "4", "5"]
    assert READER.read(db, "14", 0).record.next_id is None
    for one, other in pairwise(READER.neighbours(db, "3", 5, 5).records):
        assert (one.next_id, other.prev_id) == (other.id, one.id)


def test_what_stands_around_a_passage_is_of_its_document(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    db = open_at(write_explicit(tmp_path / "book.sqlite", rows))
    record = READER.read(db, "b", 0).record
    assert (record.doc, record.heading_path, record.prev_id, record.next_id) == ("one.pdf", "Seas", "a", None)
    assert [each.id for each in READER.neighbours(db, "b", 5, 5).records] == ["a", "b"]
    assert READER.read(db, "d", 5).record.doc == "book"


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ('{"path": "a.pdf", "title": "A", "section": "1"}', ("a.pdf", "1")),
        ('{"title": "A", "heading_path": "H > I", "chapter": "C"}', ("A", "H > I")),
        ('{"path": "", "title": "A"}', ("A", "")),
        ('{"path": 7, "book": ["x"], "chapter": {"a": 1}}', ("book", "")),
        (f'{{"path": "{"x" * 1_001}"}}', ("book", "")),
        ("[1]", ("book", "")),
        ("no JSON", ("book", "")),
    ],
)
def test_a_place_is_what_the_source_names_if_it_names_one(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, source: str, place: tuple[str, str]
) -> None:
    db = open_at(write_explicit(tmp_path / "book.sqlite", [("a", "text", [1.0], source)]))
    record = READER.read(db, "a", 0).record
    assert (record.doc, record.heading_path) == place


@pytest.mark.parametrize(
    ("stated", "doc"),
    [
        ({"title": "The Book"}, "The Book"),
        ({"title": "The Book", "source_path": "b.md"}, "b.md"),
        ({}, "store"),
    ],
)
def test_the_metadata_may_name_the_book(
    tmp_path: Path, write_bge: Write, open_at: OpenAt, stated: dict[str, object], doc: str
) -> None:
    db = open_at(write_bge(tmp_path / "store.sqlite", stated=stated))
    assert READER.read(db, "1", 0).record.doc == doc
    assert f"{doc} " in READER.index(db, None)


def test_the_index_lists_documents_and_how_many_passages_they_have(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    db = open_at(write_explicit(tmp_path / "book.sqlite", rows))
    assert READER.index(db, None).splitlines() == [
        "book-agent index · 3 documents · 4 passages",
        f"{'book':<30}  (1)",
        f"{'one.pdf':<30}  (2)",
        f"{'two.pdf':<30}  (1)",
    ]
    assert READER.index(db, "t").splitlines()[0] == "book-agent index · t · 1 documents · 1 passages"


def test_every_id_is_found_by_its_text(tmp_path: Path, write_explicit: Write, open_at: OpenAt) -> None:
    schema = "CREATE TABLE passages (identifier PRIMARY KEY, body TEXT, vector, source TEXT)"
    ids: list[object] = [7, -7, 2.5, 1e300, "text", "007", "", b"\x00\xff", "x'zz'", "a#b:c"]
    rows = [(each, f"text {number}", [1.0], None) for number, each in enumerate(ids)]
    db = open_at(write_explicit(tmp_path / "book.sqlite", rows, schema=schema))
    names = [record_id for record_id, _ in READER.texts(db)]
    assert names == sorted(names)
    texts = {READER.read(db, name, 0).record.text for name in names}
    assert texts == {f"text {number}" for number in range(len(ids))}
    for name in ("8", "7.0", "+7", " 7", "x'00'", "TEXT", "\ud800", "9" * 5_000, "nan", "inf"):
        with pytest.raises(RequestError) as caught:
            READER.read(db, name, 0)
        assert caught.value.code == "unknown_id"


def test_grep_finds_the_first_line_of_each_passage(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
) -> None:
    rows = [
        (number, f"first\n  a Zebra {number}\nzebra again", [1.0], f'{{"path": "{number % 2}.md"}}')
        for number in range(12)
    ]
    schema = "CREATE TABLE passages (identifier INTEGER PRIMARY KEY, body TEXT, vector, source TEXT)"
    db = open_at(write_explicit(tmp_path / "book.sqlite", rows, schema=schema))

    def ids(pattern: Pattern) -> list[str]:
        return [match.id for match in READER.grep(db, pattern, Budget.lasting(30)).matches]

    whole = READER.grep(db, Pattern("zebra"), Budget.lasting(30))
    assert [match.id for match in whole.matches] == sorted(str(number) for number in range(12))
    assert {match.line for match in whole.matches} == {f"a Zebra {number}" for number in range(12)}
    assert ids(Pattern("zebra 1$", is_regex=True)) == ["1"]
    assert ids(Pattern("zebra", within=("1.md",), limit=3)) == ["1", "11", "3"]
    assert ids(Pattern("zebra", among=("9", "10", "9", "99"))) == ["10", "9"]
    assert READER.grep(db, Pattern("zebra", limit=11), Budget.lasting(30)).is_truncated


# --------------------------------------------------------------------------- words and vectors together


def test_hybrid_search_fuses_what_words_find_with_what_vectors_find(
    tmp_path: Path, write_explicit: Write, examined: OpenAt, rows: Rows
) -> None:
    db = examined(write_explicit(tmp_path / "book.sqlite", rows))
    asked: list[tuple[str, str]] = []

    def embed(model: str, text: str) -> Sequence[float]:
        asked.append((model, text))
        return [0.0, 1.0]

    answer = search(READER, db, Query("zebra", is_hybrid=True), embed)
    assert (answer.mode, answer.hint, asked) == ("hybrid", None, [("some-model", "zebra")])
    assert [(hit.id, hit.tier) for hit in answer.hits] == [
        ("c", "any"),
        ("a", "any"),
        ("b", "dense"),
        ("d", "dense"),
    ]
    assert answer.hits[0].score == pytest.approx(100 * (1 / 61 + 1 / 62), abs=0.01)
    assert answer.hits[2].snippet == "A whale, blue too.…"
    within = search(READER, db, Query("zebra", ("one.pdf",), is_hybrid=True), embed).hits
    assert {hit.id for hit in within} == {"a", "b"}
    assert search(READER, db, Query("zebra", is_hybrid=True)).hint == HINT_NO_EMBEDDER


def test_a_vector_of_another_length_says_both(
    tmp_path: Path, write_explicit: Write, examined: OpenAt, rows: Rows
) -> None:
    db = examined(write_explicit(tmp_path / "book.sqlite", rows))
    with pytest.raises(RequestError) as caught:
        search(READER, db, Query("zebra", is_hybrid=True), lambda model, text: [1.0, 2.0, 3.0])
    assert caught.value.code == "query_model_mismatch"
    assert "has 3" in caught.value.message
    assert "have 2" in caught.value.message


def test_nothing_of_a_question_stays_in_a_transaction(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    path = write_explicit(tmp_path / "book.sqlite", rows)
    db = open_at(path)
    budget = Budget.lasting(30)
    ask(db, lambda db: READER.read(db, "a", 1), budget)
    ask(db, lambda db: READER.similar(db, [1.0, 0.0], 2, budget), budget)
    ask(db, lambda db: next(READER.texts(db)), budget)
    with closing(sqlite3.connect(path, timeout=0)) as writer:
        writer.execute("UPDATE passages SET body = 'x'")
        writer.commit()
