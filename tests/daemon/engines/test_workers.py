"""Workers as the daemon uses them: what they answer, in what time, and how many of them there are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated_readers import Budget, RequestError, StoreError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from tests.daemon.engines.conftest import Employ, Soon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc, and walls of Linux"),
]

MIB = 1 << 20
LATE_S = 5.0  # 0.3 is promised; machines of tests are slow


# --------------------------------------------------------------------------- what is answered


def test_a_question_is_answered_by_another_process_again_and_again(employ: Employ) -> None:
    workers = employ()
    first = workers.do("echo", "/a", text="ä")
    second = workers.do("echo")
    assert first["pid"] == second["pid"] != os.getpid()
    assert (first["asked"], second["asked"]) == (1, 2)
    assert first["text"] == "ä"
    assert 0 < first["left_s"] <= 30


def test_nothing_is_started_before_the_first_question(employ: Employ) -> None:
    workers = employ()
    stats = workers.stats()
    assert (stats.processes, stats.started, stats.confinement) == (0, 0, None)
    workers.close()


def test_the_handlers_refusals_arrive_as_they_are(employ: Employ) -> None:
    workers = employ()
    with pytest.raises(RequestError) as refused:
        workers.do("refuse")
    assert (refused.value.code, refused.value.message, refused.value.suggestion) == (
        "QueryParameterRejected",
        "not so",
        "but so",
    )
    assert workers.code_of("store") == "damaged"
    assert workers.stats().started == 1


@pytest.mark.parametrize(
    "tool", ["fault", "unspeakable", "unsayable", "unwritable", "recurse", "no_such_tool"]
)
def test_a_fault_is_told_and_logged_and_ends_nothing(
    employ: Employ, logs: list[MutableMapping[str, Any]], tool: str
) -> None:
    workers = employ()
    assert workers.code_of(tool) == "internal"
    assert workers.do("echo")["asked"] == 2
    assert [event["tool"] for event in logs if event["event"] == "engine_fault"] == [tool]


@pytest.mark.parametrize("tool", ["leave", "allocate"])
def test_a_worker_that_is_in_doubt_of_itself_is_replaced(employ: Employ, tool: str) -> None:
    workers = employ(memory_bytes=256 * MIB)
    assert workers.code_of(tool) == {"leave": "internal", "allocate": "engine_memory"}[tool]
    assert workers.do("echo")["asked"] == 1
    assert (workers.stats().started, workers.stats().retired) == (2, 1)


def test_an_answer_may_be_large_but_not_too_large(employ: Employ) -> None:
    workers = employ()
    assert len(workers.do("large", bytes=63 * MIB)) == 63 * MIB
    assert workers.code_of("large", bytes=65 * MIB) == "internal"
    assert len(workers.do("echo", text="x" * 8 * MIB)["text"]) == 8 * MIB


@pytest.mark.rule("in-band-error")
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_an_argument_that_cannot_be_passed_on_is_refused_and_costs_no_worker(
    employ: Employ, number: int
) -> None:
    workers = employ()
    workers.do("echo")
    assert workers.code_of("echo", text={"value": [number]}) == "invalid_params"
    assert workers.do("echo", text={"value": [2**64 - 1, -(2**63)]})["asked"] == 2
    assert workers.stats().started == 1


def test_a_handler_that_cannot_be_had_is_a_fault_of_ours(
    employ: Employ, logs: list[MutableMapping[str, Any]]
) -> None:
    workers = employ("NoService")
    assert workers.code_of("echo") == "internal"
    assert "not today" in logs[0]["trace"]


@pytest.mark.rule("absent-read-backend")
def test_without_its_engine_nothing_is_asked(employ: Employ) -> None:
    workers = employ(engine="no_such_engine")
    assert not workers.is_available
    assert workers.code_of("echo") == "ReadBackendAbsent"
    assert workers.stats().started == 0


def test_a_daemon_does_not_load_what_its_workers_do(environ: dict[str, str]) -> None:
    program = (
        "import sys; from collated.engines.workers import Workers; Workers(); print('duckdb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, check=True)
    assert done.stdout.split() == [b"False"]


# --------------------------------------------------------------------------- time


def test_a_worker_may_give_up_by_itself(employ: Employ) -> None:
    workers = employ()
    workers.do("echo")
    with pytest.raises(RequestError, match="stopped by itself"):
        workers.do("nap", seconds=0.3, for_s=60)
    assert workers.do("echo")["asked"] == 3


@pytest.mark.rule("duration-ceiling", "concurrent-statements")
@pytest.mark.parametrize("tool", ["spin", "hold"])
def test_a_worker_that_does_not_stop_is_killed_and_others_go_on(
    employ: Employ, soon: Soon, lives: Callable[[int], bool], tool: str
) -> None:
    workers = employ()
    with ThreadPoolExecutor(8) as threads:
        other = threads.submit(workers.do, "nap", "/b", for_s=1.5)
        pid = workers.do("echo")["pid"]
        budget = Budget.lasting(0.5)
        with pytest.raises(StoreError) as caught:
            workers.ask(tool, "/a", {}, budget)
        assert caught.value.code == "deadline_exceeded"
        assert 0 <= time.monotonic() - budget.deadline < LATE_S
        assert isinstance(other.result(), int)
    soon(lambda: not lives(pid))
    assert workers.stats().killed == 1


def test_a_worker_whose_caller_cancels_is_killed(
    employ: Employ, soon: Soon, lives: Callable[[int], bool]
) -> None:
    workers = employ()
    pid = workers.do("echo")["pid"]
    budget = Budget.lasting(600)
    with ThreadPoolExecutor(8) as threads:
        asked = threads.submit(workers.ask, "spin", "/a", {}, budget)
        soon(lambda: workers.stats().busy)
        budget.cancelled = True
        assert isinstance(asked.exception(LATE_S), StoreError)
    soon(lambda: not lives(pid))


def test_who_waits_for_a_worker_does_so_within_the_budget(employ: Employ, soon: Soon) -> None:
    workers = employ(processes=1)
    cancel = Budget.lasting(600)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(workers.ask, "spin", "/a", {}, cancel)
        soon(lambda: workers.stats().busy)
        assert workers.code_of("echo", seconds=0.2) == "deadline_exceeded"
        assert workers.stats().waiting == 0
        cancel.cancelled = True
        assert isinstance(first.exception(LATE_S), StoreError)
    assert workers.do("echo")["asked"] == 1


def test_a_budget_too_short_to_start_a_worker_leaves_it_to_the_next(employ: Employ, soon: Soon) -> None:
    workers = employ()
    assert workers.code_of("echo", seconds=0.001) == "deadline_exceeded"
    soon(lambda: workers.stats().processes == 1 and workers.stats().busy == 0)
    assert workers.do("echo")["asked"] == 1
    assert (workers.stats().started, workers.stats().killed) == (1, 0)


def test_a_budget_that_is_spent_starts_nothing(employ: Employ) -> None:
    workers = employ()
    assert workers.code_of("echo", seconds=0) == "deadline_exceeded"
    assert workers.stats().started == 0


def test_who_asks_first_is_served_first(employ: Employ, soon: Soon) -> None:
    workers = employ(processes=1)
    asked: dict[int, int] = {}
    cancel = Budget.lasting(600)

    def wait_in_line(number: int) -> None:
        asked[number] = workers.do("echo")["asked"]

    with ThreadPoolExecutor(8) as threads:
        threads.submit(workers.ask, "spin", "/a", {}, cancel)
        soon(lambda: workers.stats().busy)
        for number in range(6):
            threads.submit(wait_in_line, number)
            soon(lambda number=number: workers.stats().waiting == number + 1)  # type: ignore[misc]  # mypy: lambda
        cancel.cancelled = True
    assert [asked[number] for number in range(6)] == [1, 2, 3, 4, 5, 6]


# --------------------------------------------------------------------------- how many


@pytest.mark.rule("concurrent-statements")
def test_many_threads_are_served_by_few_processes(employ: Employ) -> None:
    workers = employ(processes=4)
    with ThreadPoolExecutor(32) as threads:
        budget = Budget.lasting(50)
        asked = [threads.submit(workers.ask, "echo", f"/{n % 3}", {"n": n}, budget) for n in range(640)]
        answers = [each.result() for each in asked]
    assert [answer["n"] for answer in answers] == list(range(640))
    assert [answer["root"] for answer in answers] == [f"/{n % 3}" for n in range(640)]
    stats = workers.stats()
    assert (stats.busy, stats.waiting, stats.crashed, stats.killed) == (0, 0, 0, 0)
    assert stats.started == stats.processes <= 4


def test_many_threads_are_served_while_some_are_cancelled_and_some_workers_die(employ: Employ) -> None:
    workers = employ(processes=3, jobs=7)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    tools = ["echo", "echo", "exit", "spin", "refuse", "echo", "fault"]
    expected = {"exit": "engine_crashed", "refuse": "QueryParameterRejected", "fault": "internal"}

    def one(number: int) -> tuple[str, str]:
        tool = tools[number % len(tools)]
        try:
            answer = workers.do(tool, f"/{number % 2}", seconds=0.2 if tool == "spin" else 50, n=number)
        except (StoreError, RequestError) as error:
            return tool, error.code
        return tool, "echo" if answer["n"] == number else "another's answer"

    with ThreadPoolExecutor(32) as threads:
        found = list(threads.map(one, range(70)))
    assert all(code == expected.get(tool, tool) for tool, code in found if tool != "spin")
    assert {code for tool, code in found if tool == "spin"} == {"deadline_exceeded"}
    assert (workers.stats().busy, workers.stats().waiting) == (0, 0)
    workers.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_the_process_that_served_a_store_serves_it_again(employ: Employ) -> None:
    workers = employ(processes=2)
    with ThreadPoolExecutor(8) as threads:
        naps = [threads.submit(workers.do, "nap", r, for_s=2.0) for r in ("/a", "/b")]
        pids = [nap.result() for nap in naps]
    assert pids[0] != pids[1]
    for _ in range(3):
        assert [workers.do("echo", root)["pid"] for root in ("/a", "/b")] == pids
        assert [workers.do("echo", root)["pid"] for root in ("/b", "/a")] == pids[::-1]


def test_a_worker_is_replaced_after_so_many_jobs(employ: Employ) -> None:
    workers = employ(jobs=2)
    assert [workers.do("echo")["asked"] for _ in range(5)] == [1, 2, 1, 2, 1]


def test_a_worker_that_keeps_much_memory_is_replaced(employ: Employ) -> None:
    workers = employ(memory_bytes=256 * MIB)
    pid = workers.do("keep", bytes=150 * MIB)
    assert workers.do("echo")["pid"] != pid
    assert workers.stats().retired == 1


def test_idle_workers_end(employ: Employ, soon: Soon, lives: Callable[[int], bool]) -> None:
    workers = employ(idle_s=0.2)
    pid = workers.do("echo")["pid"]
    soon(lambda: workers.stats().processes == 0)
    soon(lambda: not lives(pid))
    assert workers.do("echo")["asked"] == 1


def test_closing_ends_all_and_whoever_asks_is_told(
    employ: Employ, soon: Soon, lives: Callable[[int], bool]
) -> None:
    workers = employ(processes=2)
    with ThreadPoolExecutor(8) as threads:
        naps = [threads.submit(workers.do, "nap", "/a", for_s=0.5) for _ in "ab"]
        pids = [nap.result() for nap in naps]
        asked = [threads.submit(workers.ask, "spin", "/a", {}, Budget.lasting(600)) for _ in range(4)]
        soon(lambda: workers.stats().waiting == 2)
        workers.close()
        errors = [each.exception(LATE_S) for each in asked]
    assert {error.code for error in errors if isinstance(error, StoreError)} == {"engine_crashed"}
    assert len(errors) == 4
    assert not any(map(lives, pids))
    assert workers.code_of("echo") == "engine_crashed"
    workers.close()
    assert [each.name for each in threading.enumerate() if each.name == "engines"] == []
