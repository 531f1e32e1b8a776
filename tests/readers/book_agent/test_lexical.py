"""The index that the reader makes itself, in `examine` alone, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from collated_readers.registry import identify
from collated_readers.single import lexical, search

Write = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Rows = list[tuple[object, object, Sequence[float], object]]
Examine = Callable[[StoreConnection], Examined]
IsIndexing = Callable[[StoreConnection], bool]
Tree = Callable[[Path], dict[str, Any]]

READER = BookAgent()


def _found(db: StoreConnection, text: str) -> set[str]:
    return {hit.id for hit in search(READER, db, Query(text)).hits}


def _files(db: StoreConnection) -> list[Path]:
    return sorted(db.cache.rglob("*.sqlite"))


# --------------------------------------------------------------------------- before and after


def test_words_are_known_once_a_store_was_examined_and_all_else_before(
    *,
    tmp_path: Path,
    write_explicit: Write,
    open_at: OpenAt,
    rows: Rows,
    tree: Tree,
    examine: Examine,
    is_indexing: IsIndexing,
) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    db = open_at(write_explicit(folder / "book.sqlite", rows))
    before = tree(folder)
    assert ask(db, identify, Budget.lasting(30))[0].format == "book-agent"
    assert is_indexing(db)
    assert READER.read(db, "a", 1).record.text == "The blue zebra."
    assert len(READER.grep(db, Pattern("zebra"), Budget.lasting(30)).matches) == 2
    assert READER.similar(db, [1.0, 0.0], 1, Budget.lasting(30))[0].id == "a"
    assert "one.pdf" in READER.index(db, None)
    assert not db.cache.exists()
    assert examine(db).details["validation"] == "valid"
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
    tmp_path: Path, write_bge: Write, open_at: OpenAt, examine: Examine
) -> None:
    path = write_bge(tmp_path / "book.sqlite", stated={"source_sha256": None})
    db = open_at(path)
    first = examine(db)
    (warned,) = first.details["warnings"]
    assert warned["code"] == "source_text_unverified"
    (made,) = _files(db)
    about = made.stat()
    assert examine(open_at(path)) == first
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (about.st_ino, about.st_mtime_ns)


def test_bm25_over_the_arrays_is_the_rank_to_the_last_bit(
    tmp_path: Path, write_explicit: Write, examined: OpenAt, check_index: Callable[..., None]
) -> None:
    texts = [f"{'zebra ' * (n % 5)}blue {'whale ' * (n % 3)}in line {n}" for n in range(200)]
    rows = [(f"{n}", text, [1.0], f'{{"heading": "part {n % 7} blue"}}') for n, text in enumerate(texts)]
    db = examined(write_explicit(tmp_path / "store.sqlite", rows))
    queries = ("zebra", "zebra whale", "blue", "part 3", "nothing")
    check_index(READER, db, queries, [(f"{n}", "store") for n in range(200)])


@given(st.text(st.sampled_from("-_. aÄ1½\n|日\u0301"), max_size=40) | st.text())
def test_texts_are_indexed_as_the_contracts_writer_does(text: str) -> None:
    assert normalised(text) == normalize_for_fts(text)


# --------------------------------------------------------------------------- passages of every kind


def test_passages_that_are_not_sound_are_left_out_and_told_and_the_others_found(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows, examine: Examine
) -> None:
    path = write_explicit(
        tmp_path / "book.sqlite",
        [*rows, ("e", None, [1.0, 0.0], None), (None, "A lost zebra.", [1.0, 0.0], None)],
    )
    db = open_at(path)
    details = examine(db).details
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
    tmp_path: Path, write_bge: Write, open_at: OpenAt, examine: Examine
) -> None:
    db = open_at(write_bge(tmp_path / "book.sqlite", "UPDATE chunks SET embedding = x'00' WHERE ordinal = 2"))
    assert examine(db).details["validation"] == "invalid_vector"
    assert [hit.id for hit in search(READER, db, Query("zebra")).hits] == ["0"]
    with pytest.raises(StoreError) as caught:
        READER.similar(db, [1.0] * 1024, 3, Budget.lasting(30))
    assert caught.value.code == "invalid_vector"


def test_ids_that_are_one_as_text_are_one_record(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, examine: Examine
) -> None:
    schema = "CREATE TABLE passages (identifier PRIMARY KEY, body TEXT, vector, source TEXT)"
    rows = [
        (1, "number zebra", [1.0], None),
        ("1", "text zebra", [1.0], None),
        (2, "other zebra", [1.0], None),
    ]
    db = open_at(write_explicit(tmp_path / "book.sqlite", rows, schema=schema))
    assert examine(db).details["unindexed"] == 1
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
