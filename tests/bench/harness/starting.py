"""Start-up and memory with many stores, against a process that holds the reference over the same ones."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from .daemons import Daemon, complete, wait_for
from .timing import interleaved, median_s

__all__ = ["Memory", "Started", "compare_starts"]

_HARNESS = Path(__file__).parent.parent


class Memory(Struct):
    """Bytes of one process: all that is resident, and its share of what is shared."""

    rss: int = 0
    pss: int = 0


class Started(Struct):
    """Median seconds by name of the start, and memory by contender and moment."""

    stores: int
    seconds: dict[str, float]
    memory: dict[tuple[str, str], Memory]


def compare_starts(folders: tuple[Path, Path], asked: dict[str, list[str]], rounds: int) -> Started:
    """Start both sides over and over; the memory is that of the last round.

    `reference`, `cold` (no state file) and `warm` end with the first whole answer, `known` when the
    daemon, started warm, says that all stores are open.
    """
    ours, theirs = folders
    count = len(list(theirs.glob("*.sqlite")))
    first = asked["one common word"][0]
    every = [texts[0] for texts in asked.values()]
    memory: dict[tuple[str, str], Memory] = {}
    known: list[float] = []

    def reference() -> float:
        return _reference(theirs, first, every, memory)

    def cold() -> float:
        with Daemon(ours) as daemon:
            return _start(daemon, first, count)[1]

    def warm() -> float:
        with Daemon(ours) as daemon:
            _start(daemon, first, count)
            daemon.stop()
            seconds = _start(daemon, first, count)
            memory["daemon", "after one query"] = _memory_of(daemon.pid)
            with daemon.client() as client:
                for text in every:
                    wait_for(partial(complete, client, text, count), "a whole answer")
            memory["daemon", "after one query of each class"] = _memory_of(daemon.pid)
        known.append(seconds[0])
        return seconds[1]

    contenders: dict[str, Callable[[], float]] = {"reference": reference, "cold": cold, "warm": warm}
    seconds = {name: median_s(each) for name, each in interleaved(contenders, rounds).items()}
    return Started(count, {**seconds, "known": median_s(known)}, memory)


def _start(daemon: Daemon, text: str, count: int) -> tuple[float, float]:
    """Return after how many seconds all stores were known, and when the first whole answer was there."""
    started = time.perf_counter()
    daemon.start()
    with daemon.client() as client:
        daemon.wait_open(client, count)
        known = time.perf_counter() - started
        wait_for(lambda: complete(client, text, count), "the first whole answer")
        return known, time.perf_counter() - started


def _reference(folder: Path, first: str, every: list[str], memory: dict[tuple[str, str], Memory]) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "harness.holding", str(folder)]
    with subprocess.Popen(
        command, cwd=_HARNESS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        _ask(process, first)
        seconds = time.perf_counter() - started
        memory["reference", "after one query"] = _memory_of(process.pid)
        for text in every:
            _ask(process, text)
        memory["reference", "after one query of each class"] = _memory_of(process.pid)
    return seconds


def _ask(process: subprocess.Popen[str], text: str) -> None:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the reference process has no pipes")
    process.stdin.write(text + "\n")
    if not process.stdout.readline():
        raise RuntimeError("the reference process ended early")


def _memory_of(pid: int) -> Memory:
    """Return a process's memory from `/proc`; zeros where there is none."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return Memory()
    rows = dict(line.split(":", 1) for line in text.splitlines() if line.endswith(" kB"))
    return Memory(*(int(rows[name].split()[0]) * 1024 for name in ("Rss", "Pss")))
