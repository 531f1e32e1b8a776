"""Part `plot`: time against the number of stores, for the reference, SQLite alone and the sidecars."""

import time
from contextlib import ExitStack, closing
from functools import partial

from .asking import Asker
from .bench import UNCACHED, Bench
from .building import watch_build
from .comparing import REFERENCE, Compared, Way, alone, compare, lone
from .daemons import Daemon
from .plot import Line, Panel, draw
from .projects import CLASSES, SEED, pairs, queries
from .reference import Reference
from .report import Report, ms
from .waiting import wait_for

__all__ = ["PICTURE", "run"]

PICTURE = "growth.svg"
SQLITE, ARRAYS = "daemon, SQLite only", "daemon with sidecars"
_COLOURS = {REFERENCE: "#8a8a8a", SQLITE: "#d97706", ARRAYS: "#1d5fd1"}
_SIZES = (10, 20, 50, 100, 200, 500, 1_000, 2_000)
_ROUNDS = 1
# All of them open, as the reference has them; else the daemon would reopen the least recently used.
_OPEN: dict[str, object] = {**UNCACHED, "search__max_open_stores": 2 * _SIZES[-1]}


def run(bench: Bench, report: Report) -> None:
    """Let one folder grow under all three, and time a question of each class at each size."""
    sizes = [size for size in _SIZES if size <= 2 * bench.many]
    results: dict[int, Compared] = {}
    ours, theirs = (bench.folder(f"grown-{side}") for side in ("ours", "theirs"))
    ours.mkdir()
    with ExitStack() as stack:
        reference = stack.enter_context(closing(Reference([])))
        daemons = {
            ARRAYS: Daemon(ours, **_OPEN),
            SQLITE: Daemon(ours, **_OPEN, cache__sidecars="false"),
        }
        askers = {
            name: stack.enter_context(closing(Asker(stack.enter_context(daemon).start())))
            for name, daemon in daemons.items()
        }
        for before, size in zip((0, *sizes), sizes, strict=False):
            bench.corpus.view(ours, range(before, size))
            reference.add(bench.corpus.view(theirs, range(before, size)))
            _settle(askers, size)
            results[size] = _at(reference, askers, _ROUNDS)
    _show(report, results)


def _settle(askers: dict[str, Asker], size: int) -> None:
    for asker in askers.values():
        asker.wire.call("rescan", {}, object)
    wait_for(lambda: askers[SQLITE].status()["stores"].get("open", 0) == size or None, f"{size} open stores")
    watch_build(askers[ARRAYS].daemon, askers[ARRAYS].wire, size, time.perf_counter())


def _at(reference: Reference, askers: dict[str, Asker], rounds: int) -> Compared:
    result = Compared()
    for kind, text in pairs(queries(SEED, _SIZES[0], 1)):
        expected = [reference.expected(text)]
        ways = {REFERENCE: Way(alone(partial(reference.search, text)), expected)}
        ways |= {name: Way(partial(lone, asker, text), expected) for name, asker in askers.items()}
        compare(result, kind, ways, rounds)
    return result


def _show(report: Report, results: dict[int, Compared]) -> None:
    answers = sum(result.answers for result in results.values())
    differing = [each for result in results.values() for each in result.differing]
    report.section(
        "Time against the number of stores",
        f"![milliseconds for each class of query over 10 to {max(results):,} stores]({PICTURE})",
        "One question of each class, asked one at a time over the socket, nothing remembered; stores are "
        f"added to one folder. Compared with the reference's: {report.compared(answers, differing)}. Medians "
        "over the classes, ms:",
    )
    report.table(
        ("stores", *_COLOURS),
        [(f"{size:,}", *(ms(each.median_s(name)) for name in _COLOURS)) for size, each in results.items()],
    )
    panels = [
        Panel(
            kind,
            tuple(
                Line(name, colour, tuple((size, each.median_s(name, kind)) for size, each in results.items()))
                for name, colour in _COLOURS.items()
            ),
        )
        for kind in CLASSES
    ]
    report.pictures[PICTURE] = draw("Time of one search against the number of stores", "stores", panels)
