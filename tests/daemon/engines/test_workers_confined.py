"""Workers as they are confined: to no file, no network, so much memory; and what DuckDB makes of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated_readers import Budget, StoreError

if TYPE_CHECKING:
    from tests.conftest import Snapshot
    from tests.daemon.engines.conftest import Employ

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc, and walls of Linux"),
]

MIB = 1 << 20
LATE_S = 5.0  # 0.3 is promised; machines of tests are slow


def test_a_worker_is_confined_and_says_so(employ: Employ, environ: dict[str, str]) -> None:
    workers = employ(memory_bytes=300 * MIB)
    limits = workers.do("limits")
    assert limits["RLIMIT_DATA"] == [300 * MIB, 300 * MIB]
    assert limits["RLIMIT_CORE"] == limits["RLIMIT_FSIZE"] == [0, 0]
    confinement = workers.stats().confinement
    assert confinement is not None
    assert confinement.memory_bytes == 300 * MIB
    assert confinement.is_read_only


def test_a_worker_knows_nothing_of_the_daemons_environment(employ: Employ) -> None:
    given = employ().do("environment")
    assert {"NOTIFY_SOCKET", "TOKEN", "HOME"}.isdisjoint(given)
    assert given["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("tool", ["attempts", "thread"])
def test_a_worker_can_change_and_reach_nothing(
    employ: Employ, folder: Path, port: int, snapshot: Snapshot, tool: str
) -> None:
    workers = employ()
    workers.do("echo")
    confinement = workers.stats().confinement
    if confinement is None or confinement.missing:
        pytest.skip(f"this system lacks {confinement}")
    before = snapshot(folder)
    found = workers.do(tool, str(folder), port=port)
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
    done = employ().do("copy", str(store), parts=[str(part)], sql=sql)
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
    assert workers.code_of("sql", sql=sql) in {"engine_memory", "engine_crashed"}
    assert workers.do("sql", sql="SELECT 42") == [[42]]


@pytest.mark.rule("duration-ceiling")
def test_a_statement_that_duckdb_does_not_stop_is_stopped(employ: Employ) -> None:
    pytest.importorskip("duckdb")
    workers = employ()
    budget = Budget.lasting(1.0)
    with pytest.raises(StoreError) as caught:
        workers.ask("sql", "/a", {"sql": "SELECT count(*) FROM range(10_000_000_000_000)"}, budget)
    assert caught.value.code == "deadline_exceeded"
    assert time.monotonic() - budget.deadline < LATE_S
    assert workers.do("sql", sql="SELECT 42") == [[42]]
