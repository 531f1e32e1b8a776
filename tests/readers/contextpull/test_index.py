"""A ContextPull store's index: its words, and that to read it leaves no trace."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import collated_readers
from collated_readers import Budget, Query
from collated_readers.contextpull import ContextPull
from collated_readers.contract import Phrase
from collated_readers.opening import StoreConnection, ask
from collated_readers.passes.words import words_of
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
INDEX = "INSERT INTO sections_fts VALUES ('a.md#0', '', '{}')"
LONGER = "UPDATE sections_fts SET text = '{}' WHERE id = 'a.md#0'"
MORE = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO sections
SELECT 'c#' || i, doc_id, 99 + i, '', 1, '', text, 0, '', NULL, NULL FROM n, sections WHERE id = 'b.md#0'"""


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
