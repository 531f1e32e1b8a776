"""Workers as the daemon uses them: real processes that behave, misbehave, die and are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated.engines.workers import Workers
from collated_readers import Budget, RequestError, StoreError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from tests.conftest import Snapshot
    from tests.daemon.engines.conftest import Employ, Soon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc, and walls of Linux"),
]

MIB = 1 << 20
LATE_S = 5.0  # 0.3 is promised; machines of tests are slow


def ask(workers: Workers, tool: str, root: str = "/a", *, seconds: float = 30.0, **params: Any) -> Any:
    return workers.ask(tool, root, params, Budget.lasting(seconds))


def cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11])


def code_of(workers: Workers, tool: str, *, seconds: float = 30.0, **params: Any) -> str:
    with pytest.raises((StoreError, RequestError)) as caught:
        ask(workers, tool, seconds=seconds, **params)
    assert isinstance(caught.value, StoreError | RequestError)
    return caught.value.code


# --------------------------------------------------------------------------- what is answered


def test_a_question_is_answered_by_another_process_again_and_again(employ: Employ) -> None:
    workers = employ()
    first = ask(workers, "echo", "/a", text="ä")
    second = ask(workers, "echo")
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
        ask(workers, "refuse")
    assert (refused.value.code, refused.value.message, refused.value.suggestion) == (
        "QueryParameterRejected",
        "not so",
        "but so",
    )
    assert code_of(workers, "store") == "damaged"
    assert workers.stats().started == 1


@pytest.mark.parametrize(
    "tool", ["fault", "unspeakable", "unsayable", "unwritable", "recurse", "no_such_tool"]
)
def test_a_fault_is_told_and_logged_and_ends_nothing(
    employ: Employ, logs: list[MutableMapping[str, Any]], tool: str
) -> None:
    workers = employ()
    assert code_of(workers, tool) == "internal"
    assert ask(workers, "echo")["asked"] == 2
    assert [event["tool"] for event in logs if event["event"] == "engine_fault"] == [tool]


@pytest.mark.parametrize("tool", ["leave", "allocate"])
def test_a_worker_that_is_in_doubt_of_itself_is_replaced(employ: Employ, tool: str) -> None:
    workers = employ(memory_bytes=256 * MIB)
    assert code_of(workers, tool) == {"leave": "internal", "allocate": "engine_memory"}[tool]
    assert ask(workers, "echo")["asked"] == 1
    assert (workers.stats().started, workers.stats().retired) == (2, 1)


def test_an_answer_may_be_large_but_not_too_large(employ: Employ) -> None:
    workers = employ()
    assert len(ask(workers, "large", bytes=63 * MIB)) == 63 * MIB
    assert code_of(workers, "large", bytes=65 * MIB) == "internal"
    assert len(ask(workers, "echo", text="x" * 8 * MIB)["text"]) == 8 * MIB


def test_a_handler_that_cannot_be_had_is_a_fault_of_ours(
    employ: Employ, logs: list[MutableMapping[str, Any]]
) -> None:
    workers = employ("NoService")
    assert code_of(workers, "echo") == "internal"
    assert "not today" in logs[0]["trace"]


@pytest.mark.rule("absent-read-backend")
def test_without_its_engine_nothing_is_asked(employ: Employ) -> None:
    workers = employ(engine="no_such_engine")
    assert not workers.is_available
    assert code_of(workers, "echo") == "ReadBackendAbsent"
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
    ask(workers, "echo")
    with pytest.raises(RequestError, match="stopped by itself"):
        ask(workers, "nap", seconds=0.3, for_s=60)
    assert ask(workers, "echo")["asked"] == 3


@pytest.mark.rule("duration-ceiling", "concurrent-statements")
@pytest.mark.parametrize("tool", ["spin", "hold"])
def test_a_worker_that_does_not_stop_is_killed_and_others_go_on(
    employ: Employ, soon: Soon, lives: Callable[[int], bool], tool: str
) -> None:
    workers = employ()
    with ThreadPoolExecutor(8) as threads:
        other = threads.submit(ask, workers, "nap", "/b", for_s=1.5)
        pid = ask(workers, "echo")["pid"]
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
    pid = ask(workers, "echo")["pid"]
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
        assert code_of(workers, "echo", seconds=0.2) == "deadline_exceeded"
        assert workers.stats().waiting == 0
        cancel.cancelled = True
        assert isinstance(first.exception(LATE_S), StoreError)
    assert ask(workers, "echo")["asked"] == 1


def test_a_budget_too_short_to_start_a_worker_leaves_it_to_the_next(employ: Employ, soon: Soon) -> None:
    workers = employ()
    assert code_of(workers, "echo", seconds=0.001) == "deadline_exceeded"
    soon(lambda: workers.stats().processes == 1 and workers.stats().busy == 0)
    assert ask(workers, "echo")["asked"] == 1
    assert (workers.stats().started, workers.stats().killed) == (1, 0)


def test_a_budget_that_is_spent_starts_nothing(employ: Employ) -> None:
    workers = employ()
    assert code_of(workers, "echo", seconds=0) == "deadline_exceeded"
    assert workers.stats().started == 0


def test_who_asks_first_is_served_first(employ: Employ, soon: Soon) -> None:
    workers = employ(processes=1)
    asked: dict[int, int] = {}
    cancel = Budget.lasting(600)

    def wait_in_line(number: int) -> None:
        asked[number] = ask(workers, "echo")["asked"]

    with ThreadPoolExecutor(8) as threads:
        threads.submit(workers.ask, "spin", "/a", {}, cancel)
        soon(lambda: workers.stats().busy)
        for number in range(6):
            threads.submit(wait_in_line, number)
            soon(lambda number=number: workers.stats().waiting == number + 1)  # type: ignore[misc]  # mypy: lambda
        cancel.cancelled = True
    assert [asked[number] for number in range(6)] == [1, 2, 3, 4, 5, 6]


# --------------------------------------------------------------------------- death


@pytest.mark.parametrize("tool", ["exit", "crash", "abort"])
def test_a_worker_that_dies_costs_its_own_caller_an_answer_and_nobody_else(employ: Employ, tool: str) -> None:
    workers = employ()
    with ThreadPoolExecutor(8) as threads:
        others = [threads.submit(ask, workers, "nap", "/b", for_s=1.0) for _ in range(3)]
        assert code_of(workers, tool) == "engine_crashed"
        assert all(isinstance(other.result(), int) for other in others)
    assert ask(workers, "echo")["pid"]
    assert workers.stats().crashed == 1


def test_a_worker_that_somebody_kills_is_another_one_that_died(employ: Employ, soon: Soon) -> None:
    workers = employ()
    pid = ask(workers, "echo")["pid"]
    with ThreadPoolExecutor(8) as threads:
        before = cpu_ticks(pid)
        asked = threads.submit(ask, workers, "spin")
        soon(lambda: cpu_ticks(pid) > before + 5)  # so it is at it, and not about to be
        os.kill(pid, signal.SIGKILL)
        error = asked.exception(LATE_S)
    assert isinstance(error, StoreError)
    assert error.code == "engine_crashed"


def test_a_worker_that_died_while_idle_costs_nobody_anything(employ: Employ) -> None:
    workers = employ()
    for _ in range(5):
        os.kill(ask(workers, "echo")["pid"], signal.SIGKILL)
    assert ask(workers, "echo")["asked"] == 1


@pytest.mark.parametrize("babbled", ["00000001c1", "ffffffff", "00000002c0c0", "00000000", "0000000191"])
def test_a_worker_that_talks_nonsense_is_one_that_died(employ: Employ, babbled: str) -> None:
    workers = employ()
    assert code_of(workers, "babble", hex=babbled) == "engine_crashed"
    assert ask(workers, "echo")["asked"] == 1


def test_a_worker_that_cannot_be_started_is_one_that_died(employ: Employ, environ: dict[str, str]) -> None:
    workers = employ(memory_bytes=1 * MIB)  # not enough for a thread
    assert code_of(workers, "echo") == "engine_crashed"


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
            answer = ask(workers, tool, f"/{number % 2}", seconds=0.2 if tool == "spin" else 50, n=number)
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
        naps = [threads.submit(ask, workers, "nap", r, for_s=2.0) for r in ("/a", "/b")]
        pids = [nap.result() for nap in naps]
    assert pids[0] != pids[1]
    for _ in range(3):
        assert [ask(workers, "echo", root)["pid"] for root in ("/a", "/b")] == pids
        assert [ask(workers, "echo", root)["pid"] for root in ("/b", "/a")] == pids[::-1]


def test_a_worker_is_replaced_after_so_many_jobs(employ: Employ) -> None:
    workers = employ(jobs=2)
    assert [ask(workers, "echo")["asked"] for _ in range(5)] == [1, 2, 1, 2, 1]


def test_a_worker_that_keeps_much_memory_is_replaced(employ: Employ) -> None:
    workers = employ(memory_bytes=256 * MIB)
    pid = ask(workers, "keep", bytes=150 * MIB)
    assert ask(workers, "echo")["pid"] != pid
    assert workers.stats().retired == 1


def test_idle_workers_end(employ: Employ, soon: Soon, lives: Callable[[int], bool]) -> None:
    workers = employ(idle_s=0.2)
    pid = ask(workers, "echo")["pid"]
    soon(lambda: workers.stats().processes == 0)
    soon(lambda: not lives(pid))
    assert ask(workers, "echo")["asked"] == 1


def test_closing_ends_all_and_whoever_asks_is_told(
    employ: Employ, soon: Soon, lives: Callable[[int], bool]
) -> None:
    workers = employ(processes=2)
    with ThreadPoolExecutor(8) as threads:
        naps = [threads.submit(ask, workers, "nap", "/a", for_s=0.5) for _ in "ab"]
        pids = [nap.result() for nap in naps]
        asked = [threads.submit(workers.ask, "spin", "/a", {}, Budget.lasting(600)) for _ in range(4)]
        soon(lambda: workers.stats().waiting == 2)
        workers.close()
        errors = [each.exception(LATE_S) for each in asked]
    assert {error.code for error in errors if isinstance(error, StoreError)} == {"engine_crashed"}
    assert len(errors) == 4
    assert not any(map(lives, pids))
    assert code_of(workers, "echo") == "engine_crashed"
    workers.close()
    assert [each.name for each in threading.enumerate() if each.name == "engines"] == []


# --------------------------------------------------------------------------- confinement


def test_a_worker_is_confined_and_says_so(employ: Employ, environ: dict[str, str]) -> None:
    workers = employ(memory_bytes=300 * MIB)
    limits = ask(workers, "limits")
    assert limits["RLIMIT_DATA"] == [300 * MIB, 300 * MIB]
    assert limits["RLIMIT_CORE"] == limits["RLIMIT_FSIZE"] == [0, 0]
    confinement = workers.stats().confinement
    assert confinement is not None
    assert confinement.memory_bytes == 300 * MIB
    assert confinement.is_read_only


def test_a_worker_knows_nothing_of_the_daemons_environment(employ: Employ) -> None:
    given = ask(employ(), "environment")
    assert {"NOTIFY_SOCKET", "TOKEN", "HOME"}.isdisjoint(given)
    assert given["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("tool", ["attempts", "thread"])
def test_a_worker_can_change_and_reach_nothing(
    employ: Employ, folder: Path, port: int, snapshot: Snapshot, tool: str
) -> None:
    workers = employ()
    ask(workers, "echo")
    confinement = workers.stats().confinement
    if confinement is None or confinement.missing:
        pytest.skip(f"this system lacks {confinement}")
    before = snapshot(folder)
    found = ask(workers, tool, str(folder), port=port)
    assert {name: what for name, what in found.items() if what != "PermissionError"} == {}
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1 AS a) TO 'PART' (FORMAT parquet, USE_TMP_FILE false)",
        "COPY (SELECT 1 AS a) TO 'PART' (FORMAT parquet)",
        "WITH x AS (COPY (SELECT 1 AS a) TO 'PART' (FORMAT parquet, USE_TMP_FILE false)) SELECT * FROM x",
    ],
)
def test_duckdb_cannot_overwrite_a_part_that_it_may_read(
    employ: Employ, tmp_path: Path, snapshot: Snapshot, sql: str
) -> None:
    duckdb = pytest.importorskip("duckdb")
    store = tmp_path / "store"
    store.mkdir()
    part = store / "part-00000.parquet"
    duckdb.sql("SELECT range AS a FROM range(1000)").write_parquet(str(part))
    before = snapshot(store)
    done = ask(employ(), "copy", str(store), parts=[str(part)], sql=sql)
    assert done["before"] == [[1000]]
    assert done["error"] is not None
    assert snapshot(store) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(x) FROM (SELECT unnest(range(400_000_000)) AS x)",
        "SELECT length(repeat('x', 1_500_000_000))",
        "SELECT count(DISTINCT x) FROM range(200_000_000) AS t(x)",
    ],
)
def test_duckdb_takes_no_more_memory_than_a_worker_has(employ: Employ, sql: str) -> None:
    pytest.importorskip("duckdb")
    workers = employ(memory_bytes=300 * MIB)
    assert code_of(workers, "sql", sql=sql) in {"engine_memory", "engine_crashed"}
    assert ask(workers, "sql", sql="SELECT 42") == [[42]]


@pytest.mark.rule("duration-ceiling")
def test_a_statement_that_duckdb_does_not_stop_is_stopped(employ: Employ) -> None:
    pytest.importorskip("duckdb")
    workers = employ()
    budget = Budget.lasting(1.0)
    with pytest.raises(StoreError) as caught:
        workers.ask("sql", "/a", {"sql": "SELECT count(*) FROM range(10_000_000_000_000)"}, budget)
    assert caught.value.code == "deadline_exceeded"
    assert time.monotonic() - budget.deadline < LATE_S
    assert ask(workers, "sql", sql="SELECT 42") == [[42]]
