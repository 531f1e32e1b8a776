"""Workers that die: of themselves, by somebody's hand, and with their daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated_readers import StoreError

if TYPE_CHECKING:
    from tests.daemon.engines.conftest import Employ, Soon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc, and walls of Linux"),
]

MIB = 1 << 20
LATE_S = 5.0  # 0.3 is promised; machines of tests are slow


def cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11])


@pytest.mark.parametrize("tool", ["exit", "crash", "abort"])
def test_a_worker_that_dies_costs_its_own_caller_an_answer_and_nobody_else(employ: Employ, tool: str) -> None:
    workers = employ()
    with ThreadPoolExecutor(8) as threads:
        others = [threads.submit(workers.do, "nap", "/b", for_s=1.0) for _ in range(3)]
        assert workers.code_of(tool) == "engine_crashed"
        assert all(isinstance(other.result(), int) for other in others)
    assert workers.do("echo")["pid"]
    assert workers.stats().crashed == 1


def test_a_worker_that_somebody_kills_is_another_one_that_died(employ: Employ, soon: Soon) -> None:
    workers = employ()
    pid = workers.do("echo")["pid"]
    with ThreadPoolExecutor(8) as threads:
        before = cpu_ticks(pid)
        asked = threads.submit(workers.do, "spin")
        soon(lambda: cpu_ticks(pid) > before + 5)  # so it is at it, and not about to be
        os.kill(pid, signal.SIGKILL)
        error = asked.exception(LATE_S)
    assert isinstance(error, StoreError)
    assert error.code == "engine_crashed"


def test_a_worker_that_died_while_idle_costs_nobody_anything(employ: Employ) -> None:
    workers = employ()
    for _ in range(5):
        os.kill(workers.do("echo")["pid"], signal.SIGKILL)
    assert workers.do("echo")["asked"] == 1


@pytest.mark.parametrize("babbled", ["00000001c1", "ffffffff", "00000002c0c0", "00000000", "0000000191"])
def test_a_worker_that_talks_nonsense_is_one_that_died(employ: Employ, babbled: str) -> None:
    workers = employ()
    assert workers.code_of("babble", hex=babbled) == "engine_crashed"
    assert workers.do("echo")["asked"] == 1


def test_a_worker_that_cannot_be_started_is_one_that_died(employ: Employ, environ: dict[str, str]) -> None:
    workers = employ(memory_bytes=1 * MIB)  # not enough for a thread
    assert workers.code_of("echo") == "engine_crashed"


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            if int(path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


def test_workers_end_with_a_daemon_that_is_killed(
    environ: dict[str, str], soon: Soon, lives: Callable[[int], bool]
) -> None:
    program = """
import threading
from collated.engines.workers import Workers
from collated_readers import Budget
workers = Workers(handler="engine_handlers:Service", engine="json")
for tool in ("spin", "hold"):
    threading.Thread(target=workers.ask, args=(tool, "/a", {}, Budget.lasting(600))).start()
"""
    with subprocess.Popen([sys.executable, "-c", program], env=environ) as daemon:
        try:
            soon(lambda: len(children_of(daemon.pid)) == 2)
            pids = children_of(daemon.pid)
            soon(lambda: all(cpu_ticks(pid) > 50 for pid in pids))  # so both are at it
        finally:
            daemon.kill()
    soon(lambda: not any(map(lives, pids)))
