"""Watching a daemon index its stores, from its start until all of them answer from arrays."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from .daemons import Daemon
from .processes import Memory, cpu_s, descendants, memory_of, nameless_bytes, peak_bytes
from .waiting import wait_for
from .wire import Wire

__all__ = ["Built", "rest", "watch_build"]

_PATIENCE_S = 60.0
_PAUSE_S = 0.02
_QUIET_S = 1.0
_AWAKE = 100  # stores that a daemon at rest may keep open
_BEAT_S = 6.0  # in which it gives back the memory of those that it has closed


class Built(Struct):
    """One start: seconds until stores were open, ready and settled, and what the builder took for it.

    `ready` counts the stores that answer from arrays at the end; None where the daemon has none.
    It has settled when the builder rests: arrays are combined after they are ready.
    """

    stores: int
    open_s: float = 0.0
    ready_s: float = 0.0
    settled_s: float = 0.0
    ready: int | None = None
    segments: int = 0
    peak_bytes: int = 0
    cpu_s: float = 0.0
    daemon_peak_bytes: int = 0
    memory: Memory = Memory()
    rested: Memory = Memory()
    kept_bytes: int = 0
    mapped_bytes: int = 0

    @property
    def is_ready(self) -> bool:
        """Tell whether all stores answer from arrays, or the daemon has none."""
        return self.ready is None or self.ready >= self.stores


def watch_build(daemon: Daemon, wire: Wire, count: int, started: float) -> Built:
    """Wait until *count* stores are open, answer from arrays and the builder rests; return what that took.

    One that comes no further for a minute, and whose builder rests, is left as it is: `ready` says so.
    """
    built = Built(count)
    used: dict[int, float] = {}
    now = quiet_since = time.perf_counter() - started
    while now - quiet_since <= (_QUIET_S if built.ready_s else _PATIENCE_S):
        status = wire.call("status", {}, dict[str, Any])
        now = time.perf_counter() - started
        is_moving = _take(built, status, now)
        if _look(daemon, built, used) or is_moving:
            quiet_since = now
        if built.ready is None and built.ready_s:
            break
        time.sleep(_PAUSE_S)
    built.settled_s = quiet_since
    built.daemon_peak_bytes, built.memory = peak_bytes(daemon.pid), memory_of(daemon.pid)
    built.kept_bytes, built.mapped_bytes = _size(daemon.kept), nameless_bytes(daemon.pid)
    return built


def rest(daemon: Daemon, wire: Wire) -> Memory:
    """Wait until a daemon that is asked nothing has closed most stores, and return its memory then."""

    def is_resting() -> bool | None:
        status = wire.call("status", {}, dict[str, Any])
        return status["memory"]["open_stores"] <= _AWAKE or None

    wait_for(is_resting, "the stores to be closed", pause_s=_QUIET_S)
    time.sleep(_BEAT_S)
    return memory_of(daemon.pid)


def _take(built: Built, status: Mapping[str, Any], now: float) -> bool:
    """Take in what the daemon says, and tell whether that is news."""
    before = (built.ready, built.segments, built.open_s)
    built.ready, built.segments = (status["sidecars"].get(key) for key in ("ready", "segments"))
    built.open_s = built.open_s or (now if status["stores"].get("open", 0) >= built.stores else 0.0)
    built.ready_s = built.ready_s or (now if built.open_s and built.is_ready else 0.0)
    return before != (built.ready, built.segments, built.open_s)


def _look(daemon: Daemon, built: Built, used: dict[int, float]) -> bool:
    """Take in what the builder uses, and tell whether it has worked since the last look."""
    for pid in descendants(daemon.pid):
        built.peak_bytes = max(built.peak_bytes, peak_bytes(pid))
        used[pid] = max(used.get(pid, 0.0), cpu_s(pid))
    before, built.cpu_s = built.cpu_s, sum(used.values())
    return built.cpu_s > before


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
