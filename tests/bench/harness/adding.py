"""Part `more`: what one more store costs that cannot match."""

from functools import partial
from statistics import median

from .asking import LONE
from .bench import Bench
from .comparing import BOTH_WAYS, REFERENCE, Compared, Way, alone, compare
from .projects import SEED, own_codes
from .report import Report, us

__all__ = ["run"]

_WORDS = 6
_GOAL = 0.01


def run(bench: Bench, report: Report) -> None:
    """Ask for words of single stores, among few stores and among many."""
    few, many = bench.few, bench.many
    if few == many:
        return
    words = own_codes(SEED, range(min(few, _WORDS)))
    results = {count: _over(bench, count, words) for count in (few, many)}
    rows: list[tuple[str, ...]] = []
    more: dict[str, float] = {}
    for way in (REFERENCE, *BOTH_WAYS):
        least, most = (median(results[count].seconds["one store's"][way]) for count in (few, many))
        more[way] = (most - least) / (many - few)
        rows.append((way, us(least), us(most), f"{more[way] * 1e6:.3f}"))
    ratio = more[LONE] / more[REFERENCE]
    report.goal(
        f"one more store that cannot match: at most {_GOAL:.0%} of its cost to the reference",
        f"{more[LONE] * 1e6:.2f} µs, {ratio:.1%}",
        ratio <= _GOAL,
    )
    differing = [each for result in results.values() for each in result.differing]
    answers = sum(result.answers for result in results.values())
    report.section(
        "One more store that cannot match",
        f"Words that stand in one store alone, which is among the first {few:,}: {many - few:,} of "
        f"{many:,} stores cannot match. Answers compared with the reference's: "
        f"{report.compared(answers, differing)}.",
    )
    report.table(("asked", f"{few:,} stores, µs", f"{many:,} stores, µs", "**µs for each store more**"), rows)


def _over(bench: Bench, count: int, words: list[str]) -> Compared:
    reference, asker, result = bench.reference(count), bench.asker(count), Compared()
    for word in words:
        expected = [reference.expected(word)]
        ways = {REFERENCE: Way(alone(partial(reference.search, word)), expected)}
        ways |= {name: Way(partial(ask, asker, word), expected) for name, ask in BOTH_WAYS.items()}
        compare(result, "one store's", ways, bench.rounds(count))
    return result
