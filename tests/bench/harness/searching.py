"""Part `search`: search over many stores, the reference in this process, the daemon asked three ways."""

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from collated.protocol import SearchResult

from .answers import Answer
from .asking import IN_FLIGHT, INSIDE, LONE, PIPED, Asker, search_params
from .bench import FEW, MANY, Bench
from .building import watch_build
from .comparing import REFERENCE, Compared, Way, alone, compare, inside, lone, whole
from .daemons import Daemon
from .projects import CLASSES, NOWHERE, SEED, different, pairs
from .report import Report, ms, times, us

__all__ = ["run"]

CACHED = "cache on"
WAYS = (LONE, PIPED, INSIDE)


def run(bench: Bench, report: Report) -> None:
    """Compare over each number of stores, and say what comes of the goals."""
    for count in bench.counts:
        with ExitStack() as stack:
            cached = stack.enter_context(_cached(bench, count)) if count <= FEW else None
            result = _over(bench, count, cached)
        _show(report, count, result, (*WAYS, CACHED) if cached else WAYS)
        _goals(report, count, result)


def _over(bench: Bench, count: int, cached: Asker | None) -> Compared:
    reference, asker, result = bench.reference(count), bench.asker(count), Compared()
    many = different(SEED, count, IN_FLIGHT)  # the same ones in flight would share one answer
    together = {kind: [lone(asker, text)[1][0] for text in texts] for kind, texts in many.items()}
    for kind, text in pairs(bench.asked(count)):
        expected = [reference.expected(text)]
        ways = {
            REFERENCE: Way(alone(partial(reference.search, text)), expected),
            LONE: Way(partial(lone, asker, text), expected),
            PIPED: Way(partial(_piped, asker, many[kind]), together[kind]),
            INSIDE: Way(partial(inside, asker, text), expected),
        }
        if cached is not None:
            ways[CACHED] = Way(partial(lone, cached, text), expected)
        compare(result, kind, ways, bench.rounds(count))
    return result


@contextmanager
def _cached(bench: Bench, count: int) -> Generator[Asker]:
    """Lend who asks a daemon that remembers answers, over the socket alone."""
    with Daemon(bench.ours(count)).start() as daemon, closing(Asker(daemon)) as asker:
        watch_build(daemon, asker.wire, count, time.perf_counter())
        yield asker


def _piped(asker: Asker, texts: Sequence[str]) -> tuple[float, list[Answer]]:
    seconds, answers = asker.piped("search", [search_params(text) for text in texts], SearchResult)
    return seconds, [whole(answer) for answer in answers]


def _show(report: Report, count: int, result: Compared, ways: Sequence[str]) -> None:
    report.section(
        f"Search over {count:,} stores",
        "Reference: `contextpull.ops.Ops` over the same stores, in one process, one after the other. "
        "The daemon remembers no answer, except in a column that says so. It is asked one at a time over its "
        f"socket, with {IN_FLIGHT} different requests of the class in flight (time for each), and in its own "
        "process without a socket. Answers compared with the reference's (ids, order, scores, snippets), "
        "those in flight with those asked one at a time: "
        f"{report.compared(result.answers, result.differing)}.",
    )
    report.table(
        ("query", "reference, ms", *(f"{way}, µs" for way in ways), *(f"**{way}**" for way in ways)),
        [
            (
                kind or "**all**",
                ms(result.median_s(REFERENCE, kind)),
                *(us(result.median_s(way, kind)) for way in ways),
                *(f"{times(result.ratio(way, kind))}×" for way in ways),
            )
            for kind in (*CLASSES, None)
        ],
    )


def _goals(report: Report, count: int, result: Compared) -> None:
    name = f"search over {count:,} stores"
    report.goal(f"{name}: same lists", f"{len(result.differing)} differ", not result.differing)
    worst = result.slowest(LONE)
    least = result.ratio(LONE, worst)
    if count <= FEW:
        every = result.ratio(LONE)
        report.goal(f"{name}: ≥ 10× at the median over all", f"{times(every)}×", every >= 10)
        report.goal(f"{name}: no class slower", f"{times(least)}× ({worst})", least >= 1)
    if count >= MANY:
        report.goal(f"{name}: ≥ 30× in every class", f"{times(least)}× ({worst})", least >= 30)
        for way in WAYS:
            ratio = result.ratio(way, NOWHERE)
            report.goal(f"{name}: ≥ 1,000× where nothing matches, {way}", f"{times(ratio)}×", ratio >= 1_000)
