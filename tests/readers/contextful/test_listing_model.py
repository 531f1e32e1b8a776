"""The files of a table, compared with a plain model of what was landed, folded, collected and lost."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.instants import parse_instant
from collated_readers.contextful.listing import files_of
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bound, Bounds, ContextStore, FileList


class Landed:
    """A run of the model: what it is and what it said."""

    def __init__(self, key: str, at: int, rows: int, *, is_readable: bool, is_frontier: bool) -> None:
        self.key = key
        self.at = at
        self.rows = rows
        self.is_readable = is_readable
        self.replaces = rows > 0 or is_frontier
        self.is_there = True


class Fold:
    """A fold of the model: the runs whose rows it holds, its own and those of the folds before it."""

    def __init__(self, name: str, at: int, own: set[str], covers: set[str]) -> None:
        self.name = name
        self.at = at
        self.own = own
        self.covers = covers
        self.is_whole = True


class Model:
    """Does to a store what a list of steps says, and keeps in plain sets what has happened."""

    def __init__(self, store: Any, *, is_replaced: bool) -> None:
        self.store = store
        self.is_replaced = is_replaced
        declared = {"write_mode": "replace"} if is_replaced else {}
        self.table = store.table("t", {"id": "utf8"}, **declared)
        self.runs: list[Landed] = []
        self.folds: list[Fold] = []  # those that are there, oldest first
        self.is_cut = False
        self.minute = 0

    def now(self) -> str:
        return f"2030-01-01T{self.minute // 60:02}:{self.minute % 60:02}:00Z"

    def at(self) -> int:
        return parse_instant(self.now())

    def run(self, rows: int, node: int, kind: str) -> None:
        node_id = ("ingest-a", "ingest-b")[node]
        other = ("ingest-b", "ingest-a")[node]
        number = len(self.runs)
        run_id = f"run-{99 - number // 2}"  # against the order of time, and two nodes may have the same
        if f"{run_id}/{node_id}" in {run.key for run in self.runs}:
            run_id = f"{run_id}-b"
        rows = 0 if kind == "frontier" else rows
        fence = len(self.runs)  # of its own: a node's log may know the same run id of another node
        logged = {"logged": True, "pipeline": "feed", "fence": fence}
        how: dict[str, dict[str, Any]] = {
            "plain": {},
            "fenced": {"pipeline": "feed", "fence": fence},
            "frontier": {"replace_frontier": True},
            "logged": {**logged, "entry_fence": fence},
            "waiting": logged,
            "other fence": {**logged, "entry_fence": fence + 1_000},
            "other log": {**logged, "entry_fence": fence, "entry_node": other},
            "in flight": {"manifest": False},
        }
        values = [{"id": f"{run_id}-{number}"} for number in range(rows)]
        self.table.run(run_id, values, self.now(), node=node_id, **how[kind])
        is_readable = kind in ("plain", "fenced", "frontier", "logged")
        is_frontier = kind == "frontier"
        landed = Landed(
            f"{run_id}/{node_id}", self.at(), rows, is_readable=is_readable, is_frontier=is_frontier
        )
        self.runs.append(landed)

    def wait(self, minutes: int) -> None:
        self.minute += minutes

    def fold(self) -> None:
        self.minute += 1
        covers = set[str](self.folds[-1].covers) if self.folds else set[str]()
        own = {run.key for run in self.runs if run.is_readable and run.key not in covers}
        if own:
            name = self.table.fold(self.now())
            self.folds.append(Fold(name, self.at(), own, covers | own))

    def retire(self) -> None:
        """Collect the oldest run that all folds hold; retention takes none before the folds without it."""
        folded = self.folds[0].covers if self.folds else set[str]()
        old = next((run for run in self.runs if run.is_there and run.key in folded), None)
        if old is not None:
            old.is_there = False
            self.table.retire(old.key)

    def collect(self) -> None:
        """Collect the oldest fold, once nothing of it is left beside it."""
        there = {run.key for run in self.runs if run.is_there}
        if len(self.folds) > 1 and not self.folds[0].own & there:
            self.table.collect(self.folds.pop(0).name)
            self.is_cut = True

    def lose(self) -> None:
        """Lose the part of the oldest fold but one, or of the oldest: it is no longer whole."""
        for fold in self.folds[:-1]:
            part = self.table.folder / "data" / "snapshots" / fold.name / "part-00000.parquet"
            if fold.is_whole and part.exists():
                part.unlink()
                fold.is_whole = False
                return

    def expected(self, bound: Bound | None) -> list[str] | None:
        """Return the keys of the runs whose rows are read, None where that is no longer kept.

        Written from the rules alone: what was committed by then, each row once.
        """
        readable = [run for run in self.runs if run.is_readable]
        admitted = [run for run in readable if _admits(bound, run.at)]
        folds = [fold for fold in self.folds if _admits(bound, fold.at)]
        usable = [fold for fold in folds if fold.is_whole or bound is None]
        kept = set[str](usable[-1].covers) if usable else set[str]()
        if bound is not None and self.folds:
            lost = {run.key for run in readable if not run.is_there}
            if not usable and (self.is_cut or lost & self.folds[-1].covers):
                return None
            after = folds[folds.index(usable[-1]) + 1 :] if usable else folds
            if lost & set[str]().union(*(fold.own for fold in after)):
                return None
        if self.is_replaced:
            return _replaced(admitted, kept)
        return [run.key for run in admitted if run.rows]


def _replaced(admitted: list[Landed], kept: set[str]) -> list[str]:
    """Return what is left of runs each of which may replace those before it."""
    fresh = [run for run in admitted if run.key not in kept]
    fresh.sort(key=lambda run: (run.at, *run.key.split("/")))
    folded = [run for run in admitted if run.key in kept]
    for runs in (fresh, folded):
        last = max((place for place, run in enumerate(runs) if run.replaces), default=None)
        if last is not None:
            return [run.key for run in runs[last:] if run.rows]
    return []


def _admits(bound: Bound | None, at: int) -> bool:
    return bound is None or at < bound.at or (at == bound.at and bound.is_inclusive)


KINDS = ["frontier", "fenced", "logged", "waiting", "other fence", "other log", "in flight"]
RUNS = st.lists(
    st.tuples(
        st.just("run"),
        st.sampled_from([1, 1, 1, 0, 2]),
        st.integers(0, 1),
        st.sampled_from([*["plain"] * 6, *KINDS]),
    ),
    min_size=1,
    max_size=3,
)
WAIT = st.tuples(st.just("wait"), st.integers(0, 1))
AFTER = st.lists(st.tuples(st.sampled_from(["retire", "retire", "retire", "collect", "lose"])), max_size=3)
EPOCHS = st.lists(
    st.tuples(RUNS, WAIT, st.sampled_from([[("fold",)], [("fold",)], []]), AFTER), min_size=1, max_size=4
)
BOUNDS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([0, 0, -1, 1]), st.booleans()), min_size=1, max_size=6
)


PLAIN, FRONTIER, WAITED = ("run", 1, 0, "plain"), ("run", 0, 0, "frontier"), ("wait", 1)


@pytest.fixture(scope="module")
def fresh(maker: ModuleType) -> Iterator[Callable[[], Any]]:
    """`fresh()` begins a store in a folder of its own, for each example of a property."""
    folders: list[tempfile.TemporaryDirectory[str]] = []
    stores: list[Any] = []

    def make() -> Any:
        if stores:
            stores.pop().close()
            folders.pop().cleanup()
        folders.append(tempfile.TemporaryDirectory())
        stores.append(maker.StoreMaker(Path(folders[-1].name)))
        return stores[-1]

    yield make
    for store in stores:
        store.close()
    for folder in folders:
        folder.cleanup()


@pytest.mark.slow
@pytest.mark.rule("connection-views", "change-misses", "after-commit")
@given(epochs=EPOCHS, bounds=BOUNDS, is_replaced=st.booleans())
@example(
    epochs=[([PLAIN], WAITED, [], []), ([FRONTIER], WAITED, [], [])], bounds=[(0, 0, True)], is_replaced=True
)
@example(epochs=[([PLAIN, PLAIN], WAITED, [], [])] * 2, bounds=[(0, 0, True)], is_replaced=True)
def test_the_rows_that_are_read_are_those_committed_by_then_each_once(
    fresh: Callable[[], Any],
    epochs: list[tuple[Any, ...]],
    bounds: list[tuple[int, int, bool]],
    is_replaced: bool,
) -> None:
    model = Model(fresh(), is_replaced=is_replaced)
    for runs, wait, fold, after in epochs:
        for name, *how in (*runs, wait, *fold, *after, ("wait", 1)):
            getattr(model, name)(*how)
    model.table.litter()
    store = load_store(model.store.root)
    assert store.tables["t"].fault is None
    _check(model, store, None)
    moments = sorted({run.at for run in model.runs} | {fold.at for fold in model.folds})
    for which, near, is_inclusive in bounds:
        _check(model, store, Bound(moments[which % len(moments)] + near, is_inclusive))


def _check(model: Model, store: ContextStore, bound: Bound | None) -> None:
    expected = model.expected(bound)
    if expected is None:
        with pytest.raises(RequestError) as caught:
            files_of(store.root, store.tables["t"], Bounds(as_of=bound))
        assert caught.value.code == "StoreAsOfUnretained"
        return
    found = files_of(store.root, store.tables["t"], Bounds(as_of=bound))
    assert Counter(_read(store, found, model)) == Counter(_rows(model, expected))
    assert list(found.files) == sorted(found.files)


def _rows(model: Model, keys: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the rows of runs by what identifies them."""
    for run in model.runs:
        if run.key in keys:
            yield from ((run.key.split("/")[0], number) for number in range(run.rows))


def _read(store: ContextStore, found: FileList, model: Model) -> list[tuple[str, int]]:
    """Return what the engine finds in the files of a list."""
    engine = model.store.engine
    if not found.files:
        return []
    paths = [f"{store.root}/{file}" for file in found.files]
    rows = engine.execute("SELECT _run_id, _row_seq FROM read_parquet(?)", [paths]).fetchall()
    return [(run, number) for run, number in rows]
