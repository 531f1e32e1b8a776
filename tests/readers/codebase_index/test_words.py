"""Words, the parts of identifiers, and snippets: pure, so tried on generated text."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.codebase_index.snippets import shown_name, shown_words, snippet_of
from collated_readers.codebase_index.words import (
    TOKENIZER,
    key_of,
    match_of,
    parts_of,
    phrases_of,
    tiers_of,
    words_of,
)
from collated_readers.fts.tokens import Tokenizer

part = st.from_regex(r"[a-z]{2,6}", fullmatch=True)
parts = st.lists(part, min_size=2, max_size=4)
asked = Tokenizer(TOKENIZER)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_params_from_function", ["get", "params", "from", "function"]),
        ("getParamsFromFunction", ["get", "Params", "From", "Function"]),
        ("HTTPServer", ["HTTP", "Server"]),
        ("parseHTTPServer2Go", ["parse", "HTTP", "Server2", "Go"]),
        ("__init__", ["init"]),
        ("kebab-case.and:more", ["kebab", "case", "and", "more"]),
        ("v2", ["v2"]),
        ("ÄpfelUndÖl", ["Äpfel", "Und", "Öl"]),
        ("X", ["X"]),
        ("___", []),
    ],
)
def test_a_name_has_the_parts_that_its_writer_meant(name: str, expected: list[str]) -> None:
    assert parts_of(name) == expected


@given(st.text("abABC12_-. ", max_size=12))
def test_names_of_ascii_letters_have_the_parts_that_any_names_have(name: str) -> None:
    assert [*parts_of(name), "é"] == parts_of(f"{name}_é")


@given(parts)
def test_all_spellings_of_a_name_have_one_key_and_find_the_same(each: list[str]) -> None:
    camel = each[0] + "".join(word.capitalize() for word in each[1:])
    spellings = ["_".join(each), "-".join(each), camel, camel[0].upper() + camel[1:], "_".join(each).upper()]
    assert {key_of(name) for name in [*spellings, " ".join(each)]} == {"".join(each)}
    assert len({phrases_of(words_of(name)) for name in spellings}) == 1
    assert len({match_of(words_of(name), "any").lower() for name in spellings}) == 1


@given(st.text())
def test_no_character_of_a_name_is_lost_but_what_stands_between(name: str) -> None:
    assert "".join(parts_of(name)) == re.sub(r"[\W_]+", "", name)
    assert key_of("".join(parts_of(name))) == key_of(name)


@given(st.text(st.characters(codec="ascii")) | st.text(max_size=20))
def test_the_terms_of_words_are_what_the_tokenizer_makes_of_them(text: str) -> None:
    words = words_of(text)
    assert bool(tiers_of(words)) == bool(words)
    assert all(asked.terms(word) for word in words if word.isascii())
    if len(words) > 1:
        assert phrases_of(words) == tuple(asked.terms(word) for word in words)
    for tier in tiers_of(words)[1:]:
        assert match_of(words, tier).count('"') % 2 == 0


body = st.lists(st.sampled_from(("zebra", "blue", "x_zebra", "Zebra()", "\n", "é", "=" * 30, "z" * 500))).map(
    " ".join
)


@given(body, st.sampled_from(("zebra", "blue zebra", "é", "nothing")), st.integers(0, 5))
def test_a_snippet_is_a_part_of_the_text_with_marks(text: str, query: str, line: int) -> None:
    for shown in (shown_words(phrases_of(words_of(query))), shown_name(key_of(query)), None):
        snippet = snippet_of(text, shown, line)
        plain = snippet.replace("**", "").strip("…")
        assert plain in " ".join(text.split())
        assert len(plain) <= 1_000
        assert snippet.count("**") % 2 == 0


LETTERS = st.text(
    st.sampled_from("aAsSkKiIzZéÉſıİ\u212aßẞ_- \n0") | st.characters(codec="utf-8"), max_size=60
)


@given(LETTERS, st.lists(LETTERS, max_size=3), st.integers(0, 9))
def test_the_places_of_words_are_those_that_their_pattern_finds(
    text: str, query: list[str], least: int
) -> None:
    terms = [term for word in query for term in asked.terms(word)]
    shown = shown_words([(term,) for term in terms] + [tuple(terms[:2])])
    folded = "".join(unicodedata.normalize("NFD", letter)[0] for letter in text)
    if shown is not None:
        for each in (folded, folded + " ".join(query)):
            found = [(match.span(), match.lastindex) for match in shown.within(each, least)]
            assert found == [(match.span(), match.lastindex) for match in shown.pattern.finditer(each, least)]


def test_a_snippet_shows_where_most_of_the_query_is() -> None:
    text = "a zebra\n" + "nothing of it\n" * 50 + "here is a blue zebra\n" + "and more\n" * 50
    assert snippet_of(text, shown_words([(b"blue",), (b"zebra",)])).startswith(
        "…here is a **blue** **zebra** and"
    )
    assert snippet_of(text, shown_words([(b"more",)]), 60).startswith("…and **more**")


def test_a_name_is_marked_however_it_is_spelt() -> None:
    shown = shown_name(key_of("getZebra"))
    assert snippet_of("a get_zebra b", shown) == "a **get_zebra** b"
    assert snippet_of("_GetZebra()", shown) == "**_GetZebra**()"
    assert snippet_of("forget_zebras", shown) == "forget_zebras"
