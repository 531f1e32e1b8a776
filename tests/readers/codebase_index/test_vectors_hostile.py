"""Vectors in tables made to harm, and those that do not fit: whose fault that is, and what it may cost."""

from __future__ import annotations

import math
import sqlite3
import struct
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collated_readers import Budget, Query, RequestError, StoreError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.codebase_index.nearest import nearest
from collated_readers.codebase_index.stored import Batch, cached, shadowed
from collated_readers.codebase_index.vectors import fused_of, model_of
from collated_readers.opening import StoreConnection, ask
from collated_readers.single import lexical

pytestmark = pytest.mark.slow

CodeStore = Callable[[str], StoreConnection]
MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
WriteVectors = Callable[..., None]

READER = CodebaseIndex()
WITH_SHADOWS = "schema_versions/typer_v1.2.1_vec64.sqlite"


def always(*vector: float) -> Callable[[str, str], Sequence[float]]:
    """Return what gives every text this vector."""
    return lambda model, text: vector


# The table that says which vectors are in use, without them.
NO_SHADOWS = "DROP TABLE vec_chunks_chunks"


def _damaged(model: str, texts: list[str]) -> list[list[float]]:
    return [[math.nan] for _ in texts]


@pytest.fixture
def embedded(small_store: Callable[[], Any], write_vectors: WriteVectors) -> sqlite3.Connection:
    """A store of three chunks with vectors, all in one block of eight."""
    store = small_store()
    file = store.file("a.py")
    rows = [store.chunk(file, (line, line), f"text {line}") for line in (1, 2, 3)]
    write_vectors(store.db, {row: [float(row), 0.5] for row in rows}, "any", size=8)
    db: sqlite3.Connection = store.db
    return db


def fused(db: sqlite3.Connection, *wanted: float) -> list[str] | None:
    found = fused_of(db, Query("text", is_hybrid=True), [], always(*wanted or (2.0, 0.5)))
    return None if found is None else [one.id for one in found]


@pytest.mark.parametrize("statement", ["SELECT 1", NO_SHADOWS])
def test_a_vector_of_another_length_is_the_requests_fault(
    embedded: sqlite3.Connection, statement: str
) -> None:
    embedded.execute(statement)
    assert fused(embedded) == ["a.py:2-2", "a.py:1-1", "a.py:3-3"]
    for wanted in ((1.0,), (1.0, 0.0, 0.0)):
        with pytest.raises(RequestError) as caught:
            fused(embedded, *wanted)
        assert caught.value.code == "query_model_mismatch"
        assert caught.value.message == f"its vectors have 2 numbers, the query's has {len(wanted)}"


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e300])
def test_a_query_that_is_not_finite_is_the_requests_fault(
    embedded: sqlite3.Connection, number: float
) -> None:
    with pytest.raises(RequestError) as caught:
        fused(embedded, number, 0.0)
    assert caught.value.code == "invalid_query_vector"


def blob(*numbers: float) -> str:
    return f"x'{struct.pack(f'<{len(numbers)}f', *numbers).hex()}'"


IN_BLOCK = "UPDATE vec_chunks_vector_chunks00 SET vectors = {}"


IN_CACHE = "UPDATE vec_cache SET embedding = {} WHERE rowid = 2"


NOT_FINITE = [blob(*[0] * 13, number, 0, 0) for number in (math.nan, math.inf, -math.inf)]


WRONG = ["x''", "x'00'", "'text of some length'", "7", "zeroblob(33)"]


@pytest.mark.parametrize(
    ("record", "statements"),
    [
        *(("a.py:2-2", [IN_BLOCK.format(value)]) for value in NOT_FINITE),
        *(("a.py:1-1", [IN_BLOCK.format(value)]) for value in WRONG),
        ("a.py:1-1", ["DELETE FROM vec_chunks_vector_chunks00"]),
        *(("a.py:2-2", [NO_SHADOWS, IN_CACHE.format(value)]) for value in (*WRONG, "zeroblob(40000)")),
        *(("a.py:2-2", [NO_SHADOWS, IN_CACHE.format(value)]) for value in (blob(1), blob(1, 2, 3))),
        *(("a.py:2-2", [NO_SHADOWS, IN_CACHE.format(blob(1, number))]) for number in (math.nan, math.inf)),
    ],
)
def test_a_damaged_vector_is_the_stores_fault_and_named(
    embedded: sqlite3.Connection, record: str, statements: list[str]
) -> None:
    for statement in statements:
        embedded.execute(statement)
    with pytest.raises(StoreError) as caught:
        fused(embedded)
    assert caught.value.code == "invalid_vector"
    assert record in caught.value.message


