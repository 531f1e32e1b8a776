"""Part `context`: SQL and ranked retrieval over context stores, against the bare engine and a bare library.

The stores are made by the tests' own maker of such stores; both are asked over the daemon's socket, guard,
worker process and encoding included.
"""

import importlib.util
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from .asking import Asker
from .bench import FEW, Bench
from .daemons import Daemon
from .report import Report, ms, times
from .timing import in_a_row, interleaved, median_s, timed
from .waiting import wait_for
from .wire import LONG_MS
from .words import ADJECTIVES, NOUNS, VERBS

__all__ = ["run"]

_MAKER = Path(__file__).parents[2] / "readers" / "contextful" / "maker.py"
_PARTS, _ROWS = 50, 20_000  # a million rows
_TEXTS = 100_000
_STORE = "wide"
_SQL = (
    "SELECT region, kind, count(*) AS n, sum(amount) AS total, max(weight) AS most "
    "FROM {} GROUP BY region, kind ORDER BY region, kind"
)
_GOAL_SQL, _GOAL_RETRIEVE = 1.3, 2.0
_SEED = 20261


def run(bench: Bench, report: Report) -> None:
    """Compare a grouped query and a ranked one; the second identical ones too."""
    folder = bench.folder("contexts")
    folder.mkdir()
    root, texts = _make(folder / "project")
    (folder / "stores").mkdir()
    (folder / "stores" / f"{_STORE}.sqlite").symlink_to(root)
    with Daemon(folder / "stores") as daemon, closing(Asker(daemon.start())) as asker:
        wait_for(lambda: _is_open(asker), "the store to be open")
        _sql(bench, report, asker, root)
        _retrieve(bench, report, asker, texts)


def _is_open(asker: Asker) -> bool:
    status = asker.status()  # its texts are indexed too, which takes a worker
    return bool(status["stores"].get("open") and status["sidecars"].get("ready"))


# --------------------------------------------------------------------------- the store


def _make(project: Path) -> tuple[Path, list[str]]:
    """Make a store of two tables; return its root, and the texts of one in the order of their rows."""
    spec = importlib.util.spec_from_file_location("context_maker", _MAKER)
    if spec is None or spec.loader is None:
        raise RuntimeError("the maker of context stores is gone")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with closing(module.StoreMaker(project, "research")) as store:
        columns = {"id": "int64", "region": "utf8", "kind": "utf8", "amount": "int64", "weight": "float64"}
        facts = store.table("facts", columns)
        for part in range(_PARTS):
            facts.run_of(f"run-{part:04d}", _facts(part), f"2030-01-01T{part // 60:02d}:{part % 60:02d}:00Z")
        texts = _texts()
        docs = store.table("docs", {"id": "utf8", "title": "utf8", "body": "utf8"}, primary_key=["id"])
        # Written as one file of lines, which the engine reads faster than it takes rows one by one.
        lines = project / "texts.csv"
        lines.write_text("".join(f"{at}|{text}\n" for at, text in enumerate(texts)), encoding="utf-8")
        docs.run_of(
            "run-0001",
            f"SELECT 'd' || a AS id, 'Note ' || a AS title, b AS body "  # noqa: S608 - our own file
            f"FROM read_csv('{lines}', delim = '|', columns = {{'a': 'BIGINT', 'b': 'VARCHAR'}})",
            "2030-01-01T00:00:00Z",
        )
        root: Path = store.root
    return root, texts


def _facts(part: int) -> str:
    return (
        f"SELECT {part * _ROWS} + i AS id, 'region-' || (i % 16) AS region, "  # noqa: S608 - numbers
        f"'kind-' || (i % 7) AS kind, (i * 7919 + {part}) % 100000 AS amount, sqrt(i) AS weight "
        f"FROM range({_ROWS}) AS r(i)"
    )


def _texts() -> list[str]:
    chosen = random.Random(_SEED)  # noqa: S311 - no secret

    def sentence() -> str:
        words = [chosen.choice(ADJECTIVES), chosen.choice(NOUNS), chosen.choice(VERBS), chosen.choice(NOUNS)]
        return f"The {' '.join(words)}."

    return [" ".join(sentence() for _ in range(8)) for _ in range(_TEXTS)]


# --------------------------------------------------------------------------- SQL


