"""Which files a table's relation reads: the rules one by one, and what is there of the files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from collated_readers import RequestError
from collated_readers.contextful.instants import nanoseconds, parse_bound
from collated_readers.contextful.listing import (
    check_parts,
    collected_of,
    file_list,
    files_of,
    pin_refused,
    resolved_of,
)
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.manifests import unreadable
from collated_readers.contextful.model import (
    Bound,
    Bounds,
    ContextStore,
    Declared,
    FileList,
    Run,
    Snapshot,
    Table,
)

MakeStore = Callable[..., Any]


def table_of(*snapshots: Snapshot, runs: tuple[Run, ...] = (), **more: Any) -> Table:
    """Return a table whose pointer names the first of *snapshots*, and each the next as its parent."""
    return Table("t", Declared("t"), runs=runs, chain=snapshots, **more)


def snapshot(number: int, *runs: str, **more: Any) -> Snapshot:
    """Return the snapshot of one fold, made at second *number*."""
    part = ("part-00000.parquet",)
    return Snapshot(f"snapshot-{number:020}", None, number * 10**9, frozenset(runs), part, **more)


def run(run_id: str, second: int, *parts: str, node: str = "n") -> Run:
    """Return a run committed at *second*."""
    return Run(run_id, node, second * 10**9, parts)


def at(second: int) -> Bounds:
    """Return the bound of all that was there at *second*."""
    return Bounds(as_of=Bound(second * 10**9))


def refusal(function: Callable[[], object]) -> RequestError:
    """Return what *function* is refused with."""
    with pytest.raises(RequestError) as caught:
        function()
    assert caught.value.message.startswith(f"{caught.value.code}: ")
    return caught.value


def test_every_read_of_a_table_at_fault_is_refused() -> None:
    table = table_of(snapshot(1), fault=unreadable("t", "its manifest is none"))
    for bounds in (Bounds(), at(1), Bounds(pin={"t": "b"})):
        assert refusal(partial(file_list, table, bounds)).code == "StoreManifestUnreadable"


def test_a_run_is_folded_with_its_node_and_not_by_its_id_alone() -> None:
    runs = (run("r", 1, "part-00000.parquet"), run("r", 1, "part-00000.parquet", node="m"))
    found = file_list(table_of(snapshot(2, "r/n"), runs=runs), Bounds())
    assert [one.key for one in found.runs] == ["r/m"]


def test_files_are_sorted_as_text_whatever_their_age() -> None:
    runs = (run("b", 1, "part-00000.parquet"), run("a", 2, "part-00001.parquet", "part-00000.parquet"))
    found = file_list(table_of(snapshot(3), runs=runs), Bounds())
    assert found.files == (
        "tables/t/data/runs/a/n/part-00000.parquet",
        "tables/t/data/runs/a/n/part-00001.parquet",
        "tables/t/data/runs/b/n/part-00000.parquet",
        "tables/t/data/snapshots/snapshot-00000000000000000003/part-00000.parquet",
    )


def test_a_bound_before_what_is_kept_is_refused_and_names_the_oldest_instant_that_is_not() -> None:
    table = table_of(snapshot(9, "c/n"), snapshot(5, "b/n"), is_cut=True)
    error = refusal(lambda: file_list(table, at(4)))
    assert error.code == "StoreAsOfUnretained"
    assert nanoseconds(5 * 10**9) in error.message
    assert file_list(table, at(5)).snapshot == table.chain[1]
    whole = refusal(lambda: file_list(table, at(4), collected={table.chain[1].snapshot_id}))
    assert nanoseconds(9 * 10**9) in whole.message


def test_a_bound_before_every_fold_is_answered_while_all_runs_are_there() -> None:
    runs = (run("a", 1, "part-00000.parquet"), run("b", 2, "part-00000.parquet"))
    table = table_of(snapshot(3, "a/n", "b/n"), runs=runs)
    assert [one.key for one in file_list(table, at(1)).runs] == ["a/n"]
    gone = table_of(snapshot(3, "a/n", "b/n"), runs=runs[:1])
    assert refusal(lambda: file_list(gone, at(1))).code == "StoreAsOfUnretained"
    assert file_list(table_of(), at(1)) == FileList()


def test_a_collected_snapshot_is_passed_over_when_nothing_is_lost_by_that() -> None:
    runs = (run("a", 1, "part-00000.parquet"), run("b", 3, "part-00000.parquet"))
    new, old = snapshot(4, "b/n"), snapshot(2, "a/n")
    table = table_of(new, old, runs=runs)
    found = file_list(table, at(9), collected={new.snapshot_id})
    assert (found.snapshot, [one.key for one in found.runs]) == (old, ["b/n"])
    lost = table_of(new, old, runs=runs[:1])
    assert refusal(lambda: file_list(lost, at(9), collected={new.snapshot_id})).code == "StoreAsOfUnretained"
    assert file_list(lost, Bounds(), collected={new.snapshot_id}).snapshot == new


@pytest.mark.rule("pin-parameter", "null-pin")
def test_a_pin_leads_to_the_files_of_that_build_and_to_no_others() -> None:
    new, old = snapshot(4, "b/n", publish={"build_id": "b-2"}), snapshot(2, "a/n", publish={})
    table = table_of(new, old, runs=(run("c", 5, "part-00000.parquet"),))
    for build, expected in (("b-2", new), (old.snapshot_id, old)):
        found = file_list(table, Bounds(pin={"t": build}))
        assert (found.snapshot, found.runs) == (expected, ())
        assert len(found.files) == 1
    assert file_list(table, Bounds(pin={"other": "b-2"})) == file_list(table, Bounds())


@pytest.mark.rule("unknown-build", "unregistered-pin")
def test_a_build_that_is_unknown_or_collected_is_refused_and_the_oldest_that_is_kept_named() -> None:
    new, old = snapshot(4, publish={"build_id": "b-2"}), snapshot(2, publish={"build_id": "b-1"})
    table = table_of(new, old, snapshot(1))
    error = refusal(lambda: file_list(table, Bounds(pin={"t": "b-0"})))
    assert (error.code, "b-1" in error.message) == ("PinnedBuildUnavailable", True)
    error = refusal(lambda: file_list(table, Bounds(pin={"t": "b-1"}), collected={old.snapshot_id}))
    assert (error.code, "b-2" in error.message) == ("PinnedBuildUnavailable", True)
    unpublished = refusal(lambda: file_list(table_of(snapshot(1)), Bounds(pin={"t": "b-1"})))
    assert unpublished.message == pin_refused("t", "b-1").message


@pytest.mark.rule("earlier-bound-wins")
def test_of_a_pin_and_a_bound_the_earlier_wins() -> None:
    new, old = snapshot(4, publish={}), snapshot(2, publish={})
    table = table_of(new, old)
    pin = {"t": new.snapshot_id}
    as_of = {second: Bounds(as_of=Bound(second * 10**9), pin=pin) for second in (3, 4, 5)}
    assert [file_list(table, as_of[second]).snapshot for second in (3, 4, 5)] == [old, new, new]


@pytest.mark.rule("resolved-echo", "absent-watermark")
def test_a_build_is_resolved_to_its_id_and_watermark_as_it_is_written() -> None:
    watermark = {"at": "2026-02-14T10:00:00Z", "inputs": {"orders": {"through": 7}}}
    build = snapshot(4, publish={"build_id": "b-2", "watermark": watermark})
    found = file_list(table_of(build), Bounds())
    assert resolved_of(found) == {"build_id": "b-2", "watermark": watermark}
    plain = file_list(table_of(snapshot(4, publish={})), Bounds())
    assert resolved_of(plain) == {"build_id": f"snapshot-{4:020}", "watermark": None}
    beside = table_of(build, runs=(run("r", 5, "part-00000.parquet"),))
    assert resolved_of(file_list(beside, Bounds())) is None
    assert resolved_of(file_list(table_of(snapshot(4)), Bounds())) is None


# ---------------------------------------------------------------------------- what is there


@pytest.fixture
def two_folds(make_context_store: MakeStore) -> tuple[Any, ContextStore]:
    """A table of two published folds and a run, and its store."""
    table = make_context_store().table("t", {"id": "utf8"}, primary_key=["id"])
    for number, hour in enumerate(("01", "03")):
        table.run(f"run-{number}", [{"id": f"{number}"}], f"2030-01-01T{hour}:00:00Z")
        table.fold(f"2030-01-01T{hour}:30:00Z", publish={"build_id": f"b-{number}"})
    table.run("run-9", [{"id": "9"}], "2030-01-01T09:00:00Z")
    return table, load_store(table.store.root)


@pytest.mark.rule("miss-wait")
def test_a_part_that_is_gone_is_named_and_nothing_is_read_without_it(
    two_folds: tuple[Any, ContextStore],
) -> None:
    table, store = two_folds
    name = f"snapshots/{table.current}/part-00000.parquet"
    (table.folder / "data" / name).unlink()
    found = files_of(store.root, store.tables["t"], Bounds())
    error = refusal(lambda: check_parts(store.root, store.tables["t"], found))
    assert (error.code, name in error.message) == ("ReadPartUnavailable", True)
    assert store.root not in error.message


def test_bounds_and_pins_pass_over_a_snapshot_of_which_a_part_is_gone(
    two_folds: tuple[Any, ContextStore],
) -> None:
    table, store = two_folds
    (table.folder / "data" / "snapshots" / table.current / "part-00000.parquet").unlink()
    assert collected_of(store.root, store.tables["t"]) == {table.current}
    noon = Bounds(as_of=parse_bound("2030-01-01T12:00:00Z"))
    found = files_of(store.root, store.tables["t"], noon)
    assert found.snapshot == store.tables["t"].chain[1]
    assert [one.run_id for one in found.runs] == ["run-1", "run-9"]
    error = refusal(lambda: files_of(store.root, store.tables["t"], Bounds(pin={"t": "b-1"})))
    assert (error.code, "b-0" in error.message) == ("PinnedBuildUnavailable", True)


@pytest.mark.parametrize("what", ["part", "folder"])
def test_what_leads_out_of_the_store_is_not_there(two_folds: tuple[Any, ContextStore], what: str) -> None:
    table, store = two_folds
    folder = table.folder / "data" / "runs" / "run-9" / "ingest-a"
    victim = folder / "part-00000.parquet" if what == "part" else folder
    elsewhere = table.store.project / "elsewhere"
    victim.rename(elsewhere)
    victim.symlink_to(elsewhere)
    found = file_list(store.tables["t"], Bounds())
    error = refusal(lambda: check_parts(store.root, store.tables["t"], found))
    assert error.code == "ReadPartUnavailable"
