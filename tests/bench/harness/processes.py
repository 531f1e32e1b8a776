"""What processes cost, from `/proc`; zeros where there is none."""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

__all__ = ["Memory", "cpu_s", "descendants", "memory_of", "nameless_bytes", "peak_bytes"]

_PROC = Path("/proc")


class Memory(Struct, frozen=True):
    """Bytes of one process: all that is resident, its share of what is shared, what is no file's."""

    rss: int = 0
    pss: int = 0
    anonymous: int = 0

    def __add__(self, other: "Memory") -> "Memory":
        """Return both together."""
        return Memory(self.rss + other.rss, self.pss + other.pss, self.anonymous + other.anonymous)


def memory_of(pid: int) -> Memory:
    """Return a process's memory now."""
    rows = _rows(pid, "smaps_rollup")
    return Memory(*(rows.get(name, 0) for name in ("Rss", "Pss", "Anonymous")))


def peak_bytes(pid: int) -> int:
    """Return the most that was ever resident of a process."""
    return _rows(pid, "status").get("VmHWM", 0)


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used so far."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime


def nameless_bytes(pid: int) -> int:
    """Return how large the files are that a process has mapped and that have no name any more."""
    try:
        text = (_PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return 0
    sizes: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        span, _, offset, device, inode, *name = line.split()
        if name and name[-1] == "(deleted)" and inode != "0":
            first, last = (int(each, 16) for each in span.split("-"))
            end = int(offset, 16) + last - first
            sizes[device, inode] = max(sizes.get((device, inode), 0), end)
    return sum(sizes.values())


def descendants(pid: int) -> list[int]:
    """Return the processes that *pid* has started, and those that they have."""
    parents = dict(_parents())
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def _parents() -> Iterator[tuple[int, int]]:
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text(encoding="utf-8")
            except OSError:  # it ended meanwhile
                continue
            yield int(folder.name), int(stat.rpartition(")")[2].split()[1])


def _rows(pid: int, name: str) -> dict[str, int]:
    try:
        text = (_PROC / str(pid) / name).read_text(encoding="utf-8")
    except OSError:
        return {}
    rows = (line.split(":", 1) for line in text.splitlines() if line.endswith(" kB"))
    return {key: int(value.split()[0]) * 1024 for key, value in rows}
