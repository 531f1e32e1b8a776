"""A store as it is read: what refuses all of it, which tables there are, and which runs are committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Table

MakeStore = Callable[..., Any]
CodeOf = Callable[[Callable[[], object]], str]


def table_of(store: Any, name: str = "t") -> Table:
    """Return a table as it is loaded; the other one must be as it was."""
    loaded = load_store(store.root)
    other = loaded.tables["u"]
    assert (other.fault, len(other.runs), len(other.chain)) == (None, 2, 1)
    return loaded.tables[name]


def code(table: Table) -> str | None:
    """Return what reads of *table* are refused with."""
    return table.fault.code if table.fault else None


# ---------------------------------------------------------------------------- the whole store


def test_an_encrypted_store_is_refused(folded_store: Any, code_of: CodeOf) -> None:
    (folded_store.root / "config.toml").write_text('[node]\nid = "n"\n[encryption]\nkey_source = "env:KEY"\n')
    assert code_of(lambda: load_store(folded_store.root)) == "context_encrypted"


@pytest.mark.parametrize("text", ["[node", "x = " + "[" * 100_000, "\udcff"])
def test_a_store_whose_configuration_cannot_be_read_is_refused(
    folded_store: Any, code_of: CodeOf, text: str
) -> None:
    (folded_store.root / "config.toml").write_bytes(text.encode(errors="surrogateescape"))
    assert code_of(lambda: load_store(folded_store.root)) == "damaged"


@pytest.mark.parametrize("what", ["file", "folder", "symlink"])
def test_a_store_with_an_erasure_is_refused_whatever_lies_there(
    folded_store: Any, code_of: CodeOf, what: str
) -> None:
    path: Path = folded_store.root / "_erasure_frontier.json"
    if what == "folder":
        path.mkdir()
    elif what == "symlink":
        path.symlink_to("nowhere")
    else:
        path.touch()
    assert code_of(lambda: load_store(folded_store.root)) == "erasure_frontier"


def test_a_store_that_is_gone_or_is_no_directory_says_so(folded_store: Any, code_of: CodeOf) -> None:
    assert code_of(lambda: load_store(folded_store.root / "nothing")) == "vanished"
    (folded_store.root / "tables").rename(folded_store.root / "elsewhere")
    (folded_store.root / "tables").symlink_to(folded_store.root / "elsewhere")
    assert code_of(lambda: load_store(folded_store.root)) == "damaged"


def test_an_empty_store_has_the_declared_tables(make_context_store: MakeStore) -> None:
    store = make_context_store()
    assert load_store(store.root).tables == {}
    store.quiet("q", columns={"n": "int64"})
    assert load_store(store.root).tables["q"].is_quiet


def test_a_project_can_be_named_with_slashes_and_has_its_own_declaration(
    make_context_store: MakeStore, tmp_path: Path
) -> None:
    store = make_context_store(tmp_path / "p", "labs/wet")
    store.table("t", {"id": "utf8"}, primary_key=["id"])
    loaded = load_store(store.root)
    assert (loaded.project, loaded.tables["t"].declared.primary_key) == ("labs/wet", ("id",))


# ---------------------------------------------------------------------------- which tables there are


@pytest.mark.rule("reserved-relation")
def test_tables_lie_anywhere_and_below_each_other_but_not_among_data(folded_store: Any) -> None:
    for name in ("_runs", "_visibility/deep", "t/below", "a.b-c_d"):
        folded_store.table(name, {"id": "utf8"})
    for name in ("t/data/x", "t/requests/x", ".hidden", "x.lock", "sp ace", "t__requests", "d/" * 20 + "x"):
        folded_store.write(folded_store.root / "tables" / name / "schema.json", '{"fields": []}')
    folded_store.write(folded_store.root / "tables" / "no-schema" / "other.json", "{}")
    (folded_store.root / "tables" / "folder" / "schema.json").mkdir(parents=True)
    loaded = load_store(folded_store.root)
    assert set(loaded.tables) == {"_runs", "_visibility/deep", "a.b-c_d", "folder", "t", "t/below", "u"}
    assert [name for name, table in loaded.tables.items() if table.fault] == ["folder"]


def test_names_that_differ_in_case_alone_are_all_blocked(folded_store: Any) -> None:
    folded_store.table("T", {"id": "utf8"})
    loaded = load_store(folded_store.root)
    assert {name: code(table) for name, table in loaded.tables.items()} == {
        "T": "StoreManifestUnreadable",
        "t": "StoreManifestUnreadable",
        "u": None,
    }


def test_a_declared_table_with_data_and_without_a_schema_is_damaged_and_not_quiet(folded_store: Any) -> None:
    (folded_store.root / "tables" / "t" / "schema.json").unlink()
    assert code(table_of(folded_store)) == "StoreManifestUnreadable"


def test_litter_is_nothing(folded_store: Any) -> None:
    before = load_store(folded_store.root)
    for name in ("t", "u"):
        folder = folded_store.root / "tables" / name
        folded_store.write(folder / "data" / "runs" / "README", "")
        folded_store.write(folder / "data" / "runs" / "sp ace" / "n" / "_manifest.json", "not ours")
        folded_store.write(folder / "data" / "runs" / ("r" * 129) / "n" / "_manifest.json", "not ours")
        folded_store.write(
            folder / "data" / "snapshots" / "snapshot-09999999999999999999" / "_manifest.json", "not ours"
        )
        folded_store.write(folder / "requests" / "half.parquet.tmp", "")
        folded_store.write(folded_store.root / "cursors" / "feed" / "ingest-a" / "notes.json", "not ours")
        folded_store.write(folder / "builds.jsonl", "not ours")
    assert load_store(folded_store.root).tables == before.tables


# ---------------------------------------------------------------------------- logs


@pytest.mark.rule("after-commit")
def test_a_logged_run_is_read_when_its_own_node_logged_that_very_commit(folded_store: Any) -> None:
    table = folded_store.table("logs", {"id": "utf8"})
    logged = {"logged": True, "pipeline": "feed", "fence": 5}
    table.run("committed", node="n", entry_fence=5, **logged)
    table.run("waiting", node="n", **logged)
    table.run("fenced", node="n", entry_fence=6, **logged)
    table.run("elsewhere", node="n", entry_fence=5, entry_node="m", **logged)
    table.run("plain", node="n", pipeline="feed", fence=5)
    table.run("unfenced", node="n", logged=True, pipeline="feed")
    table.run("without", node="n", logged=True, fence=5)
    table.run("in-flight", node="n", manifest=False)
    found = table_of(folded_store, "logs")
    assert {run.run_id for run in found.runs} == {"committed", "plain", "unfenced", "without"}


def test_a_log_that_cannot_be_read_blocks_only_what_it_may_have_committed(folded_store: Any) -> None:
    table = folded_store.table("logs", {"id": "utf8"})
    table.run("committed", node="n", logged=True, pipeline="p", fence=5, entry_fence=5)
    folded_store.write(folded_store.root / "cursors" / "p" / "n" / f"{9:020}.json", "{")
    assert code(table_of(folded_store, "logs")) is None
    table.run("waiting", node="n", logged=True, pipeline="p", fence=5)
    assert code(table_of(folded_store, "logs")) == "StoreManifestUnreadable"
