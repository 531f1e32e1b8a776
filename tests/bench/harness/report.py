"""Lines of Markdown as the parts find them, and the goals, met or not."""

import os
import platform
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["Report", "mb", "ms", "times", "us"]

_PACKAGES = ("numpy", "uvloop", "contextpull", "codebase-index", "tantivy", "duckdb", "rank-bm25", "mcp")


class Report:
    """Gathers lines, printing each. `differing` must stay empty; `pictures` are SVG by file name."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.lines: list[str] = []
        self.differing: list[str] = []
        self.pictures: dict[str, str] = {}
        self._goals: list[tuple[str, str, str]] = []

    def machine(self, about: str) -> None:
        """Say when, on what and how this was measured; no host name and no path."""
        packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
        self.text(
            "# What `make bench` printed",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}; {_cpu()}, {os.cpu_count()} cores, load {_load()} at the start; "
            f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}.",
            "",
            f"{about} Times say only how large the numbers are: what counts is the ratio to the other side "
            "of the same run, whose rounds took turns. Ratios above 1 are in our favour, unless a column "
            "says whose multiple it is.",
        )

    def section(self, title: str, *paragraphs: str) -> None:
        """Begin a section."""
        self.text("", f"## {title}", "")
        for paragraph in paragraphs:
            self.text(paragraph, "")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Show a table; all columns but the first are numbers."""
        self.text(f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|")
        self.text(*(f"| {' | '.join(row)} |" for row in rows))

    def text(self, *lines: str) -> None:
        """Show lines as they are."""
        self.lines += lines
        print(*lines, sep="\n", flush=True)

    def compared(self, answers: int, differing: Sequence[str]) -> str:
        """Return in words how many of *answers* were others than they must be, and remember it."""
        self.differing += differing
        return f"{len(differing)} DIFFER, first {differing[0]}" if differing else f"all {answers} the same"

    def goal(self, name: str, measured: str, is_met: bool | None) -> None:
        """Set down a goal; None for one that could not be measured."""
        verdict = "not measured" if is_met is None else "met" if is_met else "**not met**"
        self._goals.append((name, measured, verdict))

    def goals(self) -> None:
        """Show the goals."""
        self.section("Goals")
        self.table(("goal", "measured", ""), self._goals)

    def write(self, path: Path) -> None:
        """Write all that was shown to *path*, and the pictures beside it."""
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        self.draw(path.parent)

    def draw(self, folder: Path) -> list[Path]:
        """Write the pictures into *folder*, and return their paths."""
        for name, picture in self.pictures.items():
            (folder / name).write_text(picture, encoding="utf-8")
        return [folder / name for name in self.pictures]


def ms(seconds: float) -> str:
    """Return milliseconds, in three digits."""
    return _digits(seconds * 1e3)


def us(seconds: float) -> str:
    """Return microseconds, in three digits."""
    return _digits(seconds * 1e6)


def mb(count: float) -> str:
    """Return megabytes."""
    return _digits(count / 1e6)


def times(ratio: float) -> str:
    """Return a ratio, in three digits."""
    return _digits(ratio)


def _digits(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1_000 else f"{value:,.0f}"


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
        return "missing"
