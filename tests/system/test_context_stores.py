"""Context stores through a real daemon: found, searched with all others, asked in SQL, never touched."""

from __future__ import annotations

import importlib.util
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Snapshot
    from tests.system.conftest import Daemon, StartDaemon

WATCH = """\
[[watch]]
path = "{projects}"
match = ["*/.contextful/context/*"]
"""
MAKER = Path(__file__).parents[1] / "readers" / "contextful" / "maker.py"
RANKINGS = ("contract", "fused", "global", "smart")
# Rows of five tables' tables: it would run for minutes.
ENDLESS = f"SELECT count(*) FROM {', '.join(f'notes AS n{at}' for at in range(18))} WHERE n0.title <> n1.body"  # noqa: S608 - ours


@pytest.fixture(scope="module")
def example(shared: Path) -> Path:
    return shared / "data" / "contextful" / "worked-example"


def watch(daemon: Daemon, settings: str = "") -> Path:
    """Have the daemon, not yet running, look at projects; return where they are."""
    projects = daemon.base / "projects"
    projects.mkdir()
    daemon.configure(WATCH.format(projects=projects) + settings)
    return projects


def over_example(start: StartDaemon, example: Path, make_store: MakeStore) -> Daemon:
    """Start a daemon over a copy of the worked example, called `research`, and a store of documents."""
    daemon = start(is_launched=False)
    shutil.copytree(example, watch(daemon) / "research")
    make_store(daemon.stores / "guide.sqlite", {"a.md": "# Guide\n\nBattery storage for beginners.\n"})
    daemon.start()
    daemon.wait_state("research", "open")
    daemon.wait_state("guide", "open")
    return daemon


@pytest.fixture(scope="module")
def library(start_shared_daemon: StartDaemon, example: Path, make_store: MakeStore) -> Daemon:
    """A daemon over the worked example and a store of documents, of which nothing is changed."""
    return over_example(start_shared_daemon, example, make_store)


@pytest.fixture
def daemon(start_daemon: StartDaemon, example: Path, make_store: MakeStore) -> Daemon:
    """A daemon as `library`, of the test's own."""
    return over_example(start_daemon, example, make_store)


@pytest.fixture
def maker(daemon: Daemon) -> Iterator[Any]:
    """A store `made` beside the worked example, to which runs can be committed while it is library."""
    spec = importlib.util.spec_from_file_location("context_maker", MAKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    store = module.StoreMaker(daemon.base / "projects" / "made", "made")
    yield store
    store.close()


def query(daemon: Daemon, sql: str, store: str = "research", **more: object) -> Any:
    # Long enough for a worker to start on a busy machine.
    return daemon.ask("context.query", {"deadline_ms": 30_000, **more}, store=store, sql=sql)


def code_of(daemon: Daemon, ask: Callable[[], object]) -> str:
    with pytest.raises(daemon.Error) as refused:
        ask()
    code: str = refused.value.data["code"]
    return code


def test_one_search_finds_rows_beside_documents_in_every_ranking(library: Daemon) -> None:
    def refs(ranking: str) -> list[str]:
        answer = library.ask("search", query="battery storage", ranking=ranking)
        assert answer["complete"], answer["stores"]
        return [hit["ref"] for hit in answer["hits"]]

    library.wait_for(
        lambda: library.ask("search", query="battery", ranking="global")["complete"], what="texts"
    )
    for ranking in RANKINGS:
        assert {"guide:a.md#0", "research:notes/run-0002/0", "research:notes/run-0003/1"} <= set(
            refs(ranking)
        )


def test_a_hit_can_be_read_and_its_words_be_grepped(library: Daemon) -> None:
    hit = library.ask("search", query="hiring plan", ranking="contract", stores=["research"])["hits"][0]
    assert (hit["format"], hit["doc"], hit["tier"], hit["kind"]) == ("contextful", "notes", "phrase", "row")
    assert "Quarterly hiring plan" in library.ask("read", ref=hit["ref"])["text"]
    matches = library.ask("grep", pattern="hiring plan", stores=["research"])["matches"]
    assert [match["ref"] for match in matches] == [hit["ref"]]
    assert "notes" in library.ask("index", store="research")["text"]


@pytest.mark.rule("one-projection", "one-response-shape")
def test_a_statement_is_answered_in_the_seeds_envelope(library: Daemon) -> None:
    answer = query(library, "SELECT order_id, total_cents FROM orders ORDER BY 2 DESC LIMIT 1")
    assert answer == {
        "columns": ["order_id", "total_cents"],
        "rows": [["G-1", "9007199254740993"]],
        "truncated": False,
    }
    bounded = query(library, "SELECT ccy, rate FROM rates ORDER BY ALL", valid_as_of="2030-01-31")
    assert bounded["rows"] == [["eur", "1"], ["gbp", "3"]]
    assert bounded["contextful.bounds"] == {
        "valid_as_of": "2030-02-01T00:00:00.000000000Z",
        "inclusive": False,
    }


@pytest.mark.rule("in-band-error", "paths-stay-inside")
@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("DELETE FROM notes", "StatementNotReadOnly"),
        ("SELECT * FROM read_parquet('/etc/passwd')", "TableFunctionRefused"),
        ("SELECT * FROM secrets", "EnforceUnknownRelation"),
        ("SELECT current_setting('allowed_paths')", "FunctionRefused"),
        ("SELECT * FROM notes WHERE note_id = $id", "QueryParameterRejected"),
        ("SELECT note_id + 1 FROM notes", "engine_error"),
    ],
)
def test_a_refusal_has_the_seeds_identifier_and_tells_no_path(library: Daemon, sql: str, code: str) -> None:
    with pytest.raises(library.Error) as refused:
        query(library, sql)
    assert refused.value.data["code"] == code
    assert str(library.base) not in str(refused.value.data) + str(refused.value)


