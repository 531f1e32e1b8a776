"""Manifests that are wrong in every way: each blocks its own table, and nothing else happens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated_readers.contextful.listing import file_list
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bounds, ContextStore, Table

RUN = "data/runs/run-1/ingest-a/_manifest.json"


def table_of(store: Any, name: str = "t") -> Table:
    """Return a table as it is loaded; the other one must be as it was."""
    loaded = load_store(store.root)
    other = loaded.tables["u"]
    assert (other.fault, len(other.runs), len(other.chain)) == (None, 2, 1)
    return loaded.tables[name]


def change(path: Path, **fields: Any) -> None:
    """Put *fields* into the JSON at *path*; None takes one away."""
    whole = {**json.loads(path.read_bytes()), **fields}
    path.write_text(json.dumps({key: value for key, value in whole.items() if value is not None}))


def code(table: Table) -> str | None:
    """Return what reads of *table* are refused with."""
    return table.fault.code if table.fault else None


WRONG: list[tuple[str, dict[str, Any]]] = [
    (RUN, {"run_id": "run-2"}),
    (RUN, {"table": "u"}),
    (RUN, {"node_id": "ingest-b"}),
    (RUN, {"committed_at": "2030-01-03 00:00:00Z"}),
    (RUN, {"committed_at": None}),
    (RUN, {"committed_at": 7}),
    (RUN, {"parts": {}}),
    (RUN, {"parts": [{}]}),
    (RUN, {"parts": [{"name": 1}]}),
    (RUN, {"fence": "1"}),
    (RUN, {"logged": "yes"}),
    (RUN, {"commit_seq": 2**63}),
    (RUN, {"pipeline_id": "../feed"}),
    *(
        (RUN, {"parts": [{"name": name}]})
        for name in (
            "",
            ".",
            "..",
            "../part-00000.parquet",
            "/part-00000.parquet",
            "x/../part-00000.parquet",
            "a=b/part-00000.parquet",
            "part-*.parquet",
            "part-0000[0].parquet",
            "part-00000.parquet\0",
            "part-00000.PARQUET",
            "part.parquet/",
            "sp ace.parquet",
        )
    ),
    (RUN, {"parts": [{"name": "part-00000.parquet"}] * 2}),
    ("_pointer.json", {"snapshot_id": "snapshot-1"}),
    ("_pointer.json", {"snapshot_id": "../../u/data/snapshots/snapshot-00000000000000000001"}),
    ("_pointer.json", {"snapshot_id": f"snapshot-{1:020}"}),
    ("_pointer.json", {"snapshot_id": None}),
    ("schema.json", {"fields": None}),
    ("schema.json", {"fields": [{"name": "id", "type": {"name": "date"}}]}),
]


@pytest.mark.parametrize(("file", "fields"), WRONG)
def test_a_manifest_that_is_wrong_blocks_its_table_alone(
    folded_store: Any, file: str, fields: dict[str, Any]
) -> None:
    change(folded_store.root / "tables" / "t" / file, **fields)
    table = table_of(folded_store)
    assert code(table) == "StoreManifestUnreadable"
    assert str(folded_store.root) not in (table.fault.message if table.fault else "")


@pytest.mark.parametrize(
    "fields",
    [
        {"snapshot_id": f"snapshot-{1:020}"},
        {"table": "u"},
        {"created_at": "yesterday"},
        {"parent": "snapshot-1"},
        {"parent": "../snapshot"},
        {"includes_runs": "run-0/ingest-a"},
        {"publish": []},
        {"parts": [{"name": "../part-00000.parquet"}]},
        {"parts": [{"name": "a=../part-00000.parquet"}, {"name": "a/part-00000.parquet"}]},
        {"parts": [{"name": "a=*/part-00000.parquet"}]},
        {"parts": [{"name": "=/part-00000.parquet"}]},
        {"parts": [{"name": "a=b/" * 40 + "part-00000.parquet"}]},
    ],
)
def test_a_snapshot_that_is_wrong_blocks_its_table_alone(folded_store: Any, fields: dict[str, Any]) -> None:
    (manifest,) = (folded_store.root / "tables" / "t" / "data" / "snapshots").glob("*/_manifest.json")
    change(manifest, **fields)
    assert code(table_of(folded_store)) == "StoreManifestUnreadable"


def test_a_snapshot_that_is_its_own_ancestor_blocks_its_table_alone(folded_store: Any) -> None:
    (manifest,) = (folded_store.root / "tables" / "t" / "data" / "snapshots").glob("*/_manifest.json")
    change(manifest, parent=manifest.parent.name)
    assert code(table_of(folded_store)) == "StoreManifestUnreadable"


def test_a_parent_that_is_gone_cuts_the_chain(folded_store: Any) -> None:
    (manifest,) = (folded_store.root / "tables" / "t" / "data" / "snapshots").glob("*/_manifest.json")
    change(manifest, parent=f"snapshot-{1:020}")
    table = table_of(folded_store)
    assert (table.fault, table.is_cut, len(table.chain)) == (None, True, 1)


@pytest.mark.parametrize("file", [RUN, "_pointer.json", "schema.json", "snapshot"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b'{"cursor": ' + b"[" * 10_000,
        b'{"publish": ' + b'{"a":' * 10_000,
        b" " * (16 * 2**20) + b"{}",
    ],
    ids=["empty", "null", "list", "no UTF-8", "deep lists", "deep objects", "huge"],
)
def test_what_is_no_manifest_blocks_its_table_alone(folded_store: Any, file: str, data: bytes) -> None:
    folder = folded_store.root / "tables" / "t"
    (snapshot,) = (folder / "data" / "snapshots").glob("*/_manifest.json")
    (snapshot if file == "snapshot" else folder / file).write_bytes(data)
    assert code(table_of(folded_store)) == "StoreManifestUnreadable"


@pytest.mark.slow
def test_a_manifest_that_was_cut_off_anywhere_blocks_its_table_alone(folded_store: Any) -> None:
    manifest = folded_store.root / "tables" / "t" / RUN
    whole = manifest.read_bytes()
    for length in range(len(whole) - 1):
        manifest.write_bytes(whole[:length])
        assert code(load_store(folded_store.root).tables["t"]) == "StoreManifestUnreadable"


@pytest.mark.parametrize(
    "what",
    ["schema.json", "_pointer.json", "data", "data/runs", "data/runs/run-1", "data/runs/run-1/ingest-a", RUN,
     "data/snapshots", "requests"],
)  # fmt: skip
def test_a_symlink_is_never_followed(folded_store: Any, what: str) -> None:
    folded_store.write(folded_store.root / "tables" / "t" / "requests" / "run-1.ingest-a.parquet", "")
    path, elsewhere = folded_store.root / "tables" / "t" / what, folded_store.project / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert code(table_of(folded_store)) == "StoreManifestUnreadable"


def test_a_table_that_is_a_symlink_is_shown_and_blocked(folded_store: Any) -> None:
    (folded_store.root / "tables" / "t").rename(folded_store.project / "elsewhere")
    (folded_store.root / "tables" / "t").symlink_to(folded_store.project / "elsewhere")
    assert code(table_of(folded_store)) == "StoreManifestUnreadable"


@pytest.mark.parametrize("what", ["schema.json", RUN])
def test_a_fifo_is_not_waited_for(folded_store: Any, what: str) -> None:
    path = folded_store.root / "tables" / "t" / what
    path.unlink()
    os.mkfifo(path)
    assert code(table_of(folded_store)) == "StoreManifestUnreadable"


def test_encrypted_parts_block_their_table_alone(folded_store: Any) -> None:
    change(folded_store.root / "tables" / "t" / RUN, parts=[{"name": "part-00000.parquet", "key_version": 1}])
    assert code(table_of(folded_store)) == "StoreEncryptionKeyUnbound"


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "../x"},
        {"path": "indexes/../x"},
        {"path": "/indexes/x"},
        {"path": "elsewhere/x"},
        {"kind": "graph"},
        {"row_count": -1},
        {"row_count": "3"},
        {"key_version": 1},
        {"column": None},
    ],
)
def test_a_sidecar_of_unknown_shape_is_ignored(folded_store: Any, fields: dict[str, Any]) -> None:
    (manifest,) = (folded_store.root / "tables" / "t" / "data" / "snapshots").glob("*/_manifest.json")
    sound = {
        "kind": "fulltext",
        "path": "indexes/a",
        "column": "c",
        "id_column": "id",
        "row_count": 3,
        "more": 1,
    }
    change(manifest, indexes=[3, {**sound, **fields}, sound])
    (entry,) = table_of(folded_store).chain[0].indexes
    assert (entry.path, entry.manifest) == ("indexes/a", sound)


# ---------------------------------------------------------------------------- anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_a_manifest_says_the_table_is_read_or_blocked(
    folded_store: Any, data: st.DataObject
) -> None:
    folder = folded_store.root / "tables" / "t"
    (snapshot,) = (folder / "data" / "snapshots").glob("*/_manifest.json")
    files = [folder / RUN, folder / "_pointer.json", folder / "schema.json", snapshot]
    files.append(folded_store.root / "cursors" / "feed" / "ingest-a" / f"{2:020}.json")
    path = data.draw(st.sampled_from(files))
    before = path.read_bytes()
    whole = json.loads(before)
    key = data.draw(st.sampled_from([*whole]) | st.text(max_size=8))
    path.write_text(json.dumps({**whole, key: data.draw(JSON)}))
    try:
        _check(load_store(folded_store.root))
    finally:
        path.write_bytes(before)


def _check(store: ContextStore) -> None:
    """Check that a table is blocked with a stable code, or names files below its own folder alone."""
    for table in store.tables.values():
        if table.fault is None:
            files = file_list(table, Bounds()).files
            assert all(file.startswith(f"tables/{table.name}/data/") for file in files)
            assert not any(".." in file.split("/") for file in files)
        else:
            assert table.fault.code in ("StoreManifestUnreadable", "StoreEncryptionKeyUnbound")
