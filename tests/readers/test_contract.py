"""Every promise of `Reader`, tried on every reader with a store of its format."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Mapping
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
    Examiner,
    Pattern,
    Query,
    Ranked,
    Reader,
    RequestError,
    StoreError,
)
from collated_readers.opening import StoreConnection, ask, open_store, tables
from collated_readers.registry import READERS, identify
from collated_readers.single import lexical, search

MakeStore = Callable[..., Path]
Makers = Callable[[str], MakeStore]
OpenAt = Callable[[Path], StoreConnection]

QUERIES = ("zebra", "blue zebra", "zebra blue whale", "the", "a zebra in the garden", "nothing-has-this", "")
DOCUMENTS = {
    f"{name}.md": "\n\n".join(
        [
            f"# {name}",
            *(f"## Part {n}\n\nThe blue zebra and a whale, part {n % 4} of {name}." for n in range(8)),
        ]
    )
    for name in ("first", "second", "third")
}
DOCUMENTS["copy.md"] = DOCUMENTS["second.md"]


Documents = Mapping[str, str]


def _contextpull(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_store")(path, documents, min_chars=1, rollback=True)


def _embedded_contextpull(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_store")(path, documents, rollback=True, embed_model="openai:any", embed_fn=_embed_all)


def _embed_all(model: str, texts: list[str]) -> list[list[float]]:
    return [[1.0, 0.0] for _ in texts]


def _codebase_index(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_code_store")(path, documents)


def _embedded_codebase_index(path: Path, make: Makers, documents: Documents) -> Path:
    return make("make_code_store")(path, documents, embed_model="openai:any", embed_fn=_embed_all)


def _book_agent(path: Path, make: Makers, documents: Documents) -> Path:
    manifest = {
        "version": "book-agent-explicit-v1",
        "model": "any",
        "dimensions": 2,
        "embedding_format": "json",
        "normalization": "l2",
        "metric": "dot",
        "sqlite_schema": {
            "table": "passages",
            "id": "id",
            "text": "body",
            "vector": "vector",
            "source_columns": {"path": "doc"},
        },
    }
    path.with_suffix(".manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    passages = [
        (f"{doc}#{n}", text, doc) for doc in documents for n, text in enumerate(documents[doc].split("\n\n"))
    ]
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE passages (id TEXT PRIMARY KEY, body TEXT, vector TEXT, doc TEXT)")
        made.executemany("INSERT INTO passages VALUES (?, ?, '[0.6, 0.8]', ?)", passages)
        made.commit()
    return path


# A new format is tried by everything below once it has a line here.
Example = Callable[[Path, Makers, Documents], Path]
EXAMPLES: dict[str, Example] = {
    "contextpull": _contextpull,
    "codebase-index": _codebase_index,
    "book-agent": _book_agent,
}
WITH_VECTORS: dict[str, Example] = {
    "contextpull": _embedded_contextpull,
    "codebase-index": _embedded_codebase_index,
    "book-agent": _book_agent,
}
"""Stores whose vectors have two numbers."""

each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.format))


def test_every_format_is_tried_here() -> None:
    assert sorted(reader.format for reader in READERS) == sorted(EXAMPLES)


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Makers:
    """`make("make_store")` is the fixture of that name: a format's own writer."""
    return request.getfixturevalue


@pytest.fixture
def db(reader: Reader, tmp_path: Path, make: Makers, open_at: OpenAt) -> StoreConnection:
    return _examined(reader, open_at(EXAMPLES[reader.format](tmp_path / "store.sqlite", make, DOCUMENTS)))


def _examined(reader: Reader, db: StoreConnection) -> StoreConnection:
    """Have done what the daemon does in the background, once a store is open."""
    if isinstance(reader, Examiner):
        budget = Budget.lasting(30)
        ask(db, lambda db: reader.examine(db, None, budget), budget)
    return db


def test_a_database_that_no_reader_knows_has_an_unknown_format(tmp_path: Path, open_at: OpenAt) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE meta (key TEXT, value TEXT)")
    made.close()
    with pytest.raises(StoreError) as caught:
        ask(open_at(path), identify, Budget.lasting(30))
    assert caught.value.code == "unknown_format"


@each_reader
def test_a_reader_names_itself_and_what_it_can_do(reader: Reader) -> None:
    assert reader.format == reader.format.lower()
    assert reader.versions
    assert reader.capabilities >= {"search", "read"}


