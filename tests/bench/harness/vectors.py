"""Part `vectors`: exact search over 100,000 stored vectors, in process, in a bounded memory."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collated_readers import Budget
from collated_readers.book_agent import BookAgent
from collated_readers.opening import StoreConnection, ask, open_store
from collated_readers.vectors import MEMORY_BYTES, Metric, Similar

from .bench import Bench
from .report import Report, mb, ms, times
from .timing import interleaved, median_s, timed

__all__ = ["run"]

_RECORDS, _FEW, _DIMENSIONS = 100_000, 5_000, 1_024
_METRICS: tuple[Metric, ...] = ("dot", "cosine", "l2")
_LIMITS = (10, 1_000)
_BATCH = 256
_SEED = 20
_GOAL = 1.5

_READING, _MATMUL = "reading", "matmul"
Vectors = NDArray[np.float32]

# In a process of its own: the most that one search adds to what numpy and an open store take anyway.
_GROWTH = """
import json, sys
from pathlib import Path
import numpy
from collated_readers import Budget
from collated_readers.book_agent import BookAgent
from collated_readers.opening import open_store
path, query = Path(sys.argv[1]), json.loads(sys.stdin.read())
budget = Budget.lasting(600)
db = open_store(path, copies=path.parent / "copies", copy_limit_bytes=0, budget=budget)
numpy.ones((256, len(query)), numpy.float32) @ numpy.ones(len(query), numpy.float32)
import collated_readers.book_agent.scan
def peak():  # what getrusage says begins with what the parent had
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM"))
before = peak()
BookAgent().similar(db, query, 1000, budget)
print(peak() - before, peak())
"""


def run(bench: Bench, report: Report) -> None:
    """Compare a search with the bare reading of its BLOBs and numpy's product of the whole matrix."""
    records = _FEW if bench.is_quick else _RECORDS
    folder = bench.folder("vectors")
    folder.mkdir()
    vectors = _vectors(records)
    stores: dict[Metric, Path] = {metric: _write(folder, metric, vectors) for metric in _METRICS}
    query = np.random.default_rng(_SEED + 1).standard_normal(_DIMENSIONS)
    query /= np.linalg.norm(query)
    seconds, differing = _measure(bench, stores, vectors, query)
    floors = [sum(both) for both in zip(seconds[_READING], seconds[_MATMUL], strict=True)]
    ratios = {
        name: median_s([one / floor for one, floor in zip(each, floors, strict=True)])
        for name, each in seconds.items()
    }
    grown, peak = _growth(stores["dot"], query)
    answers = len(_METRICS) * len(_LIMITS)
    report.section(
        f"Vector search over {records:,} × {_DIMENSIONS:,} float32",
        "One SQLite file, read and scored for each query; nothing is kept between queries. The floor is what "
        f"nobody can do without: reading the BLOBs alone ({ms(median_s(seconds[_READING]))} ms) and numpy's "
        f"product of the whole matrix in memory ({ms(median_s(seconds[_MATMUL]))} ms), in the same run. "
        f"Answers compared with those of float64: {report.compared(answers, differing)}.",
    )
    report.table(
        ("search", "ms", "multiple of the same round's floor"),
        [
            (name, ms(median_s(each)), f"{times(ratios[name])}×")
            for name, each in seconds.items()
            if name not in (_READING, _MATMUL)
        ],
    )
    report.text(
        "", f"A process grows by {mb(grown)} MB for it, to {mb(peak)} MB; it may by {mb(MEMORY_BYTES)} MB."
    )
    if records == _RECORDS:
        ratio = ratios[_name("dot", _LIMITS[0])]
        goal = f"vectors, {records:,} × {_DIMENSIONS:,}: ≤ {_GOAL}× reading and product"
        report.goal(goal, f"{times(ratio)}×", ratio <= _GOAL)
        report.goal("a vector search's memory: ≤ 64 MiB", f"{mb(grown)} MB", grown <= MEMORY_BYTES)


def _name(metric: Metric, limit: int) -> str:
    return f"{metric}, the nearest {limit:,}"


