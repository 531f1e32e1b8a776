"""What of a ContextPull store's index is not believed: other declarations, and rows that do not fit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from collated_readers import Budget
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection, ask
from collated_readers.passes.terms import TOKENIZER
from collated_readers.postings import COLUMN_SHIFT, Postings

pytestmark = pytest.mark.slow

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Doctored = Callable[..., StoreConnection]
CodeOf = Callable[[Callable[[], object]], str]

READER = ContextPull()
FORMATS_OWN = (
    "CREATE VIRTUAL TABLE sections_fts USING fts5"
    f'(id UNINDEXED, heading_path, text, tokenize = "{TOKENIZER}")'
)
TEXT = "UPDATE sections SET text = {} WHERE id = 'a.md#1'"
TOTALS = "UPDATE sections_fts_data SET block = x'{}' WHERE id = 1"
PAGE = "UPDATE sections_fts_data SET block = x'{}' WHERE id > 10"
VIEW = "CREATE VIEW {} AS SELECT * FROM other"
EMPTY = ("DELETE FROM sections_fts", "DELETE FROM sections", "DELETE FROM documents")
FILL = "INSERT INTO sections_fts SELECT id, heading_path, text FROM sections"


def _vocabulary(db: StoreConnection) -> list[bytes] | None:
    return ask(db, READER.vocabulary, Budget.lasting(30))


def _postings(db: StoreConnection, *terms: bytes) -> Postings | None:
    return ask(db, lambda db: READER.postings(db, terms or None), Budget.lasting(30))


@pytest.mark.parametrize(
    "declaration",
    [
        FORMATS_OWN.replace("remove_diacritics 2", "remove_diacritics 1"),
        FORMATS_OWN.replace("-_.", "-_"),
        FORMATS_OWN.replace("unicode61", "porter unicode61"),
        FORMATS_OWN.replace(f', tokenize = "{TOKENIZER}"', ""),
        FORMATS_OWN.replace(")", ", prefix = '2')"),
        FORMATS_OWN.replace(")", ", detail = column)"),
        FORMATS_OWN.replace(")", ", detail = none)"),
        FORMATS_OWN.replace(")", ", columnsize = 0)"),
        FORMATS_OWN.replace("id UNINDEXED", "id"),
        FORMATS_OWN.replace("text,", "text UNINDEXED,"),
    ],
)
def test_an_index_of_another_declaration_is_left_to_sqlite(doctored: Doctored, declaration: str) -> None:
    db = doctored("DROP TABLE sections_fts", declaration, FILL)
    assert _vocabulary(db) is None
    assert _postings(db) is None
    assert _postings(db, b"zebra") is None


def test_only_the_spacing_of_the_declaration_may_differ(doctored: Doctored) -> None:
    db = doctored("DROP TABLE sections_fts", FORMATS_OWN.replace(", ", " ,\n\t"), FILL)
    assert _postings(db) is not None


@pytest.mark.parametrize("table", ["content", "docsize", "data"])
def test_an_index_whose_tables_are_no_ordinary_tables_is_left_to_sqlite(
    doctored: Doctored, table: str
) -> None:
    name = f"sections_fts_{table}"
    db = doctored(f"ALTER TABLE {name} RENAME TO other", VIEW.format(name))
    assert _postings(db) is None


def test_a_store_in_utf_16_is_left_to_sqlite(tmp_path: Path, make_store: MakeStore, open_at: OpenAt) -> None:
    path = make_store(tmp_path / "store.sqlite", {"a.md": "# A\n\nA zebra.\n"}, rollback=True)
    with closing(sqlite3.connect(path)) as db:
        dump = [line for line in db.iterdump() if "sections_fts" not in line]
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA encoding = 'UTF-16le'")
        db.executescript("\n".join(dump))
        db.execute(FORMATS_OWN)
        db.execute(FILL)
    opened = open_at(path)
    assert _vocabulary(opened) is None
    assert _postings(opened) is None


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM sections_fts_docsize WHERE id = 1",
        "DELETE FROM sections_fts_content WHERE id = 1",
        "DELETE FROM sections WHERE id = 'a.md#0'",
        "DELETE FROM documents WHERE path = 'a.md'",
        "INSERT INTO sections_fts VALUES ('ghost#0', 'Zebra', 'zebra')",
        "INSERT INTO sections_fts SELECT id, heading_path, text FROM sections_fts WHERE id = 'a.md#1'",
        "UPDATE sections_fts_content SET c0 = 'a.md#1' WHERE c0 = 'a.md#0'",
        "UPDATE sections_fts_content SET c0 = 5 WHERE c0 = 'a.md#0'",
        "UPDATE sections SET id = x'00' WHERE id = 'a.md#0'",
        "UPDATE documents SET path = x'00' WHERE path = 'a.md'",
        "UPDATE sections_fts_docsize SET sz = NULL WHERE id = 1",
        "UPDATE sections_fts_docsize SET sz = '' WHERE id = 1",
        "UPDATE sections_fts_docsize SET sz = x'' WHERE id = 1",
        "UPDATE sections_fts_docsize SET sz = x'0001' WHERE id = 1",
        "UPDATE sections_fts_docsize SET sz = x'00010203' WHERE id = 1",
        "UPDATE sections_fts_docsize SET sz = x'000180' WHERE id = 1",
        "UPDATE sections_fts_docsize SET sz = x'0001ffffffff7f' WHERE id = 1",
        "UPDATE sections_fts_docsize SET sz = x'0001ffffffffffffffff7f' WHERE id = 1",
        "UPDATE sections_fts_data SET block = x'ffffffffff' WHERE id > 10",
        "UPDATE sections_fts_data SET block = NULL WHERE id = 1",
        "UPDATE sections_fts_data SET block = x'00' WHERE id = 10",
        "DELETE FROM sections_fts_data WHERE id > 10",
    ],
)
def test_an_index_that_does_not_go_with_the_sections_is_damaged(
    doctored: Doctored, code_of: CodeOf, statement: str
) -> None:
    db = doctored(statement)
    assert code_of(lambda: _postings(db)) == "damaged"


@pytest.mark.parametrize("block", ["", "00000000", "04000909", "0400090901", "0300090a", "ff7f00090a"])
def test_totals_that_are_not_those_of_the_rows_are_damage(
    doctored: Doctored, code_of: CodeOf, block: str
) -> None:
    db = doctored(TOTALS.format(block))
    assert code_of(lambda: _postings(db)) == "damaged"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO sections_fts VALUES ('ghost#0', 'Zebra', 'zebra')",
        "DELETE FROM sections_fts_docsize",
        "UPDATE sections_fts_docsize SET sz = x'0001'",
        "UPDATE sections_fts_data SET block = x'0001' WHERE id = 1",
    ],
)
def test_some_terms_of_a_broken_index_are_damaged_too(
    doctored: Doctored, code_of: CodeOf, statement: str
) -> None:
    db = doctored(statement)
    assert code_of(lambda: _postings(db, b"zebra")) == "damaged"


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("010288808000", None),  # column text, offset 2^24 - 2
        ("010288808001", "damaged"),
        ("010288808002", "damaged"),
        ("010287ffffff7f", "damaged"),
        ("02", "damaged"),  # column id
        ("010302", "damaged"),  # no column
    ],
)
def test_a_word_stands_where_words_can_be(
    doctored: Doctored, code_of: CodeOf, place: str, code: str | None
) -> None:
    # A page of the index with one term in one row: its number of bytes, and where in them the term begins.
    body = "06307a65627261" + f"01{len(place):02x}{place}"
    db = doctored(
        *EMPTY[:2],
        "INSERT INTO sections SELECT 'a.md#0', doc_id, 0, '', 1, '', '', 0, '', NULL, NULL FROM documents "
        "WHERE path = 'a.md'",
        "INSERT INTO sections_fts VALUES ('a.md#0', '', 'zebra')",
        PAGE.format(f"0000{4 + len(body) // 2:04x}{body}04"),
    )
    if code is not None:
        assert code_of(lambda: _postings(db)) == code
        return
    found = _postings(db)
    assert found is not None
    assert found.positions.tolist() == [(1 << COLUMN_SHIFT) + (1 << 24) - 2]


def test_a_store_without_sections_has_postings_without_any(doctored: Doctored) -> None:
    db = doctored(*EMPTY)
    for found in (_postings(db), _postings(db, b"zebra")):
        assert found is not None
        assert (list(found.ids), list(found.terms), found.starts.tolist()) == ([], [], [0])
        assert (found.total_rows, found.total_tokens) == (0, 0)
    assert _vocabulary(db) == []


def test_texts_are_in_the_order_of_ids_whatever_the_column_says(doctored: Doctored, code_of: CodeOf) -> None:
    columns = "doc_id, ordinal, heading_path, kind, text, prev_id, next_id"
    db = doctored(
        "ALTER TABLE sections RENAME TO other",
        f"CREATE TABLE sections (id TEXT PRIMARY KEY COLLATE NOCASE, {columns})",
        f"INSERT INTO sections SELECT replace(id, 'b', 'B'), {columns} FROM other",  # noqa: S608 - a test's own
    )
    assert code_of(lambda: ask(db, lambda db: list(READER.texts(db)), Budget.lasting(30))) == "damaged"
    assert code_of(lambda: _postings(db)) == "damaged"


@pytest.mark.parametrize("value", ["x'7a'", "cast(x'ff' as text)"])
def test_a_text_that_is_none_is_damage(doctored: Doctored, code_of: CodeOf, value: str) -> None:
    db = doctored(TEXT.format(value))
    assert code_of(lambda: ask(db, lambda db: list(READER.texts(db)), Budget.lasting(30))) == "damaged"
