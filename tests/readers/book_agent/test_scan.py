"""Vector search against plain arithmetic in float64: order, ties, direction, and a bounded memory (S1–B5)."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collated_readers import Budget, RequestError, StoreError
from collated_readers.book_agent import BookAgent, PrebuiltVectorStoreAdapter
from collated_readers.opening import StoreConnection, ask, open_store
from collated_readers.vectors import Similar

pytestmark = pytest.mark.slow

Write = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
Rows = list[tuple[object, object, Sequence[float], object]]

READER = BookAgent()
METRICS = ("dot", "cosine", "l2")
FORMATS = ("json", "float32-le", "float32-be", "float64-le", "float64-be")


def _similar(db: StoreConnection, vector: Sequence[float], limit: int, **options: Any) -> list[Similar]:
    budget = Budget.lasting(30)
    return ask(db, lambda db: READER.similar(db, vector, limit, budget, **options), budget)


# --------------------------------------------------------------------------- the oracle


def _as_stored(encoding: str, vector: Sequence[float]) -> list[float]:
    return [float(np.float32(each)) for each in vector] if "32" in encoding else list(vector)


def _score(metric: str, one: Sequence[float], other: Sequence[float]) -> float:
    """Return the metric with no rounding before the end."""
    left, right = [Fraction(each) for each in one], [Fraction(each) for each in other]
    if metric == "l2":
        return math.sqrt(sum((x - y) ** 2 for x, y in zip(left, right, strict=True)))
    dot = sum(x * y for x, y in zip(left, right, strict=True))
    if metric == "dot":
        return float(dot)
    squares = sum(x * x for x in left) * sum(y * y for y in right)
    return math.copysign(math.sqrt(Fraction(dot * dot) / squares), dot)


def _expected(
    metric: str, vectors: dict[str, list[float]], query: Sequence[float]
) -> list[tuple[str, float]]:
    sign = 1 if metric == "l2" else -1
    scores = {record_id: _score(metric, vector, query) for record_id, vector in vectors.items()}
    return sorted(scores.items(), key=lambda item: (sign * item[1], item[0]))


def _check(found: Sequence[Similar], expected: Sequence[tuple[str, float]], scale: float) -> None:
    """Hold *found* to be *expected*, in another order only where scores are the same but for rounding."""
    exact = dict(expected)
    for near, (_, score) in zip(found, expected, strict=False):
        assert near.score == pytest.approx(exact[near.id], rel=1e-12, abs=1e-13 * scale)
        assert near.score == pytest.approx(score, rel=1e-12, abs=1e-13 * scale)


# Few values, so that many vectors tie; large and small ones, so that squares leave the range of float32.
number = st.sampled_from([0.0, 1.0, -1.0, 0.5, 0.1, 3.0, -2.0, 1e-3, 1e12, 1e-30, -1e-25])
wild = st.floats(-(2.0**60), 2.0**60, allow_nan=False, width=32).filter(lambda x: x == 0 or abs(x) > 1e-30)


@st.composite
def corpora(draw: st.DrawFn, numbers: st.SearchStrategy[float]) -> tuple[list[list[float]], list[float]]:
    """Some vectors and one to search for, none of them zero."""
    dimensions = draw(st.integers(1, 9))
    vector = st.lists(numbers, min_size=dimensions, max_size=dimensions).filter(any)
    kinds = draw(st.lists(vector, min_size=1, max_size=12))
    return draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=40)), draw(vector)


@given(corpus=corpora(number) | corpora(wild), limit=st.integers(1, 45), data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_nearest_are_those_of_plain_arithmetic(
    tmp_path_factory: pytest.TempPathFactory,
    write_explicit: Write,
    corpus: tuple[list[list[float]], list[float]],
    limit: int,
    data: st.DataObject,
) -> None:
    metric, encoding = data.draw(st.sampled_from(METRICS)), data.draw(st.sampled_from(FORMATS))
    vectors, query = corpus
    stored = {f"p{number}": _as_stored(encoding, vector) for number, vector in enumerate(vectors)}
    rows = [(key, key, vector, None) for key, vector in stored.items()]
    folder = tmp_path_factory.mktemp("store")
    path = write_explicit(folder / "store.sqlite", rows, metric=metric, embedding_format=encoding)
    memory = (
        64 * limit + 120 * len(query) + 64 + data.draw(st.integers(0, 4_000))
    )  # one row at a time, or some
    with PrebuiltVectorStoreAdapter(path, path.with_suffix(".manifest.json"), memory_bytes=memory) as adapter:
        hits = adapter.search(query, limit)
    expected = _expected(metric, stored, query)
    assert len(hits) == min(limit, len(rows))
    lengths = [math.hypot(*vector) for vector in stored.values()]
    asked = math.hypot(*query)
    scale = {"dot": max(lengths) * asked, "cosine": 1.0, "l2": max(lengths) + asked}[metric]
    _check([Similar(str(hit.id), "", "", "", hit.score) for hit in hits], expected, scale)
    keys = [(hit.score if metric == "l2" else -hit.score, hit.id) for hit in hits]
    assert keys == sorted(keys)  # ties by id
    for vector in {tuple(vector) for vector in stored.values()}:  # equal vectors have equal scores
        assert len({hit.score for hit in hits if tuple(stored[str(hit.id)]) == vector}) <= 1


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("encoding", ["float32-le", "float64-be"])
def test_many_real_vectors_over_many_batches(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, metric: str, encoding: str
) -> None:
    random = np.random.default_rng(7)
    vectors = random.standard_normal((1_500, 96))
    vectors[random.permutation(1_500)[:600]] = vectors[:600]  # copies, in other batches than their originals
    query = random.standard_normal(96)
    rows = [(f"{number:04}", "text", vector.tolist(), None) for number, vector in enumerate(vectors)]
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows, metric=metric, embedding_format=encoding))
    stored = np.array([_as_stored(encoding, vector) for vector in vectors.tolist()])
    scores = {
        "dot": stored @ query,
        "cosine": stored @ query / np.linalg.norm(stored, axis=1) / np.linalg.norm(query),
        "l2": np.linalg.norm(stored - query, axis=1),
    }[metric]
    whole = _similar(db, query.tolist(), 1_000)
    expected = sorted(scores.tolist(), reverse=metric != "l2")[:1_000]
    assert [near.score for near in whole] == pytest.approx(expected, rel=1e-11, abs=1e-13)
    keys = [(near.score if metric == "l2" else -near.score, near.id) for near in whole]
    assert keys == sorted(keys)
    assert len(set(whole)) == 1_000
    ties = sum(one.score == other.score for one, other in pairwise(whole))
    assert ties > 200
    for limit in (1, 2, 10, 257):
        assert _similar(db, query.tolist(), limit) == whole[:limit]


def test_a_query_is_normalised_where_the_stored_vectors_are(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    db = open_at(write_explicit(tmp_path / "unit.sqlite", rows, normalization="l2"))
    raw = open_at(write_explicit(tmp_path / "raw.sqlite", rows))
    assert [near.score for near in _similar(db, [30.0, 40.0], 2)] == pytest.approx([1.0, 0.8])
    assert [near.score for near in _similar(raw, [30.0, 40.0], 2)] == pytest.approx([50.0, 40.0])
    facts = READER.vectors(db)
    assert (facts.model, facts.dimensions, facts.metric, facts.direction) == (
        "some-model",
        2,
        "dot",
        "higher",
    )


def test_a_hit_is_of_its_place_with_its_text(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    db = open_at(write_explicit(tmp_path / "book.sqlite", rows, metric="l2"))
    first, second, *_ = _similar(db, [1.0, 0.0], 4)
    assert first == Similar("a", "one.pdf", "Stripes", "The blue zebra.", 0.0)
    assert second == Similar("c", "two.pdf", "", "Zebra and whale.", second.score)
    assert second.score == pytest.approx(0.8944271)
    assert _similar(db, [1.0, 0.0], 4)[-1].doc == "book"
    assert READER.vectors(db).direction == "lower"


def test_numbers_as_ids_tie_in_the_order_of_their_digits(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
) -> None:
    schema = "CREATE TABLE passages (identifier PRIMARY KEY, body TEXT, vector, source TEXT)"
    ids: list[object] = [10, 9, "9a", 2.5, b"\x01"]
    rows = [(each, "text", [1.0], None) for each in ids]
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows, schema=schema))
    assert [near.id for near in _similar(db, [1.0], 9)] == ["10", "2.5", "9", "9a", "x'01'"]


@pytest.mark.parametrize("limit", [-1, 0, 1_001, 10**12])
def test_a_limit_is_clamped(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows, limit: int
) -> None:
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows))
    assert len(_similar(db, [1.0, 0.0], limit)) == (1 if limit < 1 else 4)


QUERIES: list[Any] = [
    *([], [1.0], [1.0, 2.0, 3.0], [0.0, 0.0], [0.0, -0.0], [math.nan, 1.0], [math.inf, 1.0]),
    *([10**400, 1.0], [True, 1.0], ["1", 1.0], [None, 1.0], "ab"),
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_vector_that_cannot_be_searched_is_the_requests_fault(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows, query: Any
) -> None:
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows))
    with pytest.raises(RequestError) as caught:
        _similar(db, query, 3)
    assert caught.value.code == "invalid_query_vector"
    if len(query) != 2:
        assert f"{len(query)} dimensions" in caught.value.message
        assert "have 2" in caught.value.message


def test_a_bad_vector_anywhere_fails_the_search_and_is_named(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
) -> None:
    rows = [(f"p{number:03}", "text", [1.0, number], None) for number in range(700)]
    for position in (0, 255, 256, 699):
        name = f"p{position:03}"
        sql = f"UPDATE passages SET vector = x'0000c0ff0000803f' WHERE identifier = '{name}'"  # noqa: S608 - a test's
        db = open_at(write_explicit(tmp_path / f"{position}.sqlite", rows, sql))
        with pytest.raises(StoreError) as caught:
            _similar(db, [1.0, 0.0], 1)
        assert (caught.value.code, name in caught.value.message) == ("invalid_vector", True)


def test_a_score_beyond_all_numbers_is_the_vectors_fault(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
) -> None:
    rows = [("a", "text", [1e308, 1e308], None)]
    path = write_explicit(tmp_path / "store.sqlite", rows, embedding_format="float64-le")
    db = open_at(path)
    assert _similar(db, [1e-300, 0.0], 1)[0].score == pytest.approx(1e8)
    with pytest.raises(StoreError) as caught:
        _similar(db, [1e308, 1e308], 1)
    assert (caught.value.code, "'a'" in caught.value.message) == ("invalid_vector", True)


def test_a_search_ends_with_its_budget(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, rows: Rows
) -> None:
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows))
    with pytest.raises(StoreError) as caught:
        READER.similar(db, [1.0, 0.0], 1, Budget.lasting(0))
    assert caught.value.code == "deadline_exceeded"


# --------------------------------------------------------------------------- memory


def test_a_search_that_cannot_fit_says_so_before_it_begins(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
) -> None:
    db = open_at(write_explicit(tmp_path / "store.sqlite", [("a", "text", [1.0] * 2_000, None)]))
    assert _similar(db, [1.0] * 2_000, 1, memory_bytes=70_000)
    for limit, memory, kind in ((1, 60_000, "record"), (1_000, 70_000, "retained_evidence")):
        with pytest.raises(StoreError) as caught:
            _similar(db, [1.0] * 2_000, limit, memory_bytes=memory)
        assert caught.value.code == "memory_budget_exceeded"
        assert caught.value.message.startswith(kind)


def test_a_smaller_memory_gives_the_same_answer(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt
) -> None:
    random = np.random.default_rng(3)
    rows = [(f"{n}", "text", random.standard_normal(64).tolist(), None) for n in range(900)]
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows))
    query = random.standard_normal(64).tolist()
    whole = _similar(db, query, 20)
    for memory in (4_000, 20_000, 100_000):
        assert _similar(db, query, 20, memory_bytes=memory) == whole


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("encoding", ["json", "float32-be"])
def test_what_a_search_holds_stays_within_its_memory(
    tmp_path: Path, write_explicit: Write, open_at: OpenAt, metric: str, encoding: str
) -> None:
    random = np.random.default_rng(3)
    rows = [(f"{n}", "x" * 300, random.standard_normal(256).tolist(), None) for n in range(2_000)]
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows, metric=metric, embedding_format=encoding))
    query = random.standard_normal(256).tolist()
    _similar(db, query, 1)  # imports, and what numpy keeps
    memory = 1024 * 1024
    tracemalloc.start()
    try:
        _similar(db, query, 1_000, memory_bytes=memory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * memory  # 2 MB of vectors; the names of 1,000 records are counted by the round number


def test_values_of_any_size_are_not_fetched(tmp_path: Path, write_explicit: Write, open_at: OpenAt) -> None:
    rows = [(f"{n}", "text", [1.0, 2.0], None) for n in range(40)]
    sql = "UPDATE passages SET vector = zeroblob(4000000) WHERE identifier > '1'"
    db = open_at(write_explicit(tmp_path / "store.sqlite", rows, sql))
    tracemalloc.start()
    try:
        with pytest.raises(StoreError) as caught:
            _similar(db, [1.0, 0.0], 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.code == "invalid_vector"
    assert peak < 3_000_000


_IN_A_CHILD = """
import sys
from pathlib import Path
from collated_readers import Budget
from collated_readers.book_agent import BookAgent
from collated_readers.opening import open_store
path, memory = Path(sys.argv[1]), int(sys.argv[2])
def search(budget):
    db = open_store(path, copies=path.parent / "copies", copy_limit_bytes=0, budget=budget)
    return BookAgent().similar(db, [1.0] * 1024, 10, budget, memory)
import numpy
numpy.ones((64, 1024)) @ numpy.ones(1024)
import collated_readers.book_agent.scan
def peak():  # what getrusage says begins with what the parent had
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM"))
before = peak()
assert len(search(Budget.lasting(50))) == 10
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="nobody tells a process's peak")
def test_a_process_grows_by_less_than_the_budget(tmp_path: Path, write_bge: Write) -> None:
    path = write_bge(
        tmp_path / "store.sqlite", texts=[f"text {n}. " for n in range(12_000)]
    )  # 48 MB of vectors
    memory = 16 * 1024 * 1024
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_CHILD, path, str(memory)], capture_output=True, text=True, check=True
    )
    assert 0 < int(done.stdout) < memory


def test_a_store_is_searched_by_many_connections_alike(tmp_path: Path, write_bge: Write) -> None:
    path = write_bge(tmp_path / "store.sqlite", texts=[f"text {n}. " for n in range(300)])
    answers: list[list[Similar]] = []
    for _ in range(3):
        db = open_store(path, copies=tmp_path / "c", copy_limit_bytes=0, budget=Budget.lasting(30))
        answers.append(_similar(db, [1.0] * 1024, 25))
        db.close()
    assert answers[0] == answers[1] == answers[2]
