"""Part `large`: one store of 100,000 sections."""

from functools import partial
from pathlib import Path

from .asking import INSIDE, LONE
from .bench import UNCACHED, Bench
from .comparing import BOTH_WAYS, REFERENCE, Compared, Way, alone, compare
from .projects import SEED, pairs, queries
from .reference import Reference
from .report import Report, ms, times, us
from .serving import serving

__all__ = ["run"]

_PROJECTS, _SECTIONS_EACH = 500, 200
_COMMON, _COMMONEST = "one common word", "the commonest word"
_GOAL = 50


def run(bench: Bench, report: Report) -> None:
    """Compare the reference and the daemon over one store of many projects' documents."""
    projects = bench.few if bench.is_quick else _PROJECTS
    ours, theirs = (bench.folder(f"large-{side}") for side in ("ours", "theirs"))
    bench.corpus.view_single(ours, projects)
    result = _compare(bench, ours, bench.corpus.view_single(theirs, projects), projects)
    sections = projects * _SECTIONS_EACH
    report.section(
        f"Search in one store of {sections:,} sections",
        f"The documents of {projects} projects in one ContextPull store. Answers compared with the "
        f"reference's: {report.compared(result.answers, result.differing)}.",
    )
    report.table(
        ("query", "reference, ms", f"{LONE}, µs", f"{INSIDE}, µs", f"**{LONE}**", f"**{INSIDE}**"),
        [
            (
                kind,
                ms(result.median_s(REFERENCE, kind)),
                *(us(result.median_s(way, kind)) for way in BOTH_WAYS),
                *(f"{times(result.ratio(way, kind))}×" for way in BOTH_WAYS),
            )
            for kind in result.seconds
        ],
    )
    if projects >= _PROJECTS:
        for kind in (_COMMON, _COMMONEST):
            ratio = result.ratio(LONE, kind)
            report.goal(
                f"one store of {sections:,} sections, {kind}: ≥ {_GOAL}×", f"{times(ratio)}×", ratio >= _GOAL
            )


def _compare(bench: Bench, ours: Path, store: Path, projects: int) -> Compared:
    asked = {_COMMONEST: ["the"], **queries(SEED, projects, 2 if bench.is_quick else 4)}
    result = Compared()
    reference = Reference([store])
    with serving(ours, 1, **UNCACHED) as asker:
        for kind, text in pairs(asked):
            expected = [reference.expected(text)]
            ways = {REFERENCE: Way(alone(partial(reference.search, text)), expected)}
            ways |= {name: Way(partial(ask, asker, text), expected) for name, ask in BOTH_WAYS.items()}
            compare(result, kind, ways, 3)
    reference.close()
    return result
