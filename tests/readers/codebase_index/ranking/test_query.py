"""What is read out of a query, whatever its text."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.codebase_index.ranking.query import asked_of, components_of

word = st.from_regex(r"[A-Za-zÄé_\-]{1,12}", fullmatch=True)
query = st.one_of(st.text(max_size=60), st.lists(word, max_size=8).map(" ".join))


@given(query)
def test_every_query_is_a_valid_match(text: str) -> None:
    asked = asked_of(text)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE words USING fts5(content)")
        if asked.terms:
            db.execute("SELECT rowid FROM words WHERE words MATCH ?", (asked.match,)).fetchall()


@given(query)
def test_no_spelling_is_looked_for_twice(text: str) -> None:
    asked = asked_of(text)
    spellings = [word for term in asked.terms for word, _ in term.spellings]
    assert len(spellings) == len(set(spellings))
    assert all(term.spellings[0] == (term.text, 1.0) for term in asked.terms)
    assert all(term.text == term.text.casefold() for term in asked.terms)


def test_no_more_is_looked_for_than_can_be() -> None:
    asked = asked_of(" ".join(f"word{number}" for number in range(10_000)) + " " + "x" * 100_000)
    assert 0 < len(asked.terms) <= 100
    assert max(len(term.text) for term in asked.terms) < 2_000


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("how does the parser work", ["parser"]),
        ("the type of a class", ["the", "type", "of", "a", "class"]),  # or nothing could be found
        ("x", ["x"]),
        ("x in list", ["list"]),
        ("Config config CONFIG", ["config"]),
        ("a_b __init__ -- kebab-case", ["a_b", "init", "kebab-case"]),
        ("!?", []),
    ],
)
def test_words_that_tell_something_are_looked_for(text: str, terms: list[str]) -> None:
    assert [term.text for term in asked_of(text).terms] == terms


@pytest.mark.parametrize(
    ("text", "kind"),
    [("class Option", "class"), ("functions of x", "function"), ("class or method", None), ("parser", None)],
)
def test_one_kind_of_symbol_can_be_asked_for(text: str, kind: str | None) -> None:
    assert asked_of(text).kind == kind


@pytest.mark.parametrize(
    ("text", "is_question"),
    [("where is it", True), ("is it", True), ("parser?  ", True), ("isolate", False), ("the parser", False)],
)
def test_a_question_is_known_by_how_it_begins_or_ends(text: str, is_question: bool) -> None:
    assert asked_of(text).is_question is is_question


def test_of_several_intents_each_list_counts_as_for_the_one_that_values_it_most() -> None:
    asked = asked_of("how does the traceback work, and where is the architecture defined")
    assert asked.intent == "debug_error"
    assert (asked.weights.text, asked.weights.symbol, asked.weights.path) == (1.0, 1.0, 0.7)


def test_a_name_has_components() -> None:
    assert components_of("HTTPServer_v2.Größe") == {"http", "server", "v2", "grösse"}
