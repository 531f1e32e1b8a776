"""Parts `global` and `single`: what the other rankings cost, and that `global` is the one big store."""

from functools import partial
from pathlib import Path

from contextpull.ops import Ops  # type: ignore[import-untyped]  # the package has no types
from contextpull.store import Store  # type: ignore[import-untyped]  # the package has no types

from .answers import LIMIT, Answer, Shown
from .asking import LONE, Asker
from .bench import Bench
from .comparing import BOTH_WAYS, Compared, Way, alone, compare, lone
from .projects import CLASSES, SEED, pairs, queries
from .report import Report, ms, times, us

__all__ = ["run_costs", "run_single"]

CONTRACT, GLOBAL = "contract", "global"
_RANKINGS = (CONTRACT, GLOBAL, "smart", "fused")
_GOAL = 1.2
_SINGLE = "one store"


def run_costs(bench: Bench, report: Report) -> None:
    """Time every ranking on the same questions, over each number of stores, both ways of asking."""
    for count in bench.counts:
        results = {way: _costs(bench, count, way) for way in BOTH_WAYS}
        report.section(
            f"What the rankings cost over {count:,} stores",
            "Microseconds, in turns, nothing remembered; in bold the multiple of `contract`'s time.",
        )
        for way, result in results.items():
            _show_costs(report, count, way, result)


def _costs(bench: Bench, count: int, way: str) -> Compared:
    asker, ask, result = bench.asker(count), BOTH_WAYS[way], Compared()
    for kind, text in pairs(bench.asked(count)):
        turns = {ranking: partial(ask, asker, text, ranking=ranking) for ranking in _RANKINGS}
        # Each is held to its own first answer; that `global` is right is the part `single`.
        ways = {ranking: Way(turn, turn()[1]) for ranking, turn in turns.items()}
        compare(result, kind, ways, max(5, bench.rounds(count)))
    return result


def _show_costs(report: Report, count: int, way: str, result: Compared) -> None:
    report.compared(result.answers, result.differing)
    report.table(
        (f"query, {way}", *(f"{each}, µs" for each in _RANKINGS), *(f"**{e}**" for e in _RANKINGS[1:])),
        [
            (
                kind or "**all**",
                *(us(result.median_s(ranking, kind)) for ranking in _RANKINGS),
                *(f"{times(1 / result.ratio(ranking, kind, to=CONTRACT))}×" for ranking in _RANKINGS[1:]),
            )
            for kind in (*CLASSES, None)
        ],
    )
    report.text("")
    worst = result.slowest(GLOBAL, to=CONTRACT)
    every, most = (1 / result.ratio(GLOBAL, kind, to=CONTRACT) for kind in (None, worst))
    report.goal(
        f"global over {count:,} stores, {way}: at most {_GOAL}× contract at the median over all",
        f"{times(every)}× (at most {times(most)}×: {worst})",
        every <= _GOAL,
    )


def run_single(bench: Bench, report: Report) -> None:
    """Compare `global` with the reference on one store made of all documents, with paths STORE/PATH."""
    for count in bench.counts:
        store = bench.corpus.view_single(bench.folder(f"single-{count}"), count)
        result = _single(bench, count, store)
        report.section(
            f"`global` over {count:,} stores against one store of all their documents",
            "The reference reader on one ContextPull store with paths STORE/PATH. Ids, order, scores, "
            f"snippets: {report.compared(result.answers, result.differing)}.",
        )
        report.table(
            ("query", "reference on one store, ms", "global, one at a time, µs", "**faster**"),
            [
                (
                    kind or "**all**",
                    ms(result.median_s(_SINGLE, kind)),
                    us(result.median_s(LONE, kind)),
                    f"{times(result.ratio(LONE, kind, to=_SINGLE))}×",
                )
                for kind in (*CLASSES, None)
            ],
        )
        report.goal(
            f"global over {count:,} stores: the lists of one store",
            f"{len(result.differing)} of {result.answers} differ",
            not result.differing,
        )


def _single(bench: Bench, count: int, store: Path) -> Compared:
    asker, result = bench.asker(count), Compared()
    ops = Ops(Store.open(store))
    for kind, text in pairs(queries(SEED, count, 2 if bench.is_quick else 6)):
        expected = [_of_one(ops, text)]
        ways = {
            _SINGLE: Way(alone(partial(_of_one, ops, text)), expected),
            LONE: Way(partial(_in_one, asker, text), expected),
        }
        compare(result, kind, ways, 2)
    ops.store.close()
    return result


def _of_one(ops: Ops, text: str) -> Answer:
    hits = ops.search(text, limit=LIMIT).hits
    return [Shown("", h.id, h.doc, h.heading_path, h.kind, h.score, h.snippet) for h in hits]


def _in_one(asker: Asker, text: str) -> tuple[float, list[Answer]]:
    """Return what the daemon's `global` gives, as if it came from the one store."""
    seconds, (answer,) = lone(asker, text, ranking=GLOBAL)
    return seconds, [
        [
            each._replace(store="", id=f"{each.store}/{each.id}", doc=f"{each.store}/{each.doc}")
            for each in answer
        ]
    ]