def test_what_is_not_asked_for_in_the_seeds_words_is_refused(library: Daemon) -> None:
    assert code_of(library, lambda: query(library, "SELECT 1", limit=3)) == "invalid_params"
    assert code_of(library, lambda: query(library, "SELECT 1", as_of="yesterday")) == "invalid_params"
    assert code_of(library, lambda: query(library, "SELECT 1", store="guide")) == "unsupported"
    assert (
        code_of(library, lambda: library.ask("context.lineage", store="research"))
        == "ReadArgumentUnsupported"
    )


@pytest.mark.rule("change-misses")
def test_a_commit_a_fold_and_a_new_table_are_seen_at_once(daemon: Daemon, maker: Any) -> None:
    table = maker.table("notes", {"id": "utf8", "body": "utf8"}, primary_key=["id"])
    table.run("r1", [{"id": "a", "body": "first wallaby"}], at="2030-01-01T00:00:00Z")
    daemon.wait_state("made", "open")

    def rows(sql: str = "SELECT body FROM notes ORDER BY id") -> list[list[Any]]:
        answered: list[list[Any]] = query(daemon, sql, store="made")["rows"]
        return answered

    assert rows() == [["first wallaby"]]
    table.run("r2", [{"id": "a", "body": "second wallaby"}], at="2030-01-02T00:00:00Z")
    assert rows() == [["second wallaby"]]  # a statement looks for itself
    table.fold("2030-01-03T00:00:00Z")
    assert rows() == [["second wallaby"]]
    maker.table("more", {"x": "int64"}).run("r1", [{"x": 7}])
    assert rows("SELECT x FROM more") == [["7"]]

    def found() -> list[str]:
        hits = daemon.ask("search", query="wallaby", ranking="contract", stores=["made"])["hits"]
        return [hit["snippet"] for hit in hits]

    assert found() == ["second wallaby"]
    table.run("r3", [{"id": "b", "body": "third wallaby"}], at="2030-01-04T00:00:00Z")
    daemon.wait_for(lambda: sorted(found()) == ["second wallaby", "third wallaby"], what="the new row")


def test_a_store_that_changes_all_the_time_answers_of_one_state(daemon: Daemon, maker: Any) -> None:
    """Each run replaces all rows and adds one: an answer of two states would have rows of two runs."""
    table = maker.table("notes", {"id": "int64", "run": "int64"}, primary_key=["id"])

    def commit(run: int) -> None:
        table.run(
            f"r{run:03d}", [{"id": at, "run": run} for at in range(run)], at=f"2030-01-01T00:{run:02d}:00Z"
        )
        if run % 5 == 0:
            table.fold(f"2030-01-01T00:{run:02d}:30Z")

    commit(1)
    daemon.wait_state("made", "open")
    seen: list[int] = []

    def write() -> None:
        for run in range(2, 40):
            commit(run)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        count, first, last = query(daemon, "SELECT count(*), min(run), max(run) FROM notes", store="made")[
            "rows"
        ][0]
        assert count == first == last
        seen.append(int(count))
    writer.join()
    assert seen == sorted(seen)
    assert query(daemon, "SELECT count(*) FROM notes", store="made")["rows"] == [["39"]]


