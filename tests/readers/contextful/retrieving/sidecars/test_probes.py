"""Sidecars add candidates that the window does not show, never take one away, and never fail a read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bounds, Declared, IndexEntry
from collated_readers.contextful.retrieving.sidecars import Sidecars
from collated_readers.contextful.retrieving.sidecars.probes import probe_size
from collated_readers.contextful.session import Session, open_session

if TYPE_CHECKING:
    from collated_readers.contextful.retrieving import Retrieved

Make = Callable[..., Any]
Open = Callable[..., Session]
Ask = Callable[..., "Retrieved"]
RowsOf = Callable[["Retrieved"], list[dict[str, Any]]]
Sidecar = Callable[..., tuple[dict[str, Any], str, bytes]]

COLUMNS = {"id": "utf8", "body": "utf8", "kind": "utf8", "embedding": "float32[2]"}
DECLARED: dict[str, Any] = {
    "primary_key": ["id"],
    "indexes": [
        {"kind": "fulltext", "column": "body"},
        {"kind": "vector", "column": "embedding", "model": "stub", "dim": 2},
    ],
}


def _old(number: int) -> dict[str, Any]:
    """A row of the first run: one in ten is about storage, each points another way."""
    body = f"storage {number} cells" if number % 10 == 0 else f"wind {number}"
    return {"id": f"o{number}", "body": body, "kind": f"k{number % 3}", "embedding": [1.0, number / 100]}


def _texts(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {row["id"]: row["body"] for row in rows}


def _vectors(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    return {row["id"]: row["embedding"] for row in rows}


@pytest.fixture(scope="module")
def template(
    tmp_path_factory: pytest.TempPathFactory, maker: Any, fulltext: Sidecar, vectors: Sidecar
) -> Iterator[Callable[[int], Path]]:
    """`template(old)` is a project whose *old* rows have sidecars, and 200 newer ones that hide them."""
    with ExitStack() as stack:
        made: dict[int, Path] = {}

        def make(old: int) -> Path:
            if old not in made:
                made[old] = tmp_path_factory.mktemp("template")
                table = stack.enter_context(closing(maker.StoreMaker(made[old]))).table("t", COLUMNS)
                rows = [_old(number) for number in range(old)]
                table.run("r1", rows, "2030-01-01T00:00:00Z")
                sidecars = [fulltext("body", _texts(rows)), vectors(_vectors(rows))]
                table.fold("2030-01-02T00:00:00Z", sidecars=sidecars)
                new = {"body": "wind", "kind": "new", "embedding": [-1.0, 0.0]}
                table.run("r2", [{"id": f"n{n}", **new} for n in range(200)], "2030-01-03T00:00:00Z")
            return made[old]

        yield make


@pytest.fixture
def make(template: Callable[[int], Path], tmp_path: Path, maker: Any) -> Callable[..., Path]:
    """`make(old=300, **declared)` is the root of a store of its own, like the template."""

    def copied(old: int = 300, **declared: Any) -> Path:
        project = tmp_path / "copy"
        shutil.copytree(template(old), project)
        stated = {"name": "t", **DECLARED, **declared}
        with (project / "contextful.toml").open("a") as file:
            file.write("[[pipeline.tables]]\n")
            file.writelines(f"{name} = {maker.toml(value)}\n" for name, value in stated.items())
        return project / ".contextful/context/research"

    return copied


def _folder(root: Path) -> Path:
    return next((root / "tables/t/data/snapshots").iterdir()) / "indexes"


def _ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["_row"]["id"] for row in rows]


@pytest.mark.slow
@pytest.mark.rule("sidecar-generates-candidates", "fulltext-probe", "candidate-window", "gain-never-loss")
def test_words_outside_the_window_are_found(make: Make, opened: Open, asked: Ask, rows_of: RowsOf) -> None:
    found = asked(opened(make()), "storage cells", limit=20)
    assert len(rows_of(found)) == 20
    assert all(row["_score"] == 2 for row in rows_of(found))
    assert found.block(20)["candidates_prefloor"] == 200 + 30
    assert "underfilled" not in found.block(20)


@pytest.mark.rule("sidecar-generates-candidates", "caller-embedding")
def test_vectors_outside_the_window_are_found(make: Make, opened: Open, asked: Ask, rows_of: RowsOf) -> None:
    reads = opened(make())
    found = asked(reads, "", query_embedding=[1, 0], limit=5)
    assert _ids(rows_of(found)) == ["o0", "o1", "o2", "o3", "o4"]
    assert found.block(5)["candidates_prefloor"] == 200 + probe_size(5)


@pytest.mark.rule("sidecar-generates-candidates", "widened-window-statistics")
def test_a_row_is_worth_the_same_however_it_was_found(
    make: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    reads = opened(make())
    probed = rows_of(asked(reads, "storage", query_embedding=[1, 0.5], limit=10))
    everything = rows_of(asked(reads, "storage", query_embedding=[1, 0.5], limit=500))
    by_id = {row["_row"]["id"]: (row["_score"], row["_vscore"]) for row in everything}
    assert all(by_id[row["_row"]["id"]] == (row["_score"], row["_vscore"]) for row in probed)


@pytest.mark.slow
@pytest.mark.rule("filtered-traversal", "filtered-exact-threshold", "filter-matches-nothing")
def test_a_filter_admits_what_it_admits_and_the_probe_goes_on(
    make: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    reads = opened(make(old=400))
    found = asked(reads, "", query_embedding=[1, 0], filter={"kind": "k2"}, limit=70)
    assert _ids(rows_of(found))[:3] == ["o2", "o5", "o8"]
    assert len(rows_of(found)) == 70
    nothing = asked(reads, "", query_embedding=[1, 0], filter={"kind": "zebra"})
    assert (rows_of(nothing), nothing.block(0)["candidates_prefloor"]) == ([], 0)
    words = asked(reads, "storage", filter={"kind": "k1"}, limit=3)
    assert all(row["_row"]["kind"] == "k1" and row["_score"] == 1 for row in rows_of(words))


@pytest.mark.rule("sidecar-oversampling")
def test_a_probe_asks_for_four_times_the_limit() -> None:
    assert [probe_size(limit) for limit in (1, 10, 20)] == [64, 64, 80]


@pytest.mark.rule("adaptive-over-fetch")
def test_rounds_go_on_until_rows_of_the_relation_are_found(
    tmp_path: Path, make_context_store: Make, fulltext: Sidecar, opened: Open, asked: Ask
) -> None:
    for ghosts, is_found in ((64 + 64 + 128, True), (8 * 64, False)):
        store = make_context_store(tmp_path / f"{ghosts}")
        declared = {"indexes": [{"kind": "fulltext", "column": "body"}], "primary_key": ["id"]}
        table = store.table("t", {"id": "utf8", "body": "utf8"}, **declared)
        table.run("r1", [{"id": "there", "body": "storage and more words"}], "2030-01-01T00:00:00Z")
        names = {f"ghost{number}": "storage" for number in range(ghosts)}
        texts = {**names, "there": "storage and more words"}
        table.fold("2030-01-02T00:00:00Z", sidecars=[fulltext("body", texts)])
        table.run("r2", [{"id": f"n{n}", "body": "wind"} for n in range(200)], "2030-01-03T00:00:00Z")
        found = asked(opened(store.root), "storage", limit=1)
        assert [row[1]["id"] for row in found.rows] == (["there"] if is_found else [])
        assert ("underfilled" in found.block(0)) is not is_found


# ------------------------------------------------------------------------ falling back


def _remove(folder: Path) -> None:
    for file in (*folder.glob("fts*/postings.bin"), *folder.glob("vec*/*/graph.bin")):
        file.unlink()


def _remove_manifests(folder: Path) -> None:
    for file in folder.rglob("_manifest.json"):
        file.unlink()


def _alter_manifests(folder: Path) -> None:
    for file in folder.rglob("_manifest.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "more": 1}))


def _break_manifests(folder: Path) -> None:
    for file in folder.rglob("_manifest.json"):
        file.write_text("[" * 10_000)


def _lead_outside(folder: Path) -> None:
    outside = folder.parents[6] / "outside"
    folder.rename(outside)
    folder.symlink_to(outside)


def _make_pipes(folder: Path) -> None:
    _remove(folder)
    for file in (
        folder / "fts-body-unicode" / "postings.bin",
        folder / "vec-embedding-stub/zone=all/graph.bin",
    ):
        os.mkfifo(file)


def _empty(folder: Path) -> None:
    for file in (*folder.glob("fts*/postings.bin"), *folder.glob("vec*/*/graph.bin")):
        file.write_bytes(b"")


@pytest.mark.rule("sidecar-falls-back", "gain-never-loss")
@pytest.mark.parametrize(
    "harm",
    [
        _remove,
        _remove_manifests,
        _alter_manifests,
        _break_manifests,
        _lead_outside,
        _make_pipes,
        _empty,
    ],
)
def test_without_usable_sidecars_the_window_is_read_as_ever(
    make: Make, opened: Open, asked: Ask, harm: Callable[[Path], None]
) -> None:
    root = make()
    harm(_folder(root))
    found = asked(opened(root), "storage wind", query_embedding=[1, 0], min_score=0)
    assert found.block(0)["candidates_prefloor"] == 200


@pytest.mark.rule("sidecar-falls-back", "model-identifier")
@pytest.mark.parametrize(
    "indexes",
    [
        [],
        [{"kind": "fulltext", "column": "kind"}, {"kind": "vector", "column": "other", "model": "stub"}],
        [
            {"kind": "fulltext", "column": "body", "tokenizer": "cjk"},
            {"kind": "vector", "column": "embedding", "model": "another"},
        ],
    ],
)
def test_only_declared_sidecars_are_asked(
    make: Make, opened: Open, asked: Ask, indexes: list[dict[str, Any]]
) -> None:
    found = asked(opened(make(indexes=indexes)), "storage wind", query_embedding=[1, 0], min_score=0)
    assert found.block(0)["candidates_prefloor"] == 200


@pytest.mark.rule("excluded-arm", "sidecar-falls-back")
def test_a_table_that_is_not_for_this_zone_is_not_probed(make: Make, opened: Open, asked: Ask) -> None:
    reads, held = opened(make(policy={"zone": {"allow": ["public-cloud:*"]}})), Sidecars()
    found = asked(reads, "storage", query_embedding=[1, 0], sidecars=held)
    assert (found.block(0)["candidates_prefloor"], len(held)) == (0, 0)
    assert "underfilled" not in found.block(0)


@pytest.mark.rule("adaptive-over-fetch")
def test_a_probe_that_named_all_it_has_is_not_short(make: Make, opened: Open, asked: Ask) -> None:
    reads = opened(make(old=12))
    assert "underfilled" not in asked(reads, "storage", query_embedding=[1, 0], limit=40).block(0)
    assert asked(reads, "storage", filter={"kind": "k1"}, limit=40).block(0)["underfilled"] is True


@pytest.mark.rule("sidecar-falls-back")
def test_a_vector_of_another_length_asks_no_sidecar(make: Make, opened: Open, asked: Ask) -> None:
    found = asked(opened(make()), "", query_embedding=[1, 0, 0])
    assert found.block(0)["candidates_prefloor"] == 200


@pytest.mark.rule("sidecar-size-cap")
def test_what_is_too_large_stays_closed(
    make_context_store: Make, vectors: Sidecar, fulltext: Sidecar, opened: Open, asked: Ask
) -> None:
    store = make_context_store()
    table = store.table("t", COLUMNS, **DECLARED)
    rows = [_old(0)]
    table.run("r1", rows, "2030-01-01T00:00:00Z")
    entry, file, data = vectors(_vectors(rows))
    words, words_file, words_data = fulltext("body", _texts(rows))
    large = {**entry, "row_count": 8 * 1024 * 1024 + 1}
    table.fold("2030-01-02T00:00:00Z", sidecars=[(large, file, data), (words, words_file, words_data)])
    with (_folder(store.root) / "fts-body-unicode/postings.bin").open("r+b") as sparse:
        sparse.truncate(256 * 1024 * 1024 + 1)
    table.run("r2", [{"id": f"n{n}", "body": "wind"} for n in range(200)], "2030-01-03T00:00:00Z")
    found = asked(opened(store.root), "storage", query_embedding=[1, 0])
    assert found.block(0)["candidates_prefloor"] == 200


@pytest.fixture(scope="module")
def pair(template: Callable[[int], Path]) -> Iterator[tuple[Session, Session]]:
    """Two sessions of one store: with its sidecars declared, and without."""
    root = template(300) / ".contextful/context/research"
    with ExitStack() as stack:
        store = load_store(root)
        table = msgspec.structs.replace(
            store.tables["t"], declared=Declared("t", indexes=tuple(DECLARED["indexes"]))
        )
        with_ = msgspec.structs.replace(store, tables={"t": table})
        sessions = [open_session(one, Bounds(), memory_bytes=1 << 28, threads=1) for one in (with_, store)]
        for session in sessions:
            stack.enter_context(closing(session))
        yield sessions[0], sessions[1]


@pytest.mark.slow
@pytest.mark.rule("gain-never-loss")
@settings(max_examples=40)  # of the 85 that there are
@given(
    st.lists(st.sampled_from(["storage", "wind", "cells", "7", "zebra"]), min_size=1, max_size=3, unique=True)
)
def test_with_sidecars_no_candidate_is_lost(
    pair: tuple[Session, Session], asked: Ask, words: list[str]
) -> None:
    query = " ".join(words)
    for least in (0, None):
        found, exact = (
            {
                (row[1]["id"], row[3], row[4])
                for row in asked(reads, query, limit=800, query_embedding=[1, 0.2], min_score=least).rows
            }
            for reads in pair
        )
        assert found >= exact
    wide, narrow = (asked(reads, query, limit=5).block(0) for reads in pair)
    assert wide["candidates"] >= narrow["candidates"]


@pytest.mark.slow
@pytest.mark.rule("sidecar-falls-back")
def test_damaged_sidecars_give_no_row_that_is_not_of_the_table(
    make: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    root = make(old=12)
    postings = next(_folder(root).glob("fts*/postings.bin"))
    graph = next(_folder(root).glob("vec*/*/graph.bin"))
    reads = opened(root)
    everything = set(_ids(rows_of(asked(reads, "", limit=10_000))))
    sound = {path: path.read_bytes() for path in (postings, graph)}
    for place in range(0, max(map(len, sound.values())), 29):
        for path, data in sound.items():
            damaged = bytearray(data)
            damaged[place % len(data)] ^= 0xFF
            path.write_bytes(damaged)
        found = asked(reads, "storage", query_embedding=[1, 0], limit=500, sidecars=Sidecars())
        assert set(_ids(rows_of(found))) <= everything
        assert found.block(0)["candidates_prefloor"] == 212


# ------------------------------------------------------------------------ what is held


@pytest.mark.rule("lexical-index-cache")
def test_a_sidecar_is_opened_once_and_the_oldest_goes_first(
    make: Make, opened: Open, asked: Ask, rows_of: RowsOf
) -> None:
    root = make()
    reads, held = opened(root), Sidecars()
    first = rows_of(asked(reads, "storage", sidecars=held))
    assert len(held) == 1
    _remove(_folder(root))
    assert rows_of(asked(reads, "storage", sidecars=held)) == first
    assert rows_of(asked(reads, "storage", sidecars=Sidecars())) == []


@pytest.mark.rule("lexical-index-cache")
def test_the_sidecar_that_was_opened_first_goes_first(
    tmp_path: Path, fulltext: Sidecar, entry_of: Callable[[Mapping[str, Any]], IndexEntry]
) -> None:
    entry, file, data = fulltext("body", {"a": "storage"})
    folder = tmp_path / "snapshot" / entry["path"]
    folder.mkdir(parents=True)
    (folder / file).write_bytes(data)
    held = Sidecars(most=2)
    opened_: list[object] = []
    for number in (1, 2, 1, 3, 1):
        known = {**entry, "row_count": number}
        (folder / "_manifest.json").write_text(json.dumps(known))
        opened_.append(held.postings(str(tmp_path), "snapshot", entry_of(known)))
        assert len(held) <= 2
    assert opened_[2] is opened_[0]
    assert opened_[4] is not opened_[0]
