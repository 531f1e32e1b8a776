"""Part `start`: start-up, and memory while serving, against a process that holds the reference."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from .bench import MANY, Bench
from .building import watch_build
from .daemons import Daemon, complete
from .processes import Memory, descendants, memory_of
from .report import Report, mb, times
from .timing import interleaved, median_s
from .waiting import wait_for
from .wire import Wire

__all__ = ["run"]

_HARNESS = Path(__file__).parent.parent
_ONE, _EACH = "after one query", "after one query of each class"
_COLD, _RESTED = "started cold, all ready, before any query", "half a minute later"
_ROWS = {
    "reference: all open and one query answered": "reference",
    "cold (no state file, nothing kept): first whole answer": "cold",
    "warm: all stores known": "known",
    "warm: first whole answer": "warm",
    "warm: all answer from arrays": "ready",
}
_GOAL = 0.5


class _Starts(Struct):
    """What is asked, and the memory of the last round by side and moment."""

    count: int
    theirs: Path
    first: str
    every: list[str]
    memory: dict[tuple[str, str], Memory] = field(default_factory=dict[tuple[str, str], Memory])
    known: list[float] = field(default_factory=list[float])
    ready: list[float] = field(default_factory=list[float])


def run(bench: Bench, report: Report) -> None:
    """Start both sides over and over, over the most stores; a warm start finds all that was kept."""
    asked = bench.asked(bench.many)
    starts = _Starts(
        bench.many,
        bench.theirs(bench.many),
        asked["one common word"][0],
        [texts[0] for texts in asked.values()],
    )
    with bench.resting(bench.many) as kept:
        starts.memory["daemon", _COLD] = bench.built[bench.many].memory
        starts.memory["daemon", _RESTED] = bench.built[bench.many].rested
        contenders: dict[str, Callable[[], float]] = {
            "reference": partial(_reference, starts),
            "cold": partial(_cold, starts, bench.ours(bench.many)),
            "warm": partial(_warm, starts, kept),
        }
        seconds = interleaved(contenders, bench.rounds(bench.many))
    medians = {
        name: median_s(each)
        for name, each in {**seconds, "known": starts.known, "ready": starts.ready}.items()
    }
    _show(report, starts, medians)


def _show(report: Report, starts: _Starts, medians: dict[str, float]) -> None:
    report.section(f"Start-up and memory with {starts.count:,} stores")
    report.table(
        ("from the start of the process until", "s", "**faster**"),
        [
            (name, f"{medians[key]:.2f}", f"{medians['reference'] / medians[key]:.2f}")
            for name, key in _ROWS.items()
        ],
    )
    report.text(
        "",
        "Memory of a daemon started warm, but for the first two lines, which are compared with the "
        "reference after one query; a builder that is there is counted with it. What is no file's is what "
        "the system cannot drop and read again.",
        "",
    )
    report.table(
        ("MB", "reference RSS / PSS / no file's", "daemon RSS / PSS / no file's", "**daemon / reference**"),
        [
            _memory(report, starts, moment)
            for moment in (_COLD, _RESTED, _ONE, _EACH)
            if starts.memory["daemon", moment].rss
        ],
    )
    if starts.count >= MANY:
        known = medians["known"]
        report.goal(f"{starts.count:,} stores known after a warm start in < 2 s", f"{known:.2f} s", known < 2)


def _memory(report: Report, starts: _Starts, moment: str) -> tuple[str, ...]:
    theirs = starts.memory["reference", _ONE if moment in (_COLD, _RESTED) else moment]
    ours = starts.memory["daemon", moment]
    ratio = ours.rss / theirs.rss if theirs.rss else float("nan")
    if starts.count >= MANY:
        name = f"memory with {starts.count:,} stores {moment}: at most half the reference's"
        report.goal(name, f"{times(ratio)}×", ratio <= _GOAL)
    shown = (" / ".join(map(mb, (each.rss, each.pss, each.anonymous))) for each in (theirs, ours))
    return (moment, *shown, f"{times(ratio)}×")


# --------------------------------------------------------------------------- one start each


def _cold(starts: _Starts, ours: Path) -> float:
    with Daemon(ours) as daemon:
        return _start(daemon, starts)[1]


def _warm(starts: _Starts, kept: Daemon) -> float:
    started = time.perf_counter()
    known, seconds = _start(kept, starts)
    starts.known.append(known)
    with closing(Wire(kept.socket)) as wire:
        starts.ready.append(watch_build(kept, wire, starts.count, started).ready_s)
    starts.memory["daemon", _ONE] = _memory_of(kept)
    with kept.client() as client:
        for text in starts.every:
            wait_for(partial(complete, client, text, starts.count), "a whole answer")
    starts.memory["daemon", _EACH] = _memory_of(kept)
    kept.stop()
    return seconds


def _start(daemon: Daemon, starts: _Starts) -> tuple[float, float]:
    """Return after how many seconds all stores were known, and when the first whole answer was there."""
    started = time.perf_counter()
    daemon.start()
    with daemon.client() as client:
        daemon.wait_open(client, starts.count)
        known = time.perf_counter() - started
        wait_for(partial(complete, client, starts.first, starts.count), "the first whole answer")
        return known, time.perf_counter() - started


def _reference(starts: _Starts) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "harness.holding", str(starts.theirs)]
    with subprocess.Popen(
        command, cwd=_HARNESS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        _ask(process, starts.first)
        seconds = time.perf_counter() - started
        starts.memory["reference", _ONE] = memory_of(process.pid)
        for text in starts.every:
            _ask(process, text)
        starts.memory["reference", _EACH] = memory_of(process.pid)
    return seconds


def _ask(process: subprocess.Popen[str], text: str) -> None:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the reference process has no pipes")
    process.stdin.write(text + "\n")
    if not process.stdout.readline():
        raise RuntimeError("the reference process ended early")


def _memory_of(daemon: Daemon) -> Memory:
    memory = memory_of(daemon.pid)
    for pid in descendants(daemon.pid):
        memory += memory_of(pid)
    return memory
