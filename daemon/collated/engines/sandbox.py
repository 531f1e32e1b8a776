"""What a worker gives up before it reads anything that is not ours: for good, and for all its threads.

Two walls stand before the disk and the network, each of which is enough where the other is missing:
Landlock and a filter of system calls. Behind them, no file may grow (`RLIMIT_FSIZE`). Memory, open files and
core dumps are bounded, and the process ends with its parent.
"""

import ctypes
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from . import landlock, seccomp
from .jobs import Confinement

__all__ = ["confine"]

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_OPEN_FILES = 4096
_IGNORED = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGXFSZ",
)  # the first three are meant for the daemon, which ends us


def confine(memory_bytes: int) -> Confinement:
    """Confine this process, which must not have started a thread yet, and return what came of it."""
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    _give_way()
    _die_with_parent()
    has_memory_limit = _bound(resource.RLIMIT_DATA, memory_bytes)
    _bound(resource.RLIMIT_CORE, 0)
    _bound(resource.RLIMIT_FSIZE, 0)
    _bound(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    abi = landlock.restrict()
    is_filtered = seccomp.restrict()
    walls = {"landlock": bool(abi), "seccomp": is_filtered, "memory": has_memory_limit}
    return Confinement(
        landlock_abi=abi,
        is_filtered=is_filtered,
        memory_bytes=memory_bytes if has_memory_limit else None,
        missing=tuple(name for name, stands in walls.items() if not stands),
    )


def _give_way() -> None:
    with suppress(OSError):  # should memory be short, rather us than anybody else
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def _die_with_parent() -> None:
    """Have the kernel end us with the thread that started us; not every core dump heeds its limit."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_DUMPABLE, 0)


def _bound(which: int, wanted: int) -> bool:
    """Lower a limit to *wanted*, or leave it where it is lower already; False where it cannot be set."""
    _, hard = resource.getrlimit(which)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(which, (limit, limit))
    except (OSError, ValueError):
        return False
    return True


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, *(ctypes.c_ulong(each) for each in (value, 0, 0, 0)))
