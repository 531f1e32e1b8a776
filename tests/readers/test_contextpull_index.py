"""A ContextPull store's index: its words, who may read it, and what of it is not believed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import collated_readers
from collated_readers import Budget, Query
from collated_readers.contextpull import ContextPull
from collated_readers.contextpull.terms import TOKENIZER
from collated_readers.contextpull.words import words_of
from collated_readers.contract import Phrase
from collated_readers.opening import StoreConnection, ask
from collated_readers.postings import Postings

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Doctored = Callable[..., StoreConnection]
CodeOf = Callable[[Callable[[], object]], str]
Tree = Callable[[Path], dict[str, Any]]

READER = ContextPull()
DOCUMENTS = {
    "a.md": "# Zebra\n\n## One\n\nA zebra lives in this sentence.\n\n## Two\n\nAnother zebra.\n",
    "b.md": "# Other\n\nNothing of that kind, but a zebra in the last line.\n",
}
FORMATS_OWN = (
    "CREATE VIRTUAL TABLE sections_fts USING fts5"
    f'(id UNINDEXED, heading_path, text, tokenize = "{TOKENIZER}")'
)
INDEX = "INSERT INTO sections_fts VALUES ('a.md#0', '', '{}')"
LONGER = "UPDATE sections_fts SET text = '{}' WHERE id = 'a.md#0'"
MORE = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO sections
SELECT 'c#' || i, doc_id, 99 + i, '', 1, '', text, 0, '', NULL, NULL FROM n, sections WHERE id = 'b.md#0'"""
TEXT = "UPDATE sections SET text = {} WHERE id = 'a.md#1'"
TOTALS = "UPDATE sections_fts_data SET block = x'{}' WHERE id = 1"
VIEW = "CREATE VIEW {} AS SELECT * FROM other"
EMPTY = ("DELETE FROM sections_fts", "DELETE FROM sections", "DELETE FROM documents")
FILL = "INSERT INTO sections_fts SELECT id, heading_path, text FROM sections"


@pytest.fixture
def doctored(tmp_path: Path, make_store: MakeStore, open_at: OpenAt) -> Doctored:
    """`doctored(sql…)` opens a real store after those statements were run on it."""

    def make(*statements: str) -> StoreConnection:
        path = make_store(tmp_path / "store.sqlite", DOCUMENTS, min_chars=1, rollback=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for sql in statements:
                db.execute(sql)
        return open_at(path)

    return make


@pytest.fixture
def made(
    tmp_path: Path, make_store: MakeStore, written_store: Callable[[Path], Path]
) -> Callable[[str], Path]:
    """`made(mode)` makes a store that is opened in that way, in a directory of its own."""

    def make(mode: str) -> Path:
        folder = tmp_path / "in"
        if mode == "copy":
            return written_store(folder)
        return make_store(folder / "store.sqlite", DOCUMENTS, rollback=mode == "rollback")

    return make


def _vocabulary(db: StoreConnection) -> list[bytes] | None:
    return ask(db, READER.vocabulary, Budget.lasting(30))


def _postings(db: StoreConnection, *terms: bytes) -> Postings | None:
    return ask(db, lambda db: READER.postings(db, terms or None), Budget.lasting(30))


class Asked(NamedTuple):
    """All there is to ask for."""

    vocabulary: list[bytes] | None
    postings: Postings | None
    part: Postings | None
    texts: list[tuple[str, bytes]]


def _asked(db: StoreConnection) -> Asked:
    """Ask for all there is, in one transaction."""

    def all_of(db: StoreConnection) -> Asked:
        return Asked(
            READER.vocabulary(db),
            READER.postings(db),
            READER.postings(db, [b"zebra"]),
            list(READER.texts(db)),
        )

    return ask(db, all_of, Budget.lasting(30))


# --------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Zebra zebra tx-4419 e.g.", ((b"zebra",), (b"zebra",), (b"tx-4419",), (b"e.g",))),
        ("café RÉSUMÉ", ((b"cafe",), (b"resume",))),
        ("日本語", (("日本語".encode(),),)),
        ("a\u19b0b", ((b"a", b"b"),)),
        ("\u19b0 x", ((), (b"x",))),
        ("---", ()),
        ("", ()),
    ],
)
def test_a_query_has_one_phrase_for_each_of_its_words(text: str, phrases: tuple[Phrase, ...]) -> None:
    assert READER.phrases(Query(text)) == phrases
    assert READER.phrases(Query(text)) == phrases