@each_reader
def test_only_the_right_reader_recognises_a_store(reader: Reader, db: StoreConnection) -> None:
    names = tables(db)
    assert [other.format for other in READERS if other.recognises(db, names)] == [reader.format]
    found, facts = ask(db, identify, Budget.lasting(30))
    assert found is reader
    assert facts.schema_version
    assert facts.documents > 0
    assert facts.records >= facts.documents


@each_reader
def test_facts_are_the_same_until_the_store_changes(
    reader: Reader, db: StoreConnection, tmp_path: Path, make: Makers, open_at: OpenAt
) -> None:
    first = reader.open(db, tables(db))
    assert reader.open(db, tables(db)) == first
    example = EXAMPLES[reader.format]
    other = open_at(example(tmp_path / "other.sqlite", make, {"a.md": "# Other\n\nA zebra.\n"}))
    assert reader.open(other, tables(other)).identity != first.identity


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


# --------------------------------------------------------------------------- the index, without the store


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
    reader: Reader, tmp_path: Path, make: Makers, open_at: OpenAt, text: str
) -> None:
    code = {"a.py": "def get_zebra():\n    return 1\n", "b.py": "from a import get_zebra\n\nget_zebra()\n"}
    db = open_at(EXAMPLES[reader.format](tmp_path / "store.sqlite", make, {**DOCUMENTS, **code}))
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


@each_reader
def test_every_hit_can_be_read_and_an_unknown_id_is_the_requests_fault(
    reader: Reader, db: StoreConnection
) -> None:
    for one in lexical(reader, db, Query("zebra", limit=50)):
        reading = reader.read(db, one.id, 1)
        assert reading.record.id == one.id
        assert one.id not in {record.id for record in reading.context}
        assert reader.neighbours(db, one.id, 0, 0).records == (reading.record,)
    for ask_for in (
        lambda: reader.read(db, "no such id", 0),
        lambda: reader.neighbours(db, "no such id", 1, 1),
    ):
        with pytest.raises(RequestError) as caught:
            ask_for()
        assert caught.value.code == "unknown_id"
        assert caught.value.suggestion


@each_reader
def test_grep_comes_in_id_order_and_says_when_there_is_more(reader: Reader, db: StoreConnection) -> None:
    whole = reader.grep(db, Pattern("ZEBRA", limit=100), Budget.lasting(30))
    assert not whole.is_truncated
    ids = [match.id for match in whole.matches]
    assert ids == sorted(ids)
    assert len(ids) > 3
    for limit in (1, 2, len(ids) - 1):
        part = reader.grep(db, Pattern("zebra", limit=limit), Budget.lasting(30))
        assert (part.matches, part.is_truncated) == (whole.matches[:limit], True)
    assert not reader.grep(db, Pattern("zebra", limit=len(ids)), Budget.lasting(30)).is_truncated


@each_reader
@pytest.mark.parametrize("text", ["", "x" * 201])
def test_a_pattern_has_1_to_200_characters(reader: Reader, db: StoreConnection, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        reader.grep(db, Pattern(text), Budget.lasting(30))
    assert caught.value.code == "pattern_rejected"


@each_reader
def test_grep_ends_with_its_budget(reader: Reader, db: StoreConnection) -> None:
    with pytest.raises(StoreError) as caught:
        reader.grep(db, Pattern("zebra"), Budget.lasting(0))
    assert caught.value.code == "deadline_exceeded"


@each_reader
def test_the_table_of_contents_names_the_documents(reader: Reader, db: StoreConnection) -> None:
    assert "second.md" in reader.index(db, None)
    assert reader.index(db, "") == reader.index(db, None)
    assert "second.md" in reader.index(db, "sec")
    assert "first.md" not in reader.index(db, "sec")


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


@pytest.mark.parametrize("reader", [reader for reader in READERS if reader.format in WITH_VECTORS])
def test_a_store_with_vectors_is_searched_by_words_where_nobody_can_embed(
    reader: Reader, tmp_path: Path, make: Makers, open_at: OpenAt
) -> None:
    path = tmp_path / "store.sqlite"
    db = _examined(reader, open_at(WITH_VECTORS[reader.format](path, make, DOCUMENTS)))
    assert reader.open(db, tables(db)).model
    answer = search(reader, db, Query("zebra", is_hybrid=True))
    assert (answer.mode, answer.hint) == ("lexical", HINT_NO_EMBEDDER)
    answer = search(reader, db, Query("zebra", is_hybrid=True), lambda model, text: [1.0, 0.0])
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
