"""Search by vectors: as the real program stored them, and as an oracle has it."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from collated_readers import Budget, Hit, Query, Ranked
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.codebase_index.nearest import nearest
from collated_readers.codebase_index.places import every_place
from collated_readers.codebase_index.stored import Batch, cached, shadowed
from collated_readers.codebase_index.vectors import fused_of, model_of
from collated_readers.opening import StoreConnection, ask, tables
from collated_readers.single import search

CodeStore = Callable[[str], StoreConnection]
MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
WriteVectors = Callable[..., None]
Vectors = Mapping[int, Sequence[float]]

READER = CodebaseIndex()
WITH_SHADOWS = "schema_versions/typer_v1.2.1_vec64.sqlite"
WITH_CACHE = "schema_versions/typer_v4_vec64_forced.sqlite"
MODEL = "external:hash64"
QUERY = Query("get params from function", limit=10, is_hybrid=True)


def by_row(batches: Iterator[Batch]) -> dict[int, tuple[float, ...]]:
    return {
        int(row): tuple(vector.tolist())
        for batch in batches
        for row, vector in zip(batch.rows, batch.vectors, strict=True)
    }


def always(*vector: float) -> Callable[[str, str], Sequence[float]]:
    """Return what gives every text this vector."""
    return lambda model, text: vector


def in_order(db: sqlite3.Connection, vectors: Vectors, wanted: Sequence[float]) -> list[str]:
    """Return the ids of all chunks that have a vector, nearest first."""
    far = [
        (sum((x - y) ** 2 for x, y in zip(vectors[place.row], wanted, strict=True)), place.id)
        for place in every_place(db)
        if place.row in vectors
    ]
    return [record_id for _, record_id in sorted(far)]


# ---------------------------------------------------------------- stores of the real program


def test_both_ways_of_reading_give_the_same_vectors(code_store: CodeStore) -> None:
    db = code_store(WITH_CACHE)
    shadows, cache = by_row(shadowed(db)), by_row(cached(db, MODEL))
    assert len(shadows) == 722
    # In the copy of the store one text of README.md was changed after the program had embedded it.
    (changed,) = shadows.keys() - cache.keys()
    assert db.execute("SELECT path FROM files WHERE id = 1").fetchone() == ("README.md",)
    assert changed == 1
    assert {row: shadows[row] for row in cache} == cache
    assert all(len(vector) == 64 for vector in shadows.values())


@pytest.mark.parametrize("name", [WITH_SHADOWS, WITH_CACHE])
def test_the_nearest_are_those_of_brute_force(code_store: CodeStore, name: str) -> None:
    db = code_store(name)
    assert READER.open(db, tables(db)).model == model_of(db) == MODEL
    vectors, places = by_row(shadowed(db)), every_place(db)
    for row in range(1, 722, 37):
        far = {place.row: math.dist(vectors[place.row], vectors[row]) for place in places}
        for depth in (1, 20, 200, 1000):
            found = nearest(db, shadowed(db), vectors[row], depth)
            assert len({place.id for place in found}) == min(depth, 722)
            # Vectors that differ may be equally far but for rounding.
            distances = [far[place.row] for place in found]
            assert distances == pytest.approx(sorted(far.values())[:depth])


@pytest.mark.parametrize("name", [WITH_SHADOWS, WITH_CACHE])
def test_a_hybrid_answer_has_what_words_and_what_vectors_find(code_store: CodeStore, name: str) -> None:
    db = code_store(name)
    vector = by_row(shadowed(db))[300]
    (place,) = [place for place in every_place(db) if place.row == 300]

    def embed(model: str, text: str) -> Sequence[float]:
        assert (model, text) == (MODEL, QUERY.text)
        return vector

    answer = ask(db, lambda db: search(READER, db, QUERY, embed), Budget.lasting(30))

    assert (answer.mode, answer.hint, len(answer.hits)) == ("hybrid", None, QUERY.limit)
    assert {hit.tier for hit in answer.hits} >= {"dense", "symbol"}
    first = {hit.id: hit for hit in answer.hits}[place.id]
    assert (first.doc, first.tier, first.score) == (place.path, "dense", round(100 / 61, 2))
    assert (first.line_start, first.line_end) == (place.line_start, place.line_end)


def test_a_store_without_vectors_has_no_model(code_store: CodeStore) -> None:
    db = code_store("typer/index.sqlite")
    assert READER.open(db, tables(db)).model is None
    assert READER.fused(db, QUERY, always(1.0)) is None


def test_a_query_without_words_is_not_embedded(code_store: CodeStore) -> None:
    def embed(model: str, text: str) -> Sequence[float]:
        raise AssertionError

    assert READER.fused(code_store(WITH_SHADOWS), Query("***", is_hybrid=True), embed) == []


# ---------------------------------------------------------------- an oracle

NUMBERS = st.integers(-2, 2).map(float)  # so that all sums are exact, and many distances equal
VECTORS = st.tuples(NUMBERS, NUMBERS)


def expected_of(
    db: sqlite3.Connection, vectors: Vectors, words: Sequence[Ranked], query: Query, wanted: Sequence[float]
) -> list[tuple[str, float]]:
    """Return ids and ranks as the documents say, step by step."""
    places = {place.id: place for place in every_place(db)}
    lists = [[one.id for one in words], in_order(db, vectors, wanted)[: max(20, 4 * query.limit)]]
    sums: dict[str, list[float]] = {}
    for place, each in enumerate(lists):
        for position, record_id in enumerate(each, start=1):
            if not place or not query.within or places[record_id].path in query.within:
                sums.setdefault(record_id, []).append(1.0 / (60 + position))
    best: list[tuple[str, float]] = []
    for record_id in sorted(sums, key=lambda each: (-sum(sums[each]), each))[:50]:
        mine = places[record_id]
        lines = set(range(mine.line_start, mine.line_end + 1))
        others = [places[each] for each, _ in best if places[each].path == mine.path]
        if all(lines.isdisjoint(range(one.line_start, one.line_end + 1)) for one in others):
            best.append((record_id, -sum(sums[record_id])))
    return best[: query.limit]


class Case(Struct, frozen=True):
    """Chunks by path, first line, further lines and vector; what is asked, and what words find."""

    chunks: list[tuple[str, int, int, tuple[float, float] | None]]
    picks: list[int]
    query: Query
    wanted: tuple[float, float]
    size: int
    is_cached: bool


CASES = st.builds(
    Case,
    st.lists(
        st.tuples(
            st.sampled_from(["a.py", "b/c.py"]), st.integers(1, 9), st.integers(0, 3), st.none() | VECTORS
        ),
        max_size=40,
    ),
    st.lists(st.integers(0, 39), max_size=8, unique=True),
    st.builds(Query, st.just("text"), st.sampled_from([(), ("a.py",)]), st.integers(1, 12), st.just(True)),
    VECTORS,
    st.integers(1, 20),
    st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=CASES)
def test_it_is_the_answer_of_an_oracle(
    small_store: Callable[[], Any], write_vectors: WriteVectors, case: Case
) -> None:
    store = small_store()
    files = {path: store.file(path) for path in ("a.py", "b/c.py")}
    rows = [
        (store.chunk(files[path], (start, start + more), f"text {number}"), vector)
        for number, (path, start, more, vector) in enumerate(case.chunks)
    ]
    vectors = {row: vector for row, vector in rows if vector is not None}
    gone = {1_000: (0.0, 0.0), 1_001: case.wanted}  # vectors of chunks that an update took away
    write_vectors(store.db, {**vectors, **gone}, "any", size=case.size)
    if case.is_cached:
        store.db.execute("DROP TABLE vec_chunks_chunks")
        assert by_row(cached(store.db, "any")) == vectors
    else:
        assert by_row(shadowed(store.db)) == {**vectors, **gone}
    places = every_place(store.db)
    words = [
        Ranked(places[pick].id, "any", -1.0, places[pick].row)
        for pick in case.picks
        if pick < len(places) and (not case.query.within or places[pick].path in case.query.within)
    ]

    found = fused_of(store.db, case.query, words, always(*case.wanted))

    if case.is_cached and not vectors:
        assert found is None
        return
    assert found is not None
    expected = expected_of(store.db, vectors, words, case.query, case.wanted)
    assert [(one.id, one.rank) for one in found] == expected
    located = {place.id: place.row for place in places}
    tiers = {one.id: one.tier for one in words}
    assert all((one.row, one.tier) == (located[one.id], tiers.get(one.id, "dense")) for one in found)


# ---------------------------------------------------------------- what is shown


def _zebras(model: str, texts: list[str]) -> list[list[float]]:
    return [[0.0, float("zebra" in each)] for each in texts]


def test_what_only_vectors_find_is_shown_from_its_beginning_without_secrets(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path
) -> None:
    text = "password = 'hunter2hunter2hunter2'\n\n" + "An  apple\tand a pear. " * 20
    path = make_code_store(
        tmp_path / "store.sqlite",
        {"a.md": text, "b.md": "A zebra.\n"},
        embed_model="any",
        embed_fn=_zebras,
    )
    db = open_at(path)
    query = Query("zebra", is_hybrid=True)

    hits = ask(db, lambda db: search(READER, db, query, always(0.0, 1.0)).hits, Budget.lasting(30))

    by_doc: dict[str, Hit] = {hit.doc: hit for hit in hits}
    assert [hit.doc for hit in hits] == ["b.md", "a.md"]
    assert by_doc["b.md"].tier == "any"
    assert by_doc["b.md"].score == round(200 / 61, 2)
    shown = by_doc["a.md"].snippet
    assert by_doc["a.md"].tier == "dense"
    assert "hunter2" not in shown
    assert shown.startswith("password = ")
    assert "An apple and a pear." in shown
    assert len(shown) == 161
    assert shown.endswith("…")


def test_vectors_are_part_of_what_a_store_is(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path, write_vectors: WriteVectors
) -> None:
    path = make_code_store(tmp_path / "store.sqlite", {"a.md": "A zebra.\n"})
    plain = READER.open(open_at(path), tables(open_at(path)))
    with closing(sqlite3.connect(path)) as db:
        write_vectors(db, {1: [1.0]}, "any")
        db.commit()
    facts = READER.open(open_at(path), tables(open_at(path)))
    assert (plain.model, facts.model) == (None, "any")
    assert facts.identity != plain.identity