def test_words_are_the_terms_of_an_index_of_them(doctored: Doctored) -> None:
    for text in (
        "x²",
        "½ Ⅷ",
        "ﬁle",
        "ÄPFEL",
        "Σίσυφος",
        "İstanbul",
        "ᏣᎳᎩ",
        "한국어",
        "a\u19b0\u19b1é",
        "ſ \u212a",
    ):
        words = " ".join(words_of(text))
        db = doctored("DELETE FROM sections_fts", INDEX.format(words))
        terms = {term for phrase in READER.phrases(Query(text)) for term in phrase}
        assert set(_vocabulary(db) or ()) == terms, text


def test_long_words_are_cut_where_the_index_cuts_them(doctored: Doctored) -> None:
    for word in ("x" * 32_769, "é" * 40_000, "語" * 20_000, "y" * 32_768, "語" * 100):
        db = doctored(INDEX.format(word))
        ((term,),) = READER.phrases(Query(word))
        assert len(term) <= 32_768
        assert term in (_vocabulary(db) or ())
        assert ask(db, partial(READER.ranked, query=Query(word), tier="any"), Budget.lasting(30))


def test_many_threads_ask_for_words_at_once() -> None:
    texts = [f"{letter}é{number}" for number in range(40) for letter in "ab"]
    queries = [Query(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(READER.phrases, queries))
    assert found == [((text.replace("é", "e").encode(),),) for text in texts]


def test_to_import_the_reader_opens_no_database_and_needs_no_numpy() -> None:
    script = (
        "import sys; sys.addaudithook(lambda event, _: event == 'sqlite3.connect' and print(event)); "
        "from collated_readers.registry import READERS; from collated_readers import Query; "
        "print(READERS[0].phrases(Query('zebra')), 'numpy' in sys.modules)"
    )
    places = os.pathsep.join(str(Path(place).parent) for place in collated_readers.__path__)
    environ = {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "((b'zebra',),) False"


# --------------------------------------------------------------------------- reading leaves no trace


@pytest.mark.parametrize("mode", ["rollback", "immutable", "copy"])
def test_a_store_is_read_as_arrays_however_it_is_open_and_stays_as_it_was(
    made: Callable[[str], Path], open_at: OpenAt, tree: Tree, mode: str
) -> None:
    path = made(mode)
    folder = path.parent
    before = tree(folder)
    db = open_at(path)
    for _ in range(2):
        vocabulary, postings, part, texts = _asked(db)
        assert postings is not None
        assert part is not None
        assert vocabulary == list(postings.terms)
        assert set() < set(part.ids) <= set(postings.ids)
        assert [record_id for record_id, _ in texts] == list(postings.ids)
    assert db.mode == mode
    assert db.execute("PRAGMA query_only").fetchone() == (1,)
    assert tree(folder) == before
    db.close()
    assert tree(folder) == before
    assert not any((folder.parent / "copies").glob("*"))


def test_only_the_one_statement_may_write_and_only_in_memory(doctored: Doctored, code_of: CodeOf) -> None:
    def write(db: StoreConnection) -> None:
        READER.vocabulary(db)
        db.execute("CREATE TEMP TABLE mine (x)")

    db = doctored()
    assert code_of(lambda: ask(db, write, Budget.lasting(30))) == "unwritable_directory"
    assert db.execute("PRAGMA query_only").fetchone() == (1,)


def test_a_statement_that_fails_does_not_leave_the_connection_writable(
    doctored: Doctored, code_of: CodeOf
) -> None:
    db = doctored()

    def authorize(action: int, *_: str | None) -> int:
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_VTABLE else sqlite3.SQLITE_OK

    db.set_authorizer(authorize)
    assert code_of(lambda: _vocabulary(db)) == "permission_denied"
    assert db.execute("PRAGMA query_only").fetchone() == (1,)
    db.set_authorizer(None)
    assert _vocabulary(db)


@pytest.mark.parametrize("what", ["vocabulary", "postings", "some", "texts"])
def test_reading_ends_with_its_budget(doctored: Doctored, code_of: CodeOf, what: str) -> None:
    words = " ".join(f"w{n} zebra" for n in range(30_000))
    db = doctored(LONGER.format(words), *([MORE] if what == "texts" else []))
    ways: Mapping[str, Callable[[StoreConnection], object]] = {
        "vocabulary": READER.vocabulary,
        "postings": READER.postings,
        "some": lambda db: READER.postings(db, [b"zebra"]),
        "texts": lambda db: list(READER.texts(db)),
    }
    budget = Budget.lasting(30)

    def cancelled(db: StoreConnection) -> object:
        budget.cancelled = True
        return ways[what](db)

    assert code_of(lambda: ask(db, cancelled, budget)) == "deadline_exceeded"
    assert db.execute("PRAGMA query_only").fetchone() == (1,)


# --------------------------------------------------------------------------- what is not believed


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
    path = make_store(tmp_path / "store.sqlite", DOCUMENTS, rollback=True)
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
