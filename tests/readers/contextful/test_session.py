"""Sessions: the worked example's answers, the engine's lock, what stands against tables, deadlines."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated_readers import RequestError
from collated_readers.contextful.guard import judge
from collated_readers.contextful.instants import parse_bound
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bounds
from collated_readers.contextful.session import Session, open_session

if TYPE_CHECKING:
    from .maker import StoreMaker

Open = Callable[..., Session]


@pytest.fixture
def opened() -> Iterator[Open]:
    """`opened(root, **bounds)` opens a session of the store there; bounds are as texts."""
    sessions: list[Session] = []

    def make(root: Path, *, pin: dict[str, str] | None = None, **bounds: str) -> Session:
        given = Bounds(**{name: parse_bound(text) for name, text in bounds.items()}, pin=pin or {})
        sessions.append(open_session(load_store(root), given, memory_bytes=1 << 30, threads=2))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


def rows_of(session: Session, sql: str, values: Any = ()) -> list[list[Any]]:
    return session.query(sql, values).rows


def refusal(ask: Callable[[], object]) -> str:
    """Return the code of what is refused, which is said without the store's path."""
    with pytest.raises(RequestError) as raised:
        ask()
    assert raised.value.message.startswith(raised.value.code)
    return raised.value.code


# ---------------------------------------------------------------------------- the worked example


@pytest.mark.rule("engine", "connection-views", "declaration-set", "bare-name", "zero-rows-is-success")
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT note_id, title, updated_at, _run_id, _row_seq, lang_hint FROM notes ORDER BY note_id",
            [
                [
                    "n1",
                    "Solar battery storage costs fall (v2)",
                    "2030-01-06T00:00:00Z",
                    "run-0002",
                    "0",
                    None,
                ],
                [
                    "n2",
                    "Battery storage for regional grids, revised",
                    "2030-01-12T00:00:00Z",
                    "run-0003",
                    "1",
                    "en",
                ],
                ["n3", "Quarterly hiring plan", "2030-01-02T00:00:00Z", "run-0001", "2", None],
                ["n4", "東京駅の蓄電池 二版", "2030-01-08T00:00:00Z", "run-0004", "1", None],
                ["n5", "Heat pump orders", "2030-01-14T00:00:00Z", "run-0007", "0", None],
            ],
        ),
        ("SELECT count(*) FROM quiet", [["0"]]),
        ("SELECT count(*) FROM hollow", [["0"]]),
        ("SELECT count(*) FROM feed_sync_items", [["0"]]),
        ("SELECT k, v FROM state", [["a", "2"]]),
        (
            "SELECT order_id, tenant, total_cents FROM orders ORDER BY order_id",
            [["A-1", "acme", "1299"], ["G-1", "glo bex/1", "9007199254740993"], ["N-1", None, "5"]],
        ),
        (
            "SELECT id, _run_id FROM events ORDER BY _run_id, _site_id, id",
            [["e1", "r1"], ["e2", "r1"], ["e1", "r2"]],
        ),
        (
            'SELECT article_id, meta, embedding FROM "kb/articles" ORDER BY 1',
            [
                ["a1", '{"n": 40}', [1.0, 0.0, 0.0]],
                ["a2", '{"n": 28}', [0.0, 1.0, 0.0]],
                ["a3", '{"n": 32}', [0.6000000238418579, 0.800000011920929, 0.0]],
            ],
        ),
        (
            "SELECT run_id, batch_seq, status_code, started_at, duration_ms FROM notes__requests ORDER BY 4",
            [
                ["run-0001", 0, 200, "2030-01-10T00:00:00Z", "12"],
                ["run-0001", None, None, "2030-01-10T00:00:01Z", "30"],
            ],
        ),
        ("SELECT count(*) FROM orders__requests", [["0"]]),
    ],
)
def test_the_worked_example_answers_as_recorded(
    worked_example: Path, opened: Open, sql: str, rows: list[Any]
) -> None:
    assert rows_of(opened(worked_example), sql) == rows


@pytest.mark.rule("quiet-table", "ledger-relation")
def test_a_quiet_table_has_its_declared_columns_and_then_the_injected_ones(
    worked_example: Path, opened: Open
) -> None:
    session = opened(worked_example)
    injected = ["_ingested_at", "_run_id", "_row_seq", "_commit_seq", "_site_id"]
    assert [column.name for column in session.columns("quiet")] == [
        "source_run",
        "observed_at",
        "n",
        *injected,
    ]
    assert [column.name for column in session.columns("feed_sync_items")] == injected
    assert [column.name for column in session.columns("notes__requests")] == [
        *("run_id", "batch_seq", "request_id", "vendor_request_id", "connector"),
        *("method", "url_host", "status_code", "started_at", "duration_ms"),
    ]
    by_name = {column.name: column for column in session.columns("kb/articles")}
    assert by_name["embedding"].type == "FLOAT[3]"
    assert by_name["meta"].is_json
    assert not by_name["meta"].is_text
    assert by_name["body"].is_text