def _sql(bench: Bench, report: Report, asker: Asker, root: Path) -> None:
    import duckdb

    files = sorted(str(path) for path in (root / "tables" / "facts").rglob("*.parquet"))
    listed = ", ".join(f"'{path}'" for path in files)
    bare = _SQL.format(f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)")
    params = {"store": _STORE, "sql": _SQL.format("facts"), "deadline_ms": LONG_MS}
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        sides: dict[str, Callable[[], float]] = {
            "bare": lambda: in_a_row(lambda: engine.execute(bare).fetchall())[0],
            "ours": lambda: asker.lone("context.query", params, dict[str, Any])[0],
        }
        twice = [_twice(asker, {**params, "sql": f"{params['sql']} -- {at}"}) for at in range(5)]
        rows = engine.execute(bare).fetchall()
        ours = asker.lone("context.query", params, dict[str, Any])[1]
        seconds = {name: median_s(every) for name, every in interleaved(sides, bench.rounds(FEW)).items()}
    report.section(
        f"One grouped query over {_PARTS * _ROWS:,} rows in {_PARTS} parts",
        "The engine by itself, in the bench's process, over the same list of files, against `context.query` "
        "over the socket: the statement is judged, asked in a worker process, and its cells are encoded. "
        "No answer is remembered; a statement's columns are, so that the second identical one takes less. "
        f"Answers: {report.compared(1, _differences(rows, ours['rows']))}.",
    )
    ratio = seconds["ours"] / seconds["bare"]
    report.table(
        ("the engine, ms", "`context.query`, ms", "**its multiple**", "the first time, ms", "the second, ms"),
        [
            (
                ms(seconds["bare"]),
                ms(seconds["ours"]),
                f"**{times(ratio)}**",
                *(ms(median_s(each)) for each in zip(*twice, strict=True)),
            )
        ],
    )
    report.goal(f"context.query: at most {_GOAL_SQL}× the bare engine", times(ratio), ratio <= _GOAL_SQL)


def _twice(asker: Asker, params: dict[str, object]) -> tuple[float, float]:
    """Return the seconds of a statement that was never asked before, and of the same once more."""

    def ask() -> object:
        return asker.wire.call("context.query", params, dict[str, Any])

    return timed(ask)[0], timed(ask)[0]


def _differences(rows: Sequence[Sequence[Any]], ours: Sequence[Sequence[Any]]) -> list[str]:
    """Return the first row that is another one; wide integers are text in ours."""
    expected = [[region, kind, str(count), str(total), most] for region, kind, count, total, most in rows]
    return [f"{a} is not {b}" for a, b in zip(expected, ours, strict=True) if a != list(b)][:1]


# --------------------------------------------------------------------------- retrieval


class _Library(Struct):
    """The bare library over the same candidates: it is told the texts' words, and ranks them."""

    words: list[list[str]]

    def best(self, query: str) -> list[int]:
        library: Any = importlib.import_module("rank_bm25")  # of the extra `bench`
        scores: list[float] = library.BM25Okapi(self.words).get_scores(query.lower().split()).tolist()
        return sorted(range(len(scores)), key=lambda at: -scores[at])[:10]


def _seconds(function: Callable[[], object]) -> float:
    return in_a_row(function)[0]


def _seconds_of(asker: Asker, params: Mapping[str, object]) -> float:
    return asker.lone("corpus.retrieve", params, dict[str, Any])[0]


def _retrieve(bench: Bench, report: Report, asker: Asker, texts: Sequence[str]) -> None:
    chosen = random.Random(_SEED + 1)  # noqa: S311 - no secret
    queries = [" ".join((chosen.choice(ADJECTIVES), chosen.choice(NOUNS))) for _ in range(6)]
    window = [f"Note {_TEXTS - 1 - at} {texts[_TEXTS - 1 - at]}" for at in range(200)]
    rows: list[Sequence[str]] = []
    ratios: list[float] = []
    for query in queries[:2] if bench.is_quick else queries:
        params = {"store": _STORE, "query": query, "prefix": "docs", "limit": 10, "deadline_ms": LONG_MS}
        block = asker.lone("corpus.retrieve", params, dict[str, Any])[1]["contextful.retrieval"]
        library = _Library([text.lower().replace(".", "").split() for text in window])
        sides: dict[str, Callable[[], float]] = {
            "library": partial(_seconds, partial(library.best, query)),
            "ours": partial(_seconds_of, asker, params),
        }
        seconds = {name: median_s(each) for name, each in interleaved(sides, bench.rounds(FEW)).items()}
        ratios.append(seconds["ours"] / seconds["library"])
        found = f"{block['matched']} of {block['candidates_prefloor']}"
        rows.append((query, found, ms(seconds["library"]), ms(seconds["ours"]), f"**{times(ratios[-1])}**"))
    report.section(
        f"Ranked retrieval over {_TEXTS:,} rows",
        "`rank_bm25` over the candidates of the same window, already cut into words, in the bench's process, "
        "against `corpus.retrieve` over the socket: the window, its words, the floor, dedup by content, the "
        "ranking and the rows' cells. In bold our multiple of its time.",
    )
    report.table(("query", "matched", "the library, ms", "`corpus.retrieve`, ms", "**its multiple**"), rows)
    ratio = median_s(ratios)
    report.goal(
        f"corpus.retrieve over {_TEXTS:,} rows: at most {_GOAL_RETRIEVE:g}× a bare BM25 library",
        times(ratio),
        ratio <= _GOAL_RETRIEVE,
    )
