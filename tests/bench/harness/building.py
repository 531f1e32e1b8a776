"""Watching a daemon index its stores, from its start until all of them answer from arrays."""

import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from .daemons import Daemon
from .processes import cpu_s, descendants, peak_bytes
from .wire import Wire

__all__ = ["Built", "watch_build"]

_PATIENCE_S = 900.0
_PAUSE_S = 0.02


class Built(Struct):
    """One start: seconds until stores were open and ready, and what the builder took for it.

    `ready` counts the stores that answer from arrays at the end; None where the daemon has none.
    """

    stores: int
    open_s: float = 0.0
    ready_s: float = 0.0
    ready: int | None = None
    peak_bytes: int = 0
    cpu_s: float = 0.0
    daemon_peak_bytes: int = 0
    kept_bytes: int = 0


def watch_build(daemon: Daemon, wire: Wire, count: int, started: float) -> Built:
    """Wait until *count* stores are open and answer from arrays, and return what that took.

    A daemon that never comes so far is left after a quarter of an hour; `ready` says how far it came.
    """
    built = Built(count)
    peaks: dict[int, int] = {}
    cpu: dict[int, float] = {}
    while time.perf_counter() - started < _PATIENCE_S:
        status = wire.call("status", {}, dict[str, Any])
        now = time.perf_counter() - started
        is_open = status["stores"].get("open", 0) >= count
        if is_open and not built.open_s:
            built.open_s = now
        built.ready = status["sidecars"].get("ready")
        for pid in descendants(daemon.pid):
            peaks[pid] = max(peaks.get(pid, 0), peak_bytes(pid))
            cpu[pid] = max(cpu.get(pid, 0.0), cpu_s(pid))
        if is_open and (built.ready is None or built.ready >= count):
            break
        time.sleep(_PAUSE_S)
    built.ready_s = time.perf_counter() - started
    built.peak_bytes = max(peaks.values(), default=0)
    built.cpu_s = sum(cpu.values())
    built.daemon_peak_bytes = peak_bytes(daemon.pid)
    built.kept_bytes = _size(daemon.kept)
    return built


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
