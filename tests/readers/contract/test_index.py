"""Promises of what a reader offers of its index, tried on every one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collated_readers import (
    Budget,
    Pattern,
    Query,
    Reader,
    RequestError,
)
from collated_readers.opening import StoreConnection, tables
from collated_readers.registry import READERS
from collated_readers.single import search

MakeExample = Callable[..., StoreConnection]

QUERIES = ("zebra", "blue zebra", "zebra blue whale", "the", "a zebra in the garden", "nothing-has-this", "")

each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.format))


@each_reader
def test_a_query_has_as_many_phrases_as_words_and_the_vocabulary_has_what_is_found(
    reader: Reader, db: StoreConnection
) -> None:
    vocabulary = reader.vocabulary(db)
    if vocabulary is None:
        return
    terms = set(vocabulary)
    assert reader.phrases(Query("")) == ()
    for text in QUERIES:
        phrases = reader.phrases(Query(text))
        assert len(phrases) == len(text.split()) or "-" in text  # a word of parts may be looked for by them
        is_there = [set(phrase) <= terms for phrase in phrases]
        assert any(is_there) == bool(search(reader, db, Query(text)).hits)


@each_reader
def test_postings_name_every_record_in_id_order_and_where_each_term_stands(
    reader: Reader, db: StoreConnection
) -> None:
    whole = reader.postings(db)
    if whole is None:
        return
    assert list(whole.ids) == sorted(set(whole.ids))
    assert len(whole.ids) == reader.open(db, tables(db)).records == whole.total_rows
    assert list(whole.terms) == list(reader.vocabulary(db) or ())
    names = sum(term.startswith(b"\0") for term in whole.terms)  # what tokenizers make begins otherwise
    assert int(whole.lengths.sum()) == whole.total_tokens == len(whole.rows) - whole.starts[names]
    for text in QUERIES:
        terms = sorted({term for phrase in reader.phrases(Query(text)) for term in phrase})
        some = reader.postings(db, terms)
        assert some is not None
        assert set(some.terms) == set(whole.terms) & set(terms)
        found = {one.id for one in reader.ranked(db, Query(text, limit=1000), "any")}
        assert set(some.ids) == found
        locators = {one.id: one.row for one in reader.ranked(db, Query(text, limit=1000), "any")}
        assert dict(zip(some.ids, some.locators.tolist(), strict=True)) == locators


@each_reader
@pytest.mark.parametrize("text", ["zebra", "get_zebra", "getZebra", "Get Zebra!"])
def test_the_term_of_a_name_stands_where_the_tier_symbol_finds_it_as_often_as_its_rank(
    reader: Reader, example: MakeExample, text: str
) -> None:
    code = {"a.py": "def get_zebra():\n    return 1\n", "b.py": "from a import get_zebra\n\nget_zebra()\n"}
    db = example({**code, "a.md": "# Zebra\n\nA zebra."})
    terms = reader.names(Query(text))
    if not terms:
        assert "symbol" not in reader.tiers(Query(text))
        return
    found = reader.postings(db, terms)
    assert found is not None
    counts = {found.ids[row]: int((found.rows == row).sum()) for row in range(len(found.ids))}
    assert counts == {one.id: -one.rank for one in reader.ranked(db, Query(text, limit=1000), "symbol")}


@each_reader
def test_texts_hold_what_grep_finds_and_come_in_id_order(reader: Reader, db: StoreConnection) -> None:
    texts = list(reader.texts(db))
    assert [record_id for record_id, _ in texts] == sorted({record_id for record_id, _ in texts})
    for pattern in (Pattern("ZEBRA", limit=100), Pattern("Blue.*whale", is_regex=True, limit=100)):
        needles = reader.needles(pattern)
        holding = {record_id for record_id, text in texts if all(needle in text for needle in needles)}
        found = reader.grep(db, pattern, Budget.lasting(30))
        assert {match.id for match in found.matches} <= holding
        assert found.matches


@each_reader
def test_grep_among_some_finds_the_same_in_them(reader: Reader, db: StoreConnection) -> None:
    whole = reader.grep(db, Pattern("zebra", limit=100), Budget.lasting(30)).matches
    ids = [match.id for match in whole]
    for among in ((), ids[:1], ids[::-2], [*ids, "no such id"]):
        pattern = Pattern("zebra", limit=100, among=tuple(among))
        found = reader.grep(db, pattern, Budget.lasting(30))
        assert list(found.matches) == [match for match in whole if match.id in among]


@each_reader
def test_a_path_matcher_passes_the_documents_that_the_filter_does(
    reader: Reader, db: StoreConnection
) -> None:
    assert reader.path_matcher(()) is None
    query = Query("zebra", limit=1000)
    every = reader.hits(db, query, reader.ranked(db, query, "any"))
    for within in (("first.md",), ("*.md",), ("[fs]*", "nothing"), ("nothing",)):
        matches = reader.path_matcher(within)
        assert matches is not None
        ranked = reader.ranked(db, Query("zebra", within, limit=1000), "any")
        assert {one.id for one in ranked} == {hit.id for hit in every if matches(hit.doc)}
    with pytest.raises(RequestError) as caught:
        reader.path_matcher(("",))
    assert caught.value.code == "invalid_params"