def _vectors(records: int) -> Vectors:
    vectors = np.random.default_rng(_SEED).standard_normal((records, _DIMENSIONS), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _write(folder: Path, metric: Metric, vectors: Vectors) -> Path:
    """Write the store once, and a name and a manifest of it for each metric."""
    path, first = folder / f"{metric}.sqlite", folder / f"{_METRICS[0]}.sqlite"
    manifest = {
        "version": "book-agent-explicit-v1",
        "model": "none",
        "dimensions": _DIMENSIONS,
        "embedding_format": "float32-le",
        "normalization": "l2",
        "metric": metric,
        "sqlite_schema": {"table": "passages", "id": "id", "text": "body", "vector": "vector"},
    }
    path.with_suffix(".manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    if path != first:
        os.link(first, path)
        return path
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE passages (id INTEGER PRIMARY KEY, body TEXT, vector BLOB)")
        db.executemany("INSERT INTO passages VALUES (?, ?, ?)", _rows(vectors))
        db.commit()
    return path


def _rows(vectors: Vectors) -> Iterator[tuple[int, str, bytes]]:
    for number, vector in enumerate(vectors):
        yield number, f"passage {number} " + "of some book or other " * 40, vector.tobytes()


def _measure(
    bench: Bench, stores: dict[Metric, Path], vectors: Vectors, query: NDArray[np.float64]
) -> tuple[dict[str, list[float]], list[str]]:
    """Return the seconds of each contender, and the searches whose answer is not the right one."""
    opened: dict[Metric, StoreConnection] = {
        metric: _open(path, bench.scratch) for metric, path in stores.items()
    }
    single = query.astype(np.float32)
    ways: dict[str, Callable[[], object]] = {
        _READING: partial(ask, opened["dot"], _read, Budget.lasting(3_600)),
        _MATMUL: lambda: vectors @ single,
    }
    differing: list[str] = []
    for metric, db in opened.items():
        for limit in _LIMITS:
            ways[_name(metric, limit)] = search = partial(_search, db, query.tolist(), limit)
            if [near.id for near in search()] != _expected(metric, vectors, query, limit):
                differing.append(_name(metric, limit))
    timings = {name: partial(_timed, way) for name, way in ways.items()}
    seconds = interleaved(timings, bench.rounds(bench.few))
    for db in opened.values():
        db.close()
    return seconds, differing


def _timed(way: Callable[[], object]) -> float:
    way()  # the first time after another's turn finds the caches full of the other's data
    return timed(way)[0]


def _open(path: Path, scratch: Path) -> StoreConnection:
    budget = Budget.lasting(60)
    return open_store(path, copies=scratch / "copies", copy_limit_bytes=0, budget=budget)


def _read(db: StoreConnection) -> None:
    with closing(db.execute("SELECT vector FROM passages")) as rows:
        while rows.fetchmany(_BATCH):
            pass


def _search(db: StoreConnection, query: list[float], limit: int) -> list[Similar]:
    budget = Budget.lasting(3_600)
    return ask(db, lambda db: BookAgent().similar(db, query, limit, budget), budget)


def _expected(metric: Metric, vectors: Vectors, query: NDArray[np.float64], limit: int) -> list[str]:
    """Return the ids of the nearest, as float64 has them."""
    scores: NDArray[Any] = np.concatenate(
        [
            _scores(metric, vectors[at : at + 4_096].astype(np.float64), query)
            for at in range(0, len(vectors), 4_096)
        ]
    )
    return [f"{number}" for number in np.argsort(scores, kind="stable")[:limit]]


def _scores(metric: Metric, vectors: NDArray[np.float64], query: NDArray[np.float64]) -> NDArray[Any]:
    if metric == "l2":
        return np.asarray(np.linalg.norm(vectors - query, axis=1))
    along = -(vectors @ query)
    return along / np.linalg.norm(vectors, axis=1) if metric == "cosine" else along


def _growth(path: Path, query: NDArray[np.float64]) -> tuple[int, int]:
    """Return the bytes by which a search makes a process grow, and the most that it ever has."""
    done = subprocess.run(
        [sys.executable, "-c", _GROWTH, path],
        input=json.dumps(query.tolist()),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    grown, peak = done.stdout.split()
    return int(grown), int(peak)