def test_a_damaged_vector_of_a_chunk_that_is_gone_harms_nobody(embedded: sqlite3.Connection) -> None:
    embedded.execute(IN_BLOCK.format(NOT_FINITE[0]))
    embedded.execute("DELETE FROM chunks WHERE id = 2")
    assert fused(embedded, 0.0, 0.0) == ["a.py:1-1", "a.py:3-3"]


HOSTILE = {
    "no model": ["DELETE FROM vec_meta"],
    "a model that is a number": ["UPDATE vec_meta SET model = x'6162'"],
    "a model of no name": ["UPDATE vec_meta SET model = ''"],
    "a model with too long a name": ["UPDATE vec_meta SET model = hex(zeroblob(1000000))"],
    "a model that is not Unicode": ["UPDATE vec_meta SET model = CAST(x'ff' AS TEXT)"],
    "no table of models": ["DROP TABLE vec_meta"],
    "a view of models": ["DROP TABLE vec_meta", "CREATE VIEW vec_meta AS SELECT 'any' AS model"],
    "a computed model": ["DROP TABLE vec_meta", "CREATE TABLE vec_meta (x, model AS (x || 'y'))"],
    "nothing but names": [NO_SHADOWS, "DROP TABLE vec_cache"],
    "views of vectors": [
        NO_SHADOWS,
        "DROP TABLE vec_cache",
        "CREATE VIEW vec_chunks_chunks AS SELECT 1 chunk_id, 8 size, x'ff' validity, x'00' rowids",
        "CREATE VIEW vec_cache AS SELECT 'any' AS model, '' AS content_sha, x'00' AS embedding",
    ],
    "computed vectors": [
        "DROP TABLE vec_chunks_vector_chunks00",
        "DROP TABLE vec_cache",
        "CREATE TABLE vec_chunks_vector_chunks00 (rowid PRIMARY KEY, vectors AS (zeroblob(64)))",
    ],
    "none in use, none kept": ["UPDATE vec_chunks_chunks SET validity = x'00'", "DELETE FROM vec_cache"],
    "none of that model": ["DELETE FROM vec_chunks_chunks", "UPDATE vec_cache SET model = 'other'"],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_vectors_that_cannot_be_read_are_none(embedded: sqlite3.Connection, name: str) -> None:
    for statement in HOSTILE[name]:
        embedded.execute(statement)
    assert model_of(embedded) is None
    assert fused(embedded) is None


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE vec_chunks_chunks SET validity = x'00'"],
        ["UPDATE vec_chunks_chunks SET validity = 'text'"],
        ["DROP TABLE vec_chunks_vector_chunks00"],
        [NO_SHADOWS, "CREATE TABLE vec_chunks_chunks (chunk_id, size, validity)"],
    ],
)
def test_without_shadow_tables_in_use_what_is_kept_by_text_is_taken(
    embedded: sqlite3.Connection, statements: list[str]
) -> None:
    for statement in statements:
        embedded.execute(statement)
    assert model_of(embedded) == "any"
    assert fused(embedded) == ["a.py:2-2", "a.py:1-1", "a.py:3-3"]


@pytest.mark.parametrize(
    "change",
    [
        *(
            f"size = {value}"
            for value in ("0", "-1", "9", "7", "9223372036854775807", "x'08'", "'many'", "1.5")
        ),
        *(f"rowids = {value}" for value in ("x''", "x'00'", "7", "'text'", "zeroblob(72)")),
    ],
)
def test_vectors_that_are_nobodys_are_damage(embedded: sqlite3.Connection, change: str) -> None:
    embedded.execute(f"UPDATE vec_chunks_chunks SET {change}")  # noqa: S608 - our own words
    with pytest.raises(StoreError) as caught:
        fused(embedded)
    assert caught.value.code == "damaged"


