"""Part `many`: ten thousand small stores. Does it start, answer and follow a change, and at what cost?"""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from contextpull.ingest import ingest  # type: ignore[import-untyped]  # the package has no types
from msgspec import Struct, field

from collated.protocol import SearchResult

from .answers import LIMIT, Answer, Shown
from .asking import Asker, search_params
from .bench import UNCACHED, Bench
from .building import Built, watch_build
from .comparing import BOTH_WAYS, REFERENCE
from .daemons import Daemon
from .processes import Memory, memory_of
from .projects import SEED, queries, write_small
from .reference import Key, Reference
from .report import Report, mb, ms, times, us
from .timing import median_s, timed
from .waiting import wait_for

__all__ = ["run"]

_STORES = 10_000
_QUICK = 20  # times the fewest stores
_CHUNK = 1_000  # stores that the reference has open at a time
_REWRITES = 3
_WAIT_S = 600.0


class _Many(Struct):
    """What was measured: moments of starts, memory by moment, and seconds by class and contender."""

    count: int
    built: Built
    moments: dict[str, float] = field(default_factory=dict[str, float])
    memory: dict[str, Memory] = field(default_factory=dict[str, Memory])
    seconds: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    answers: int = 0
    differing: list[str] = field(default_factory=list[str])


def run(bench: Bench, report: Report) -> None:
    """Start cold over many small stores, ask, change one, start again."""
    count = min(_STORES, _QUICK * bench.few) if bench.is_quick else _STORES
    folder = bench.folder("many")
    stores = bench.corpus.view_small(folder, count)
    asked = {kind: texts[0] for kind, texts in queries(SEED, count, 1).items()}
    many = _Many(count, Built(count))
    expected = _expected(many, stores, asked)
    with Daemon(folder, **UNCACHED) as daemon:
        with closing(_start(many, daemon, asked, "cold")) as asker:
            _ask(many, asker, asked, expected)
            many.moments["a rewritten store is found after its last write"] = median_s(
                [_rewrite(asker, stores[number], number) for number in range(_REWRITES)]
            )
        daemon.stop()
        _start(many, daemon, asked, "warm").close()
        many.memory["started warm, after one query"] = memory_of(daemon.pid)
    _show(report, many)


def _expected(many: _Many, stores: Sequence[Path], asked: Mapping[str, str]) -> dict[str, Answer]:
    """Return what the reference answers, a thousand stores open at a time, and keep how long that took."""
    found: dict[str, list[tuple[Key, Shown]]] = {kind: [] for kind in asked}
    for first in range(0, len(stores), _CHUNK):
        with closing(Reference(stores[first : first + _CHUNK])) as reference:
            for kind, text in asked.items():
                reference.learn(text)
                took, ranked = timed(partial(reference.ranked, text))
                found[kind] += ranked
                mine = many.seconds.setdefault(kind, {})
                mine[REFERENCE] = mine.get(REFERENCE, 0.0) + took
    merged = {kind: sorted(every, key=lambda each: each[0]) for kind, every in found.items()}
    return {kind: [hit for _, hit in every[:LIMIT]] for kind, every in merged.items()}


def _start(many: _Many, daemon: Daemon, asked: Mapping[str, str], how: str) -> Asker:
    """Start the daemon, and set down when stores were known, when it first answered, when all was ready."""
    started = time.perf_counter()
    asker = Asker(daemon.start(inside=True))
    text = next(iter(asked.values()))
    moments: dict[str, Callable[[], bool | None]] = {
        "all stores known": partial(_are_open, asker, many.count),
        "first whole answer": partial(_is_whole, asker, text, many.count),
    }
    for name, has_come in moments.items():
        wait_for(has_come, name, wait_s=_WAIT_S)
        many.moments[f"{how} start: {name}"] = time.perf_counter() - started
    built = watch_build(daemon, asker.wire, many.count, started)
    many.moments[f"{how} start: all answer from arrays"] = built.ready_s
    many.moments[f"{how} start: arrays combined"] = built.settled_s
    if how == "cold":
        many.built = built
        many.memory["started cold, all ready"] = built.memory
    return asker


def _are_open(asker: Asker, count: int) -> bool | None:
    stores: Mapping[str, int] = asker.status()["stores"]
    return stores.get("open", 0) == count or None


def _is_whole(asker: Asker, text: str, count: int) -> bool | None:
    result = asker.wire.call("search", search_params(text), SearchResult)
    return (result.complete and result.stores.asked == count) or None


def _ask(many: _Many, asker: Asker, asked: Mapping[str, str], expected: Mapping[str, Answer]) -> None:
    for kind, text in asked.items():
        for way, ask in BOTH_WAYS.items():
            ask(asker, text)  # the winners' stores are opened now
            many.seconds[kind][way], (answer,) = ask(asker, text)
            many.answers += 1
            if answer != expected[kind]:
                many.differing.append(f"{kind}, {way}")
    many.memory["after one query of each class"] = memory_of(asker.daemon.pid)


def _rewrite(asker: Asker, store: Path, number: int) -> float:
    """Rename a new file over *store*, and return how long after that its new word is found."""
    word = f"freshword{number}"
    with tempfile.TemporaryDirectory(prefix="collated-bench-") as name:
        sources, made = Path(name) / "sources", Path(name) / "new.sqlite"
        sources.mkdir()
        write_small(sources, SEED, number, f"## News\n\nThe store now says {word} and nothing else.")
        ingest(sources, made)
        beside = store.with_suffix(".new")
        shutil.copyfile(made, beside)
    beside.replace(store)
    written = time.perf_counter()
    search = partial(asker.wire.call, "search", search_params(word), SearchResult)
    wait_for(lambda: search().hits or None, f"{word} to be found")
    return time.perf_counter() - written


# --------------------------------------------------------------------------- showing


def _show(report: Report, many: _Many) -> None:
    report.section(
        f"{many.count:,} small stores",
        "Each of 2 Markdown files × 4 sections. The reference has a thousand of them open at a time; opening "
        "is not in its times. Answers compared with its: "
        f"{report.compared(many.answers, many.differing)}.",
    )
    report.table(("moment", "s"), [(name, f"{seconds:.2f}") for name, seconds in many.moments.items()])
    report.text("")
    report.table(
        ("query", "reference, ms", *(f"{way}, µs" for way in BOTH_WAYS), *(f"**{w}**" for w in BOTH_WAYS)),
        [
            (
                kind,
                ms(took[REFERENCE]),
                *(us(took[way]) for way in BOTH_WAYS),
                *(f"{times(took[REFERENCE] / took[way])}×" for way in BOTH_WAYS),
            )
            for kind, took in many.seconds.items()
        ],
    )
    report.text("")
    report.table(
        ("memory, MB", "RSS", "PSS", "no file's"),
        [
            (moment, mb(memory.rss), mb(memory.pss), mb(memory.anonymous))
            for moment, memory in many.memory.items()
        ],
    )
    built = many.built
    report.text(
        "",
        f"The builder took {built.cpu_s:.1f} s of processor time and {mb(built.peak_bytes)} MB at its peak; "
        f"{built.kept_bytes / many.count / 1e3:.1f} KB a store are kept on disk.",
    )
    found = many.moments["a rewritten store is found after its last write"]
    report.goal(f"{many.count:,} stores: a rewritten one visible within 1 s", f"{found:.2f} s", found <= 1)
    report.goal(f"{many.count:,} stores: same lists", f"{len(many.differing)} differ", not many.differing)
