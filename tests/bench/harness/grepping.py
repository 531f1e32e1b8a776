"""Part `grep`: the daemon over its socket against ripgrep over the sources, a whole process each time."""

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from collated.protocol import GrepResult

from .answers import GREP_LIMIT, Matched, matched
from .asking import INSIDE, LONE, Asker
from .bench import Bench
from .comparing import REFERENCE, Compared, Way, compare
from .projects import PATTERNS, SEED, pairs, patterns
from .report import Report, ms, times, us
from .timing import timed
from .wire import LONG_MS

__all__ = ["run"]

# `rg` alone prints every line; the second stops in each file at its first, the third prints no lines.
RG, FIRST, FILES = "rg", "rg -m 1", "rg -l"
_FLAGS = {RG: (), FIRST: ("--max-count=1",), FILES: ("--files-with-matches",)}
_HEAD = "rg, stopped after 20 lines"
_NOTHING_FOUND = 1


def run(bench: Bench, report: Report) -> None:
    """Compare over each number of projects."""
    program = shutil.which("rg", path=sysconfig.get_path("scripts")) or shutil.which("rg")
    if program is None:
        report.section("Grep", "There is no `rg` on this machine: **not measured** against ripgrep.")
    for count in bench.counts:
        sources = bench.corpus.sources(bench.folder(f"sources-{count}"), count)
        result = _compare(bench, count, program, sources)
        _show(report, count, result, has_rg=program is not None)


def _compare(bench: Bench, count: int, program: str | None, sources: Path) -> Compared:
    asker, reference, result = bench.asker(count), bench.reference(count), Compared()
    for kind, pattern in pairs(patterns(SEED, count, 2)):
        seconds, expected = timed(partial(reference.grep, pattern))
        result.seconds.setdefault(kind, {}).setdefault(REFERENCE, []).append(seconds)
        ways = {
            LONE: Way(partial(_lone, asker, pattern), [expected]),
            INSIDE: Way(partial(_inside, asker, pattern), [expected]),
        }
        if program is not None:
            ways |= {
                name: Way(partial(_rg, [program, *flags], pattern, sources), [])
                for name, flags in _FLAGS.items()
            }
            ways[_HEAD] = Way(partial(_rg_head, program, pattern, sources), [])
        compare(result, kind, ways, bench.rounds(count))
    return result


def _params(pattern: str) -> dict[str, object]:
    return {"pattern": pattern, "limit": GREP_LIMIT, "deadline_ms": LONG_MS}


def _lone(asker: Asker, pattern: str) -> tuple[float, Sequence[object]]:
    seconds, result = asker.lone("grep", _params(pattern), GrepResult)
    return seconds, [_whole(result)]


def _inside(asker: Asker, pattern: str) -> tuple[float, Sequence[object]]:
    seconds, result = asker.inside("grep", _params(pattern), GrepResult)
    return seconds, [_whole(result)]


def _whole(result: GrepResult) -> tuple[list[Matched], bool]:
    if not result.complete:
        raise RuntimeError(f"a grep is not of all stores: {result.stores.failed[:3]}")
    return matched(result), result.truncated


def _rg(program: Sequence[str], pattern: str, sources: Path) -> tuple[float, Sequence[object]]:
    command = [*program, "--fixed-strings", "--ignore-case", "--", pattern, "."]
    seconds, done = timed(
        lambda: subprocess.run(
            command, cwd=sources, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    )
    if done.returncode not in (0, _NOTHING_FOUND):
        raise RuntimeError(f"rg ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    return seconds, []


def _rg_head(program: str, pattern: str, sources: Path) -> tuple[float, Sequence[object]]:
    """Read 20 lines, whichever come first, and let the rest go, as `| head -20` does."""
    command = [program, "--fixed-strings", "--ignore-case", "--line-buffered", "--", pattern, "."]

    def run_and_stop() -> None:
        with subprocess.Popen(
            command, cwd=sources, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            for _ in zip(range(GREP_LIMIT), process.stdout or (), strict=False):
                pass
            process.kill()

    return timed(run_and_stop)[0], []


def _show(report: Report, count: int, result: Compared, *, has_rg: bool) -> None:
    others = (*_FLAGS, _HEAD) if has_rg else ()
    report.section(
        f"Grep over {count:,} projects",
        "Literal patterns, without case. `rg --fixed-strings --ignore-case` is a whole process over the "
        f"projects' source files, all of them in the page cache; the daemon answers {GREP_LIMIT} matches in "
        "order, one for each section, over its socket and in its own process. Answers compared with the "
        f"reference's: {report.compared(result.answers, result.differing)}. In bold: how many times faster "
        f"the daemon over its socket is.",
    )
    report.table(
        (
            "pattern",
            "reference, ms",
            *(f"{name}, ms" for name in others),
            f"{LONE}, µs",
            f"{INSIDE}, µs",
            *(f"**than {name}**" for name in others),
        ),
        [
            (
                kind,
                ms(result.median_s(REFERENCE, kind)),
                *(ms(result.median_s(name, kind)) for name in others),
                us(result.median_s(LONE, kind)),
                us(result.median_s(INSIDE, kind)),
                *(f"{times(result.ratio(LONE, kind, to=name))}×" for name in others),
            )
            for kind in PATTERNS
        ],
    )
    name = f"grep over {count:,} projects: faster than ripgrep in every class"
    if not has_rg:
        report.goal(name, "no rg", None)
        return
    worst = {each: result.slowest(LONE, to=each) for each in _FLAGS}
    least = min(_FLAGS, key=lambda each: result.ratio(LONE, worst[each], to=each))
    ratio = result.ratio(LONE, worst[least], to=least)
    report.goal(name, f"{times(ratio)}× ({worst[least]}, against `{least}`)", ratio > 1)