@pytest.mark.parametrize(
    ("at", "rows"),
    [
        ("2030-01-20T00:00:00Z", [["eur", "1"], ["gbp", "3"]]),
        ("2030-02-01T00:00:00Z", [["eur", "2"], ["gbp", "3"]]),
        ("2030-01-31T23:59:59.999999999Z", [["eur", "1"], ["gbp", "3"]]),
        ("2030-01-31", [["eur", "1"], ["gbp", "3"]]),
        ("2030-02-01", [["eur", "2"], ["gbp", "3"]]),
        ("2030-01-14", [["eur", "1"]]),
        ("2029-12-31", []),
    ],
)
@pytest.mark.rule("bound-arguments")
def test_valid_time_is_from_its_first_instant_to_before_its_last(
    worked_example: Path, opened: Open, at: str, rows: list[Any]
) -> None:
    session = opened(worked_example, valid_as_of=at)
    assert rows_of(session, "SELECT ccy, rate FROM rates ORDER BY ccy") == rows


@pytest.mark.rule("bound-arguments")
def test_a_bound_refuses_only_tables_that_are_touched(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example, valid_as_of="2030-01-20")
    session.touch(["rates"])
    assert refusal(lambda: session.touch(["rates", "notes"])) == "StoreValidTimeUndeclared"
    assert refusal(lambda: session.columns("quiet")) == "StoreValidTimeUndeclared"


@pytest.mark.rule("available-bound-argument")
def test_available_time_is_refused_of_tables_that_are_touched(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example, available_as_of="2030-01-20")
    assert refusal(lambda: session.touch(["rates"])) == "StoreAvailableTimeUndeclared"
    session.touch(["rates__requests"])


@pytest.mark.parametrize(
    ("at", "rows"),
    [
        ("2030-01-10T03:00:00Z", [["n1", "run-0001"], ["n2", "run-0001"], ["n3", "run-0001"]]),
        ("2030-01-11T12:00:00Z", [["n1", "run-0002"], ["n2", "run-0001"], ["n3", "run-0001"]]),
        ("2030-01-11", [["n1", "run-0002"], ["n2", "run-0001"], ["n3", "run-0001"]]),
        ("2029-01-01", []),
    ],
)
@pytest.mark.rule("bound-arguments")
def test_as_of_is_the_table_of_that_time(
    worked_example: Path, opened: Open, at: str, rows: list[Any]
) -> None:
    session = opened(worked_example, as_of=at)
    assert rows_of(session, "SELECT note_id, _run_id FROM notes ORDER BY 1") == rows
    assert "lang_hint" in [column.name for column in session.columns("notes")]


# ---------------------------------------------------------------------------- the lock


