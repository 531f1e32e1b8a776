"""The format's own interface: records by id, in order, with where they are from (E12–E15, A17, A25)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from collated_readers import StoreError
from collated_readers.book_agent import PrebuiltVectorStoreAdapter

Write = Callable[..., Path]
Adapt = Callable[..., PrebuiltVectorStoreAdapter]
FailureOf = Callable[[Callable[[], object]], tuple[str, str]]
Rows = list[tuple[object, object, Sequence[float], object]]

ANY_ID = "CREATE TABLE passages (identifier PRIMARY KEY, body TEXT, vector, source TEXT)"


class Embedder:
    """Gives one vector, whatever the text."""

    def __init__(self, model: str, vector: list[float]) -> None:
        self.model = model
        self.vector = vector

    def embed(self, text: str) -> list[float]:
        return self.vector


def test_a_store_tells_what_it_is(tmp_path: Path, write_bge: Write, adapt: Adapt) -> None:
    path = write_bge(tmp_path / "store.sqlite", stated={"model": "bge-m3@5617a9f"})
    inspection = adapt(path).inspect()
    assert (inspection.contract, inspection.model) == ("bge-m3-lossless-v1", "BAAI/bge-m3@5617a9f")
    assert (inspection.dimensions, inspection.metric, inspection.direction) == (1024, "dot", "higher")
    assert (inspection.records, inspection.tables) == (4, ("chunks", "metadata"))


def test_an_explicit_store_tells_what_its_manifest_says(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, rows: Rows
) -> None:
    path = write_explicit(tmp_path / "store.sqlite", rows, metric="euclidean", something="else")
    inspection = adapt(path).inspect()
    assert (inspection.contract, inspection.model) == ("book-agent-explicit-v1", "some-model")
    assert (inspection.metric, inspection.direction, inspection.is_normalized) == ("l2", "lower", False)
    assert [warned.code for warned in inspection.warnings] == ["unknown_manifest_fields"]


def test_records_have_their_own_id_their_whole_text_and_their_source(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, rows: Rows
) -> None:
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows[::-1]))
    records = list(adapter.iter_records())
    assert [record.id for record in records] == ["a", "b", "c", "d"]
    assert [record.text for record in records] == [text for _, text, _, _ in rows]
    assert records[0].source == {"path": "one.pdf", "chapter": "Stripes", "page": 1}
    assert adapter.get_record("b") == records[1]
    assert adapter.get_source_metadata("c") == {"path": "two.pdf"}
    assert adapter.get_source_metadata("d") == {}


def test_a_lossless_record_says_offsets_and_hash_and_no_page(
    tmp_path: Path, write_bge: Write, adapt: Adapt
) -> None:
    adapter = adapt(write_bge(tmp_path / "store.sqlite", texts=["naïve ", "zebra"]))
    digest = hashlib.sha256(b"zebra").hexdigest()
    expected = {"char_start": 6, "char_end": 11, "tokens": 9, "text_sha256": digest}
    assert adapter.get_source_metadata(1) == expected


def test_columns_of_the_source_win_over_its_json(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, rows: Rows
) -> None:
    path = write_explicit(
        tmp_path / "store.sqlite",
        rows,
        'ALTER TABLE passages ADD COLUMN "pa""ge" INTEGER',
        "UPDATE passages SET \"pa\"\"ge\" = 7 WHERE identifier IN ('a', 'b')",
        columns={"source_columns": {"page": 'pa"ge', "any name at all": "identifier"}},
    )
    adapter = adapt(path)
    assert adapter.get_source_metadata("a") == {
        "path": "one.pdf",
        "chapter": "Stripes",
        "page": 7,
        "any name at all": "a",
    }
    warned = {each.code: each.message for each in adapter.validate()}
    assert list(warned) == ["source_conflict"]  # 'd' has its id, so no source is missing
    assert "'a'" in warned["source_conflict"]


IDS: list[object] = [1, "1", 2, "10", 10, 1.5, "1.5", b"\x01\xff", "x'01ff'", "", "ü", -3, 1 << 62]


def test_ids_keep_their_storage_class(tmp_path: Path, write_explicit: Write, adapt: Adapt) -> None:
    rows = [(each, f"text {number}", [1.0, number], None) for number, each in enumerate(IDS)]
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows, schema=ANY_ID))
    for number, each in enumerate(IDS):
        record = adapter.get_record(each)  # type: ignore[arg-type]  # they are ids
        assert (type(record.id), record.id, record.text) == (type(each), each, f"text {number}")
    found = [record.id for record in adapter.iter_records()]
    assert sorted(map(repr, found)) == sorted(map(repr, IDS))


@pytest.mark.parametrize("missing", ["A", 1, 1.0, b"a", "no such id", 1 << 80, "\ud800", "a\0"])
def test_an_unknown_id_is_not_found_whatever_the_column_would_take_it_for(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, failure_of: FailureOf, missing: Any
) -> None:
    rows = [(each, "text", [1.0, 2.0], None) for each in ("a", "1", "2")]
    schema = "CREATE TABLE passages (identifier TEXT PRIMARY KEY COLLATE NOCASE, body TEXT, vector, source)"
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows, schema=schema))
    assert failure_of(lambda: adapter.get_record(missing))[0] == "record_not_found"
    assert failure_of(lambda: adapter.get_source_metadata(missing))[0] == "record_not_found"


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE passages (identifier INTEGER PRIMARY KEY, body TEXT, vector, source TEXT)",
        "CREATE TABLE passages (identifier INTEGER PRIMARY KEY, body, vector, source) WITHOUT ROWID",
        "CREATE TABLE passages (identifier INT, body, vector, source, PRIMARY KEY (identifier DESC))",
    ],
)
def test_numbers_as_ids_work_in_every_kind_of_table(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, schema: str
) -> None:
    rows = [(number, f"text {number}", [1.0, number], None) for number in range(600)]
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows, schema=schema))
    assert [record.id for record in adapter.iter_records()] == list(range(600))
    assert [hit.id for hit in adapter.search([0.0, 1.0], 3)] == [599, 598, 597]


def test_a_record_larger_than_the_memory_is_named(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, failure_of: FailureOf, rows: Rows
) -> None:
    rows[2] = ("c", "x" * 70_000, [0.6, 0.8], None)
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows), memory_bytes=65_536)
    for work in (
        lambda: adapter.get_record("c"),
        lambda: list(adapter.iter_records()),
        lambda: adapter.search([0.6, 0.8], 1),
        adapter.validate,
    ):
        code, message = failure_of(work)
        assert code == "memory_budget_exceeded"
        assert message.startswith("record: ")
        assert "'c'" in message
    assert adapter.get_record("a").text == rows[0][1]


def test_the_texts_of_all_hits_together_must_fit_too(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, failure_of: FailureOf
) -> None:
    rows = [(f"p{n}", "x" * 30_000, [1.0, n], None) for n in range(4)]
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows), memory_bytes=65_536)
    assert len(adapter.search([1.0, 0.0], 2)) == 2
    code, message = failure_of(lambda: adapter.search([1.0, 0.0], 3))
    assert (code, message.split(":")[0]) == ("memory_budget_exceeded", "retained_evidence")


def test_a_text_is_searched_with_an_embedder_of_the_same_model(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, failure_of: FailureOf, rows: Rows
) -> None:
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows))
    hits = adapter.search("whales", 2, Embedder("some-model", [0.0, 1.0]))
    assert [(hit.id, hit.score) for hit in hits] == [("b", 1.0), ("c", pytest.approx(0.8))]
    for embedder in (None, Embedder("other-model", [0.0, 1.0])):
        code, message = failure_of(lambda embedder=embedder: adapter.search("whales", 2, embedder))  # type: ignore[misc]
        assert code == "query_model_mismatch"
        assert "some-model" in message
        assert embedder is None or "other-model" in message
    assert (
        failure_of(lambda: adapter.search("x", 2, Embedder("some-model", [1.0])))[0] == "invalid_query_vector"
    )


def test_a_failed_opening_leaves_nothing_open(tmp_path: Path, write_explicit: Write, rows: Rows) -> None:
    path = write_explicit(tmp_path / "store.sqlite", rows, metric="hamming")
    for _ in range(3):
        with pytest.raises(StoreError):
            PrebuiltVectorStoreAdapter(path, path.with_suffix(".manifest.json"))
    path.unlink()


def test_a_manifest_that_cannot_be_read_is_wrong(
    tmp_path: Path, write_bge: Write, failure_of: FailureOf
) -> None:
    path = write_bge(tmp_path / "store.sqlite")
    for manifest in (tmp_path / "missing.json", tmp_path):
        code, _ = failure_of(lambda manifest=manifest: PrebuiltVectorStoreAdapter(path, manifest))  # type: ignore[misc]
        assert code == "invalid_manifest"