COLUMNS = {
    "vec_meta": ("model", "dim", "built_at"),
    "vec_chunks_chunks": ("chunk_id", "size", "validity", "rowids"),
    "vec_chunks_vector_chunks00": ("rowid", "vectors"),
    "vec_cache": ("model", "content_sha", "embedding"),
    "chunks": ("content", "file_id", "line_start", "line_end"),
}


VALUES = ("x'00'", "1.5", "''", "'any'", "-1", "9223372036854775807", "CAST(x'ff' AS TEXT)", "NULL")


@pytest.mark.parametrize("statement", ["SELECT 1", NO_SHADOWS])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("table", "column"), [(table, each) for table in COLUMNS for each in COLUMNS[table]])
def test_any_value_anywhere_is_an_answer_or_damage(
    embedded: sqlite3.Connection, table: str, column: str, value: str, statement: str
) -> None:
    with suppress(sqlite3.IntegrityError):  # a value that the table itself does not take
        embedded.execute(f"UPDATE {table} SET {column} = {value} WHERE _rowid_ = 1")  # noqa: S608 - our own words
    embedded.execute(statement)
    try:
        assert len(fused(embedded) or ()) <= 3
    except StoreError as error:
        assert error.code in {"invalid_vector", "damaged"}
    except sqlite3.OperationalError as error:  # which `ask` translates
        assert "decode" in str(error)


def test_a_chunk_that_is_named_twice_is_found_once(embedded: sqlite3.Connection) -> None:
    ids = struct.pack("<8q", *[0] * 5, 1, 2, 2)
    embedded.execute("UPDATE vec_chunks_chunks SET rowids = ?", (ids,))
    assert sorted(fused(embedded) or ()) == ["a.py:1-1", "a.py:2-2"]


def test_it_ends_with_its_budget(code_store: CodeStore) -> None:
    budget = Budget.lasting(30)

    def batches() -> Iterator[Batch]:
        yield Batch(np.array([1]), np.zeros((1, 2), np.float32))
        budget.cancelled = True
        yield Batch(np.array([2]), np.zeros((1, 2), np.float32))

    with pytest.raises(StoreError) as caught:
        ask(code_store(WITH_SHADOWS), lambda db: nearest(db, batches(), [0.0, 0.0], 20), budget)
    assert caught.value.code == "deadline_exceeded"


@pytest.mark.parametrize("is_cached", [False, True])
def test_not_all_vectors_are_in_memory_at_a_time(
    small_store: Callable[[], Any], write_vectors: WriteVectors, *, is_cached: bool
) -> None:
    store = small_store()
    file, dimensions, count = store.file("a.py"), 512, 6_000
    rows = [store.chunk(file, (line, line), f"text {line}") for line in range(1, count + 1)]
    write_vectors(store.db, {row: [float(row), *[0.0] * (dimensions - 1)] for row in rows}, "any")
    if is_cached:
        store.db.execute(NO_SHADOWS)
    wanted = [1.0] + [0.0] * (dimensions - 1)
    batches = cached(store.db, "any") if is_cached else shadowed(store.db)
    tracemalloc.start()
    try:
        found = nearest(store.db, batches, wanted, 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [place.id for place in found] == [f"a.py:{line}-{line}" for line in range(1, 21)]
    assert peak < count * dimensions * 4 / 2


def test_words_alone_are_answered_whatever_the_vectors(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path
) -> None:
    path = make_code_store(
        tmp_path / "store.sqlite", {"a.md": "A zebra.\n"}, embed_model="any", embed_fn=_damaged
    )
    db = open_at(path)
    assert [one.tier for one in lexical(READER, db, Query("zebra"))] == ["any"]
    with pytest.raises(StoreError) as caught:
        READER.fused(db, Query("zebra", is_hybrid=True), always(1.0))
    assert (caught.value.code, "a.md:1-1" in caught.value.message) == ("invalid_vector", True)