def test_nothing_that_is_asked_leaves_a_trace_beside_a_store(library: Daemon, snapshot: Snapshot) -> None:
    projects = library.base / "projects"
    before = snapshot(projects)
    for ranking in RANKINGS:
        library.ask("search", query="battery storage", ranking=ranking)
    query(library, "SELECT count(*) FROM notes")
    library.ask("corpus.retrieve", store="research", query="battery storage")
    library.ask("context.describe", store="research", table="notes")
    library.ask("context.subscribe", store="research", tables=["events"])
    library.ask("grep", pattern="storage")
    hostile = f"WITH x AS (COPY (SELECT 1) TO '{projects}/research/x') SELECT * FROM x"  # noqa: S608 - refused
    assert code_of(library, lambda: query(library, hostile)) == "StatementNotReadOnly"
    assert snapshot(projects) == before


def test_a_statement_ends_at_its_deadline_and_others_run_on(library: Daemon) -> None:
    ended: list[tuple[str, float]] = []

    def run_on() -> None:
        started = time.monotonic()
        code = code_of(library, lambda: query(library, ENDLESS, deadline_ms=1_500))
        ended.append((code, time.monotonic() - started))

    thread = threading.Thread(target=run_on)
    thread.start()
    while thread.is_alive():
        assert query(library, "SELECT count(*) FROM notes")["rows"] == [["5"]]
    thread.join()
    assert [code for code, _ in ended] == ["deadline_exceeded"]
    assert code_of(library, lambda: query(library, ENDLESS, max_duration_ms=300)) == "ReadDurationExceeded"


@pytest.mark.rule("duration-no-statement")
def test_a_ceiling_of_time_is_for_statements_alone(library: Daemon) -> None:
    ceiling: dict[str, Any] = {"store": "research", "max_duration_ms": 1, "deadline_ms": 30_000}
    assert library.ask("context.files", ceiling)["rows"]
    assert library.ask("context.describe", ceiling)["tables"]
    assert code_of(library, lambda: library.ask("context.lineage", ceiling)) == "ReadArgumentUnsupported"


@pytest.mark.rule("concurrent-statements", "pool-connections")
def test_many_statements_at_once_are_all_answered(library: Daemon) -> None:
    def ask(number: int) -> Any:
        return query(library, f"SELECT {number} + count(*) FROM notes")["rows"][0][0]  # noqa: S608 - ours

    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(ask, range(32)))
    assert answers == [str(number + 5) for number in range(32)]


@pytest.mark.rule("project-store")
def test_a_store_that_is_deleted_while_it_answers_is_a_named_error(daemon: Daemon) -> None:
    shutil.rmtree(daemon.base / "projects" / "research" / ".contextful")
    refused = code_of(daemon, lambda: query(daemon, "SELECT * FROM notes"))
    assert refused in {"store_unavailable", "unknown_store", "ReadPartUnavailable"}
    daemon.wait_for(lambda: "research" not in json.dumps(daemon.ask("stores")), what="the store to be gone")
    assert [hit["ref"] for hit in daemon.ask("search", query="battery storage")["hits"]] == ["guide:a.md#0"]


def test_a_bad_table_costs_no_other_its_answers(daemon: Daemon) -> None:
    root = daemon.base / "projects" / "research" / ".contextful" / "context" / "research"
    (root / "tables" / "orders" / "schema.json").write_text("{")
    assert query(daemon, "SELECT count(*) FROM notes")["rows"] == [["5"]]
    assert code_of(daemon, lambda: query(daemon, "SELECT * FROM orders")) == "StoreManifestUnreadable"


@pytest.mark.rule("build-identity", "required-face")
def test_a_client_is_told_what_reads_and_may_require_it(library: Daemon) -> None:
    hello = library.ask("initialize", require=["contextful", "context.query", "hnsw"])
    assert hello["backends"] == ["duckdb", "fts", "hnsw"]
    assert (
        code_of(library, lambda: library.ask("initialize", require=["memory.explain"]))
        == "RequiredFaceAbsent"
    )


def test_the_engine_is_no_part_of_the_daemon(daemon: Daemon) -> None:
    query(daemon, "SELECT 1")
    assert "duckdb" not in Path(f"/proc/{daemon.pid}/maps").read_text()
    daemon.stop()
    assert "Traceback" not in daemon.log
