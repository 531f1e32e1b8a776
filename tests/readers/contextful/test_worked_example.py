"""The worked example of `layout.md` §13, read where it lies: every list of files that is recorded there."""

from __future__ import annotations

from pathlib import Path

import pytest

from collated_readers.contextful.instants import parse_bound
from collated_readers.contextful.listing import files_of
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import INJECTED, Bounds, ContextStore, Template

SNAPSHOT = "snapshot-01894320000000000000"
PART = "part-00000.parquet"


@pytest.fixture(scope="module")
def store(worked_example: Path) -> ContextStore:
    return load_store(worked_example)


def files(store: ContextStore, table: str, as_of: str | None = None) -> list[str]:
    """Return a table's files, without what they begin with and end in."""
    bounds = Bounds(as_of=parse_bound(as_of) if as_of else None)
    found = files_of(store.root, store.tables[table], bounds).files
    return [file.removeprefix(f"tables/{table}/data/").removesuffix(f"/{PART}") for file in found]


@pytest.mark.rule("declaration-set", "reserved-relation")
def test_the_tables_are_those_on_disk_and_those_declared(store: ContextStore) -> None:
    on_disk = ["events", "hollow", "kb/articles", "notes", "orders", "rates", "state"]
    assert [name for name, table in store.tables.items() if not table.is_quiet] == on_disk
    assert [name for name, table in store.tables.items() if table.is_quiet] == ["feed_sync_items", "quiet"]
    assert not [table for table in store.tables.values() if table.fault or table.declared.withheld]


@pytest.mark.parametrize(
    ("table", "as_of", "expected"),
    [
        ("events", None, ["runs/r1/ingest-a", "runs/r1/ingest-b", "runs/r2/ingest-a"]),
        ("feed_sync_items", None, []),
        ("hollow", None, []),
        ("kb/articles", None, ["snapshots/snapshot-01893542400000000000"]),
        (
            "notes",
            None,
            [
                "runs/run-0003/ingest-b",
                "runs/run-0004/ingest-b",
                "runs/run-0007/ingest-a",
                f"snapshots/{SNAPSHOT}",
            ],
        ),
        ("notes", "2030-01-10T03:00:00Z", ["runs/run-0001/ingest-a"]),
        ("notes", "2030-01-11T12:00:00Z", [f"snapshots/{SNAPSHOT}"]),
        ("notes", "2030-01-11", [f"snapshots/{SNAPSHOT}"]),
        (
            "orders",
            None,
            [
                f"snapshots/snapshot-01893542400000000000/tenant={value}"
                for value in ("__HIVE_DEFAULT_PARTITION__", "acme", "glo%20bex%2F1")
            ],
        ),
        ("quiet", None, []),
        ("rates", None, ["runs/run-0001/ingest-a"]),
        ("state", None, ["runs/run-0002/ingest-a"]),
    ],
)
def test_every_list_of_files_is_the_recorded_one(
    store: ContextStore, table: str, as_of: str | None, expected: list[str]
) -> None:
    assert files(store, table, as_of) == expected


@pytest.mark.rule("quiet-table")
def test_a_quiet_table_has_its_declared_columns_and_the_injected_ones(store: ContextStore) -> None:
    names = [column.name for column in store.tables["quiet"].columns]
    assert names == ["source_run", "observed_at", "n", *INJECTED]


def test_a_landed_table_has_the_columns_of_its_schema(store: ContextStore) -> None:
    columns = {column.name: column for column in store.tables["kb/articles"].columns}
    assert columns["embedding"].type == "FLOAT[3]"
    assert (columns["meta"].is_json, columns["meta"].is_text) == (True, False)
    assert columns["body"].is_text
    assert store.tables["notes"].columns[-1].name == "lang_hint"


@pytest.mark.rule("ledger-relation")
def test_the_ledger_of_a_table_is_found(store: ContextStore) -> None:
    assert store.tables["notes"].ledger == ("tables/notes/requests/run-0001.ingest-a.parquet",)


def test_sidecars_are_named_by_the_snapshot(store: ContextStore) -> None:
    text, vector = store.tables["kb/articles"].chain[0].indexes
    assert (text.kind, text.column, text.tokenizer, text.term_count) == ("fulltext", "body", "unicode", 15)
    assert (vector.kind, vector.model, vector.dim, vector.row_count) == ("vector", "stub", 3, 3)
    assert vector.path == "indexes/vec-embedding-stub/zone=all"


def test_what_is_declared_is_known(store: ContextStore) -> None:
    notes = store.tables["notes"].declared
    assert (notes.primary_key, notes.order_by) == (("note_id",), "updated_at")
    assert (notes.retrieve_text, notes.content_hash_column) == (("title", "body"), "content_hash")
    assert (notes.limits.max_rows, notes.limits.max_duration_ms) == (50, 5000)
    assert notes.limits.max_response_bytes is None
    rates = store.tables["rates"].declared.valid_time
    assert rates is not None
    assert (rates.since, rates.until) == ("from_ts", "to_ts")
    assert store.templates == (
        Template(
            "notes_for",
            "SELECT note_id, title FROM notes WHERE note_id = ?",
            (("note_id", "string"),),
            5,
        ),
    )
    assert store.project == "research"