def digest_of(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


LOCKED = [
    "SELECT * FROM read_text('{outside}')",
    "SELECT * FROM '{outside}'",
    'SELECT * FROM "{outside}"',
    "SELECT * FROM read_csv('{outside}')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_parquet('{root}/tables/notes/data/runs/run-0006/ingest-a/part-00000.parquet')",
    "SELECT * FROM read_parquet('{root}/tables/notes/data/runs/*/*/*.parquet')",
    "COPY (SELECT 1) TO '{new}'",
    "COPY notes TO '{new}' (FORMAT parquet)",
    "EXPORT DATABASE '{new}'",
    "ATTACH '{new}' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET allowed_paths = ['/etc/passwd']",
    "SET TimeZone = 'Asia/Tokyo'",
    "RESET memory_limit",
    "PRAGMA threads = 7",
    "PRAGMA enable_profiling",
    "SELECT * FROM local_frame",
]


@pytest.mark.rule("connection-views")
@pytest.mark.parametrize("sql", LOCKED)
def test_the_engine_reads_and_writes_nothing_but_the_parts(
    worked_example: Path, opened: Open, tmp_path: Path, sql: str
) -> None:
    """Not what the guard lets through, but what would be left if it let everything through."""
    local_frame = [1, 2, 3]  # a replacement scan would find it
    outside = tmp_path / "outside.csv"
    outside.write_text("a,b\n1,2\n")
    before = digest_of(worked_example), digest_of(tmp_path)
    session = opened(worked_example)
    session.touch(["notes"])
    text = sql.format(outside=outside, new=tmp_path / "new", root=worked_example)
    assert refusal(lambda: session.fetch(text)) == "engine_error"
    assert refusal(lambda: session.query(text)) == "engine_error"
    assert (digest_of(worked_example), digest_of(tmp_path)) == before
    assert len(local_frame) == 3


def test_what_is_not_lockable_is_still_within_the_session(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    settings = session.fetch(
        "SELECT current_setting('TimeZone') AS zone, current_setting('memory_limit') AS memory,"
        " current_setting('threads') AS threads, current_setting('temp_directory') AS spill"
    )
    assert settings == [{"zone": "UTC", "memory": "1.0 GiB", "threads": 2, "spill": ""}]


def test_a_session_begins_anew_where_its_engine_went(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    for _ in range(2):
        assert rows_of(session, "SELECT count(*) FROM notes") == [["5"]]
        assert refusal(lambda: session.fetch("SET threads = 1")) == "engine_error"
        session.close()


# ---------------------------------------------------------------------------- what is said, and what is not


@pytest.mark.rule("paths-stay-inside")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nope FROM notes",
        "SELECT filename FROM notes",
        "SELECT file_row_number FROM notes",
        "SELECT CAST(title AS INTEGER) FROM notes",
        "SELECT * FROM read_parquet('{root}/tables/none.parquet')",
        "SELECT * FROM '{root}/tables/notes/data/stray parquet'",
        "SELECT 1 FROM notes WHERE",
        "SELECT error((SELECT sql FROM duckdb_views() WHERE view_name = 'notes'))",
    ],
)
def test_errors_say_no_path(worked_example: Path, opened: Open, sql: str) -> None:
    session = opened(worked_example)
    with pytest.raises(RequestError) as raised:
        session.query(sql.format(root=worked_example))
    assert raised.value.code == "engine_error"
    assert str(worked_example) not in raised.value.message
    assert "/data/" not in raised.value.message


@pytest.mark.rule("in-band-error")
def test_an_error_points_into_the_statement_as_it_was_given(worked_example: Path, opened: Open) -> None:
    with pytest.raises(RequestError, match=r"LINE 2: +nope FROM notes\n +\^"):
        opened(worked_example).query("SELECT note_id,\n  nope FROM notes")


@pytest.mark.rule("quiet-table")
def test_an_unknown_name_is_no_relation(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    assert refusal(lambda: session.columns("nothing")) == "EnforceUnknownRelation"
    assert refusal(lambda: session.files("nothing")) == "EnforceUnknownRelation"
    assert refusal(lambda: session.touch(["notes", "nothing"])) == "EnforceUnknownRelation"
    assert "nothing" not in session.relations


def test_names_and_values_come_as_they_are_asked(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    page = session.query("SELECT $a AS x, count(*) AS x FROM notes WHERE title LIKE $b", {"a": 1, "b": "%s%"})
    assert (page.columns, page.rows) == (("x", "x"), [[1, "3"]])
    assert session.query("SELECT ? || ?", ["a", "b"]).rows == [["ab"]]
    assert session.fetch("SELECT $1::BIGINT AS n, NULL AS z", [7]) == [{"n": 7, "z": None}]
    for sql, values in (("SELECT $a", {"b": 1}), ("SELECT '\ud800';", {}), ("SELECT $a", {"a": 2**200})):
        assert refusal(partial(session.query, sql, values)) == "engine_error"


@pytest.mark.rule("truncation-is-exact", "row-ceiling")
def test_a_row_beyond_the_limit_is_told_of(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    for limit, is_more in ((0, True), (4, True), (5, False), (6, False)):
        page = session.query("SELECT note_id FROM notes ORDER BY 1", limit=limit)
        assert (len(page.rows), page.is_more) == (min(limit, 5), is_more)


def test_trees_are_read_without_running_anything(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    assert session.tree("SELECT 1 FROM nothing")["error"] is False
    assert session.tree("DROP TABLE nothing")["error"] is True
    assert len(session.tree("SELECT 1; SELECT 2")["statements"]) == 2


def test_a_statement_that_is_nested_too_deeply_is_refused(worked_example: Path, opened: Open) -> None:
    """Where the tree can be decoded at all, which depends on Python, its depth is."""
    session, text = opened(worked_example), "SELECT 1" + " + 1" * 900

    def judged() -> object:
        tree = session.tree(text)
        return judge(tree, text=text, relations=session.relations, closed=session.closed, parameters=None)

    assert refusal(judged) == "StatementNotReadOnly"


@pytest.mark.slow
def test_order_survives_what_is_put_around_a_statement(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    sql = "SELECT hash(i)::UBIGINT AS h FROM range(300000) t(i) ORDER BY h"
    hashes = [int(row[0]) for row in session.query(sql).rows]
    assert hashes == sorted(hashes)
    assert [int(row[0]) for row in session.query(sql, limit=9).rows] == hashes[:9]


# ---------------------------------------------------------------------------- what stands against a table

KEYED = {"k": "utf8", "v": "int64"}
ROWS = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]


@pytest.mark.rule("miss-wait")
def test_a_part_that_is_gone_costs_only_reads_of_its_table(
    make_context_store: Callable[..., StoreMaker], opened: Open
) -> None:
    maker = make_context_store()
    table = maker.table("t", KEYED)
    table.run("r1", ROWS)
    part = table.folder / "data/runs/r1/ingest-a/part-00000.parquet"
    maker.table("u", KEYED).run("r1", ROWS)
    session = opened(maker.root)
    assert rows_of(session, "SELECT count(*) FROM t, u") == [["4"]]
    part.unlink()
    for ask in (lambda: session.touch(["t", "u"]), lambda: session.query("SELECT sum(v + 1) FROM t")):
        with pytest.raises(
            RequestError, match=r"ReadPartUnavailable: .*r1/ingest-a/part-00000\.parquet"
        ) as gone:
            ask()
        assert str(maker.root) not in gone.value.message
    assert rows_of(session, "SELECT count(*) FROM u") == [["2"]]


@pytest.mark.rule("ledger-relation", "paths-stay-inside")
def test_a_ledger_file_that_is_gone_is_told_without_its_path(
    make_context_store: Callable[..., StoreMaker], opened: Open
) -> None:
    maker = make_context_store()
    table = maker.table("t", KEYED)
    table.run("r1", ROWS)
    path = table.ledger("r1", [{"request_id": "q1", "status_code": 200}])
    session = opened(maker.root)
    assert rows_of(session, "SELECT run_id, request_id, status_code, method FROM t__requests") == [
        ["r1", "q1", 200, None]
    ]
    path.unlink()
    with pytest.raises(RequestError, match="ReadPartUnavailable: table 't': a file of its request ledger"):
        session.touch(["t__requests"])
    session.touch(["t"])


def test_a_damaged_part_costs_only_its_table(
    make_context_store: Callable[..., StoreMaker], opened: Open
) -> None:
    maker = make_context_store()
    table = maker.table("t", KEYED)
    table.run("r1", ROWS)
    maker.table("u", KEYED).run("r1", ROWS)
    (table.folder / "data/runs/r1/ingest-a/part-00000.parquet").write_bytes(b"PAR1 no more PAR1")
    session = opened(maker.root)
    assert refusal(lambda: session.touch(["t"])) == "engine_error"
    assert rows_of(session, "SELECT count(*) FROM u") == [["2"]]


@pytest.mark.parametrize(
    "odd", ["a b", "q'uote", "br[1]x", "st*r", "qu?m", "é東", "back\\slash", 'dou"ble', "a{b,c}"]
)
def test_a_store_may_lie_anywhere(
    make_context_store: Callable[..., StoreMaker], opened: Open, tmp_path: Path, odd: str
) -> None:
    """The engine takes paths for patterns, and must find the one file that is meant."""
    decoy = make_context_store(tmp_path / "br1x")
    decoy.table("t", KEYED).run("r1", [{"k": "decoy", "v": 0}])
    maker = make_context_store(tmp_path / odd)
    maker.table("t", KEYED).run("r1", ROWS)
    session = opened(maker.root)
    assert rows_of(session, "SELECT k FROM t ORDER BY k") == [["a"], ["b"]]


def test_a_store_whose_path_is_no_text_is_refused_in_words(
    worked_example: Path, opened: Open, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"not\xffUTF-8")
    shutil.copytree(worked_example.parents[2], odd)
    session = opened(odd / worked_example.relative_to(worked_example.parents[2]))
    assert refusal(lambda: session.query("SELECT 1")) == "engine_error"


def test_tables_that_the_engine_takes_for_one_are_not_read(
    make_context_store: Callable[..., StoreMaker], opened: Open
) -> None:
    maker = make_context_store()
    for name in ("Notes", "notes", "other"):
        maker.table(name, KEYED).run("r1", ROWS)
    session = opened(maker.root)
    for name in ("Notes", "notes", "notes__requests"):
        assert refusal(partial(session.touch, [name])) == "engine_error"
    assert rows_of(session, "SELECT count(*) FROM other") == [["2"]]


@pytest.mark.rule("reserved-relation")
def test_names_of_the_engine_and_reserved_ones_are_tables_where_the_store_has_them(
    make_context_store: Callable[..., StoreMaker], opened: Open
) -> None:
    maker = make_context_store()
    names = ("_runs", "_visibility/notes", "pg_class", "duckdb_tables", "sqlite_master", "x.parquet", "main")
    for name in names:
        maker.table(name, KEYED).run("r1", ROWS)
    session = opened(maker.root)
    for name in names:
        assert rows_of(session, f'FROM "{name}" SELECT k ORDER BY k') == [["a"], ["b"]]


def test_withheld_tables_are_unknown_and_their_files_closed(
    make_context_store: Callable[..., StoreMaker], opened: Open
) -> None:
    maker = make_context_store()
    table = maker.table("secret", KEYED, policy={"rows": {"predicate": "v > 1"}})
    table.run("r1", ROWS)
    table.ledger("r1", [{"request_id": "q1"}])
    session = opened(maker.root)
    assert not session.relations & {"secret", "secret__requests"}
    assert session.closed == {}
    assert refusal(lambda: session.touch(["secret"])) == "EnforceUnknownRelation"
    for path in table.folder.rglob("*.parquet"):
        assert refusal(partial(session.fetch, f"FROM read_parquet('{path}')")) == "engine_error"


# ---------------------------------------------------------------------------- deadlines

FOREVER = "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range * 7 + b.range = 3"


@pytest.mark.rule("duration-ceiling")
def test_a_statement_is_stopped_at_its_deadline_and_others_go_on(worked_example: Path, opened: Open) -> None:
    session, other = opened(worked_example), opened(worked_example)
    answers: list[Any] = []
    done = threading.Event()

    def keep_asking() -> None:
        while not done.is_set():
            answers.append(rows_of(other, "SELECT count(*) FROM notes"))

    thread = threading.Thread(target=keep_asking)
    thread.start()
    try:
        with (
            pytest.raises(RequestError, match=r"ReadDurationExceeded: 200 ms from table; elapsed \d+ ms"),
            session.interrupting(200, "table"),
        ):
            session.query(FOREVER)
    finally:
        done.set()
        thread.join()
    assert answers
    assert set(map(str, answers)) == {"[['5']]"}
    assert rows_of(session, "SELECT count(*) FROM notes") == [["5"]]


@pytest.mark.rule("duration-ceiling")
@pytest.mark.parametrize(("outer", "inner"), [(200, 60_000), (60_000, 200), (200, 200)])
def test_of_two_deadlines_the_first_counts(
    worked_example: Path, opened: Open, outer: int, inner: int
) -> None:
    session = opened(worked_example)
    with (
        pytest.raises(RequestError, match="ReadDurationExceeded: 200 ms"),
        session.interrupting(outer),
        session.interrupting(inner, "table"),
        session.interrupting(None),
    ):
        session.query(FOREVER)


@pytest.mark.rule("duration-ceiling")
def test_what_ended_past_its_deadline_is_no_answer(worked_example: Path, opened: Open) -> None:
    session = opened(worked_example)
    with (
        pytest.raises(RequestError, match="ReadDurationExceeded: 0 ms from request"),
        session.interrupting(0),
    ):
        session.query("SELECT 1")
    with pytest.raises(RequestError, match="ReadDurationExceeded"), session.interrupting(1):
        started = time.monotonic()
        while time.monotonic() < started + 0.002:
            pass
    with session.interrupting(60_000):
        assert rows_of(session, "SELECT 1") == [[1]]
    with session.interrupting(None):
        assert rows_of(session, "SELECT 1") == [[1]]


def test_a_session_leaves_no_thread_and_no_file(worked_example: Path, opened: Open, tmp_path: Path) -> None:
    before = {thread.name for thread in threading.enumerate()}
    here = [sorted(folder.iterdir()) for folder in (tmp_path, Path.cwd())]
    session = opened(worked_example)
    with session.interrupting(10_000):
        session.query("SELECT * FROM notes")
    assert {thread.name for thread in threading.enumerate()} <= before
    assert [sorted(folder.iterdir()) for folder in (tmp_path, Path.cwd())] == here
