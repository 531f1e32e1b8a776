"""The tables of RESULTS.md and the goals, met or not."""

import os
import platform
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .corpus import CLASSES
from .rewriting import REWRITES
from .searching import OFF, ON, REFERENCE, Searched
from .starting import Started

__all__ = ["Report"]

_MANY = 1_000
_MOMENTS = ("after one query", "after one query of each class")


class Report:
    """Gathers lines of Markdown; each part is printed as soon as it is there."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.lines: list[str] = []
        self._goals: list[tuple[str, str, bool]] = []

    # ----------------------------------------------------------------- parts

    def machine(self, about: str) -> None:
        """Say when, on what and how this was measured; no host name and no path."""
        self._add(
            "# What `make bench` printed",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}; {_cpu()}, {os.cpu_count()} cores, load {_load()} at the start; "
            f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
            f"uvloop {_version('uvloop')}, contextpull {_version('contextpull')}.",
            "",
            f"{about} Times say only how large the numbers are: what counts is the ratio to the other side "
            "of the same run, whose rounds took turns. Ratios above 1 are in our favour.",
        )

    def searched(self, result: Searched, settings: str = "") -> None:
        """Show one comparison of searches."""
        wrong = (
            f"{len(result.differing)} DIFFER, first {result.differing[0]}"
            if result.differing
            else "all the same"
        )
        self._add(
            "",
            f"## Search over {result.stores} stores{settings}",
            "",
            "Reference: `contextpull.ops.Ops` over the same stores, in one process, one after the other. "
            f"{result.answers} answers compared with its (ids, order, scores, snippets): {wrong}.",
            "",
        )
        rows = [
            (
                kind or "**all**",
                *(_ms(result.median_s(each, kind)) for each in (REFERENCE, OFF, ON)),
                *_ratios(result, kind),
            )
            for kind in (*CLASSES, None)
        ]
        self._table(
            ("query", "reference, ms", "cache off, ms", "cache on, ms", "**cache off**", "**cache on**"), rows
        )
        if settings:
            return
        name = f"search over {result.stores} stores"
        self._goal(f"{name}: same lists", f"{len(result.differing)} differ", not result.differing)
        if result.stores <= 50:
            off, on = result.ratio(OFF), result.ratio(ON)
            self._goal(f"{name}, cache off: not slower at the median", f"{off:.2f}×", off >= 1)
            self._goal(f"{name}, cache on: ≥ 20× faster at the median", f"{on:.1f}×", on >= 20)

    def pings(self, seconds: Mapping[str, float]) -> None:
        """Show round trips."""
        self._add("", "## One round trip over a Unix socket", "")
        echo = seconds["echo"]
        self._table(
            ("what", "µs", "**× the echo**"),
            [
                (name, f"{seconds[key] * 1e6:.0f}", f"{seconds[key] / echo:.2f}")
                for name, key in (
                    ("bare asyncio echo", "echo"),
                    ("`ping`", "ping"),
                    ("a cached search", "cached"),
                )
            ],
        )

    def started(self, result: Started) -> None:
        """Show start-up and memory."""
        seconds = result.seconds
        self._add("", f"## Start-up and memory with {result.stores} stores", "")
        rows = [
            ("reference: all open and one query answered", "reference"),
            ("cold (no state file): first whole answer", "cold"),
            ("warm: all stores known", "known"),
            ("warm: first whole answer", "warm"),
        ]
        self._table(
            ("from the start of the process until", "s", "**faster**"),
            [
                (name, f"{seconds[key]:.2f}", f"{seconds['reference'] / seconds[key]:.2f}")
                for name, key in rows
            ],
        )
        if result.stores >= _MANY:
            known = seconds["known"]
            self._goal(
                f"{result.stores} stores known after a warm start in < 2 s", f"{known:.2f} s", known < 2
            )
        self._add("")
        self._table(
            ("memory, MB", "reference RSS / PSS", "daemon RSS / PSS", "**daemon / reference**"),
            [self._memory(result, moment) for moment in _MOMENTS],
        )

    def _memory(self, result: Started, moment: str) -> tuple[str, ...]:
        theirs, ours = (result.memory[side, moment] for side in ("reference", "daemon"))
        ratio = ours.rss / theirs.rss if theirs.rss else float("nan")
        if result.stores >= _MANY:
            name = f"memory with {result.stores} stores {moment}: at most the reference's"
            self._goal(name, f"{ratio:.2f}×", ratio <= 1)
        shown = (f"{each.rss / 1e6:.0f} / {each.pss / 1e6:.0f}" for each in (theirs, ours))
        return (moment, *shown, f"{ratio:.2f}")

    def rewritten(self, seconds: Mapping[str, float]) -> None:
        """Show how soon new contents are found."""
        self._add("", "## From a store's last write until a search finds the new words", "")
        self._table(("how it was rewritten", "ms"), [(kind, _ms(seconds[kind])) for kind in REWRITES])
        for kind in REWRITES[:2]:
            self._goal(
                f"rewritten store visible within 1 s ({kind})", f"{seconds[kind]:.2f} s", seconds[kind] <= 1
            )

    def commands(self, seconds: Mapping[str, float], stores: int) -> None:
        """Show whole processes."""
        self._add("", "## One search, whole process", "")
        theirs = seconds["contextpull"]
        rows = (
            ("`contextpull search` on one store", "contextpull"),
            (f"`collate search` over {stores} stores", "collate"),
            ("`python -c pass`", "python"),
        )
        self._table(
            ("command", "ms", "**faster**"),
            [(name, _ms(seconds[key]), f"{theirs / seconds[key]:.2f}") for name, key in rows],
        )

    def goals(self) -> None:
        """Show the goals of this part."""
        self._add("", "## Goals of part 1", "")
        self._table(
            ("goal", "measured", ""),
            [(name, got, "met" if is_met else "**not met**") for name, got, is_met in self._goals],
        )

    def write(self, path: Path) -> None:
        """Write all that was shown."""
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")

    # ----------------------------------------------------------------- lines

    def _goal(self, name: str, measured: str, is_met: bool) -> None:
        self._goals.append((name, measured, is_met))

    def _table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self._add(f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|")
        self._add(*(f"| {' | '.join(row)} |" for row in rows))

    def _add(self, *lines: str) -> None:
        self.lines += lines
        print(*lines, sep="\n", flush=True)


def _ratios(result: Searched, kind: str | None) -> tuple[str, str]:
    return f"{result.ratio(OFF, kind):.2f}", f"{result.ratio(ON, kind):.1f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def _cpu() -> str:
    try:
        rows = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [row.partition(":")[2].strip() for row in rows if row.startswith("model name")]
    return names[0] if names else platform.machine()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
