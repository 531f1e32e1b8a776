"""Promises of search, tried on every reader with a store of its format."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from collated_readers import (
    HINT_NO_EMBEDDER,
    HINT_NO_EMBEDDINGS,
    HINT_NO_HITS,
    HINT_NO_WORDS,
    TIERS,
    Budget,
    Query,
    Ranked,
    Reader,
)
from collated_readers.opening import StoreConnection, ask, open_store, tables
from collated_readers.registry import READERS
from collated_readers.single import lexical, search

QUERIES = ("zebra", "blue zebra", "zebra blue whale", "the", "a zebra in the garden", "nothing-has-this", "")
each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.format))


@each_reader
def test_tiers_come_best_first_and_none_without_words(reader: Reader) -> None:
    for text in QUERIES:
        tiers = reader.tiers(Query(text))
        assert [TIERS.index(tier) for tier in tiers] == sorted({TIERS.index(tier) for tier in tiers})
    assert reader.tiers(Query("")) == ()
    assert reader.tiers(Query(" \t--- ")) == ()


@each_reader
@pytest.mark.parametrize("text", QUERIES)
def test_a_tier_is_a_list_in_rank_and_id_order(reader: Reader, db: StoreConnection, text: str) -> None:
    for tier in reader.tiers(Query(text)):
        whole = reader.ranked(db, Query(text, limit=50), tier)
        assert [(one.rank, one.id) for one in whole] == sorted((one.rank, one.id) for one in whole)
        assert len({one.id for one in whole}) == len(whole)
        assert all(math.isfinite(one.rank) and one.tier == tier for one in whole)
        for limit in range(1, 12):
            assert reader.ranked(db, Query(text, limit=limit), tier) == whole[:limit]


@each_reader
@pytest.mark.parametrize("text", QUERIES)
def test_the_answer_for_n_begins_the_answer_for_more(reader: Reader, db: StoreConnection, text: str) -> None:
    whole = search(reader, db, Query(text, limit=50)).hits
    for limit in range(1, 12):
        assert search(reader, db, Query(text, limit=limit)).hits == whole[:limit]


@each_reader
@pytest.mark.parametrize("limit", [-3, 0, 51, 10**9])
def test_limits_are_clamped(reader: Reader, db: StoreConnection, limit: int) -> None:
    nearest = Query("zebra", limit=1 if limit < 1 else 50)
    assert search(reader, db, Query("zebra", limit=limit)) == search(reader, db, nearest)


@each_reader
def test_hits_keep_the_order_they_are_asked_for(reader: Reader, db: StoreConnection) -> None:
    query = Query("blue zebra garden", limit=20)
    ranked = lexical(reader, db, query)
    for chosen in (ranked, ranked[::-1], ranked[3:4], []):
        hits = reader.hits(db, query, chosen)
        assert [(hit.id, hit.tier, hit.score) for hit in hits] == [
            (one.id, one.tier, round(-one.rank, 2)) for one in chosen
        ]
        assert all(hit.doc and hit.kind and hit.snippet for hit in hits)


@each_reader
def test_hits_of_one_text_have_one_digest(reader: Reader, db: StoreConnection) -> None:
    query = Query("zebra", limit=50)
    ranked = lexical(reader, db, query)
    texts = [reader.read(db, one.id, 0).record.text for one in ranked]
    digests = reader.digests(db, ranked)
    assert 1 < len(set(texts)) < len(texts)  # some texts are there twice
    assert all(len(digest) == 16 for digest in digests)
    assert len(set(digests)) == len(set(texts)) == len(set(zip(texts, digests, strict=True)))


@each_reader
def test_a_store_that_is_never_asked_for_vectors_says_why_an_answer_is_lexical(
    reader: Reader, db: StoreConnection
) -> None:
    if reader.open(db, tables(db)).model is not None:  # no store of the format is without
        return
    answer = search(reader, db, Query("zebra", is_hybrid=True), lambda model, text: [1.0])
    assert (answer.mode, answer.hint) == ("lexical", HINT_NO_EMBEDDINGS)
    assert answer.hits == search(reader, db, Query("zebra")).hits
    assert search(reader, db, Query("", is_hybrid=True)).hint == HINT_NO_WORDS
    assert search(reader, db, Query("nothing-has-this", is_hybrid=True)).hint == HINT_NO_HITS


@each_reader
def test_a_store_with_vectors_is_searched_by_words_where_nobody_can_embed(
    reader: Reader, embedded: StoreConnection
) -> None:
    assert reader.open(embedded, tables(embedded)).model
    answer = search(reader, embedded, Query("zebra", is_hybrid=True))
    assert (answer.mode, answer.hint) == ("lexical", HINT_NO_EMBEDDER)
    answer = search(reader, embedded, Query("zebra", is_hybrid=True), lambda model, text: [1.0, 0.0])
    assert (answer.mode, answer.hint) == ("hybrid", None)


@each_reader
def test_one_reader_serves_many_threads(reader: Reader, tmp_path: Path, db: StoreConnection) -> None:
    def all_of(db: StoreConnection) -> list[list[Ranked]]:
        return [lexical(reader, db, Query(text)) for text in QUERIES]

    def work(_: int) -> list[list[Ranked]]:
        budget = Budget.lasting(30)
        with closing(
            open_store(db.path, copies=tmp_path / "copies", copy_limit_bytes=0, budget=budget)
        ) as mine:
            return ask(mine, all_of, budget)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == [all_of(db)] * 16
