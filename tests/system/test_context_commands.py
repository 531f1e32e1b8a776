"""`collate tables`, `query` and `retrieve` as processes, of a real daemon over the worked example's store."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.system.conftest import Daemon, StartDaemon

README = Path(__file__).parents[2] / "README.md"
NAME = "research"
TITLES = {
    "n1": "Solar battery storage costs fall (v2)",
    "n2": "Battery storage for regional grids, revised",
    "n3": "Quarterly hiring plan",
    "n4": "東京駅の蓄電池 二版",
    "n5": "Heat pump orders",
}
TABLES = [
    *("events", "feed_sync_items", "hollow", "kb/articles", "notes", "orders", "quiet", "rates", "state"),
]
ENDLESS = (
    "SELECT sum(length(a.title)) FROM notes a, notes b, notes c, notes d, notes e, notes f, notes g, "
    "notes h, notes i, notes j, notes k, notes l, notes m, notes n"
)
# Runs a command on a terminal of its own, and copies what that is sent.
ON_TERMINAL = """\
import pty, sys
command = "import sys; from collated.cli import main; sys.exit(main())"
pty.spawn([sys.executable, "-c", command, *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def example(shared: Path) -> Path:
    """The project of the worked example."""
    return shared / "data" / "contextful" / "worked-example"


def add(daemon: Daemon, project: Path, name: str) -> None:
    added = daemon.collate("add", str(project), "--name", name)
    assert added.returncode in (0, 1), added.stderr


@pytest.fixture(scope="module")
def research(start_shared_daemon: StartDaemon, example: Path) -> Daemon:
    """A daemon over the worked example where it lies, as `research`."""
    daemon = start_shared_daemon()
    add(daemon, example, NAME)
    daemon.wait_state(NAME, "open")
    return daemon


def answer(daemon: Daemon, *typed: str, code: int = 0) -> Any:
    """Return the one JSON document that a command prints."""
    ran = daemon.collate(*typed, "--json")
    assert ran.returncode == code, ran.stderr
    return json.loads(ran.stdout)


def rows(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return ran.stdout.splitlines()


# --------------------------------------------------------------------------- tables


def test_every_stores_tables_are_listed(research: Daemon) -> None:
    ran = research.collate("tables")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert [row.split()[:2] for row in rows(ran)[2:]] == [[NAME, table] for table in TABLES]
    (store,) = answer(research, "tables")["stores"]
    assert store["store"] == NAME
    assert {each["table"] for each in store["tables"]} > {*TABLES}


def test_a_stores_tables_are_described(research: Daemon) -> None:
    ran = research.collate("tables", NAME)

    assert ran.returncode == 0, ran.stderr
    counts = {row.split()[0]: row.split()[1] for row in rows(ran)[2:]}
    assert {name: int(count) for name, count in counts.items()} == {
        **{"events": 3, "feed_sync_items": 0, "hollow": 0, "kb/articles": 3, "notes": 5},
        **{"notes__requests": 2, "orders": 3, "quiet": 0, "rates": 3, "state": 1},
    }
    (notes,) = (row for row in rows(ran) if row.startswith("notes "))
    assert "50 rows, 5000 ms  Analyst notes.  note_id, title, body" in notes
    tables = {each["table"]: each for each in answer(research, "tables", NAME)["tables"]}
    assert tables["notes"]["limits"] == {"max_rows": 50, "max_duration_ms": 5000}


@pytest.mark.rule("operator-metadata")
def test_one_table_is_described_whole(research: Daemon) -> None:
    ran = research.collate("tables", NAME, "--table", "notes")

    assert ran.returncode == 0, ran.stderr
    assert "example      SELECT count(*) FROM notes" in rows(ran)
    (title,) = (row.split(maxsplit=2) for row in rows(ran) if row.startswith("title "))
    assert title == ["title", "VARCHAR", "one line"]
    assert answer(research, "tables", NAME, "--table", "notes")["row_count"] == 5


@pytest.mark.rule("project-store", "unregistered-relation")
def test_what_is_not_there_is_not_found(research: Daemon) -> None:
    for typed, said in (
        (("tables", NAME, "--table", "nope"), "EnforceUnknownRelation"),
        (("tables", "nope"), "no store 'nope'"),
        (("query", NAME, "SELECT 1 FROM nope"), "EnforceUnknownRelation"),
        (("retrieve", NAME, "x", "--table", "nope"), "RetrieveTableUnavailable: nope"),
    ):
        ran = research.collate(*typed)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert said in ran.stderr


def test_a_table_is_of_a_store(research: Daemon) -> None:
    ran = research.collate("tables", "--table", "notes")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "name that store" in ran.stderr


def test_without_context_stores_it_is_said_how_to_add_one(daemon: Daemon) -> None:
    ran = daemon.collate("tables")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert "collate add PROJECT" in ran.stderr


def test_what_cannot_be_read_is_named_and_everything_else_is_shown(
    daemon: Daemon, example: Path, tmp_path: Path
) -> None:
    for name in ("broken", "locked"):
        project = tmp_path / name
        shutil.copytree(example, project)
        store = project / ".contextful" / "context" / NAME
        if name == "broken":
            (store / "tables" / "rates" / "schema.json").write_text("{", encoding="utf-8")
        else:
            (store / "config.toml").write_text("[encryption]\n", encoding="utf-8")
        add(daemon, project, name)
    daemon.wait_state("locked", "refused")
    daemon.wait_state("broken", "open")

    every, one = daemon.collate("tables"), daemon.collate("tables", "broken")
    assert (every.returncode, one.returncode) == (3, 3)
    assert [row.split()[:2] for row in rows(every)[2:]] == [["broken", table] for table in TABLES]
    assert "locked did not answer" in every.stderr
    (rates,) = (row for row in rows(one) if row.startswith("rates "))
    assert rates.split()[1] == "NULL"
    assert "StoreManifestUnreadable" in rates
    failed = answer(daemon, "tables", code=3)["failed"]
    assert [each["store"] for each in failed] == ["locked"]


# --------------------------------------------------------------------------- query


def test_rows_are_shown_as_a_table(research: Daemon) -> None:
    sql = "SELECT note_id, title, _row_seq, lang_hint FROM notes ORDER BY note_id LIMIT 2"
    ran = research.collate("query", NAME, sql)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert rows(ran) == [
        "note_id  title                                        _row_seq  lang_hint",
        "───────  ───────────────────────────────────────────  ────────  ─────────",
        "n1       Solar battery storage costs fall (v2)               0  NULL",
        "n2       Battery storage for regional grids, revised         1  en",
    ]


@pytest.mark.rule("one-projection", "query.operator-verb")
def test_json_is_the_wires(research: Daemon) -> None:
    sql = "SELECT note_id, title FROM notes ORDER BY 1"

    assert answer(research, "query", NAME, sql) == research.ask("context.query", store=NAME, sql=sql)
    assert answer(research, "query", NAME, sql) == {
        "columns": ["note_id", "title"],
        "rows": [list(each) for each in TITLES.items()],
        "truncated": False,
    }


def test_a_statement_comes_from_standard_input_with_its_parameters(research: Daemon) -> None:
    sql = "SELECT order_id, total_cents\nFROM orders WHERE tenant = $tenant AND total_cents > $n\n"
    values = ("--param=tenant:string=acme", "--param=n:integer=1000")

    assert answer(research, "query", NAME, sql, *values)["rows"] == [["A-1", "1299"]]
    ran = research.collate("query", NAME, "-", *values, "--json", given=sql.encode())
    assert json.loads(ran.stdout)["rows"] == [["A-1", "1299"]]
    wrong = research.collate("query", NAME, sql, values[0], "--param=n:timestamp=soon")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "QueryParameterRejected" in wrong.stderr


@pytest.mark.parametrize(
    ("at", "found", "echo"),
    [
        ("2030-01-20T00:00:00Z", "eur 1 gbp 3", "2030-01-20T00:00:00.000000000Z, that instant in"),
        ("2030-02-01T00:00:00Z", "eur 2 gbp 3", "2030-02-01T00:00:00.000000000Z, that instant in"),
        ("2030-01-31", "eur 1 gbp 3", "2030-02-01T00:00:00.000000000Z, that instant not"),
        ("2030-01-14", "eur 1", "2030-01-15T00:00:00.000000000Z, that instant not"),
    ],
)
def test_a_read_is_bounded_and_says_so(research: Daemon, at: str, found: str, echo: str) -> None:
    typed = ("query", NAME, "SELECT ccy, rate FROM rates ORDER BY 1", "--valid-as-of", at)

    assert " ".join(cell for row in answer(research, *typed)["rows"] for cell in row) == found
    assert f"collate: read valid as of {echo}" in research.collate(*typed).stderr


def test_a_read_as_of_an_instant_has_what_was_committed(research: Daemon) -> None:
    typed = ("query", NAME, "SELECT count(*) AS n FROM notes WHERE _run_id > 'run-0001'", "--as-of")

    assert answer(research, *typed, "2030-01-10T03:00:00Z")["rows"] == [["0"]]
    assert answer(research, *typed, "2030-01-15")["rows"] == [["4"]]


@pytest.mark.rule("raw-row-ceiling", "truncation-cause")
def test_it_is_said_what_cut_the_rows(research: Daemon) -> None:
    sql = "SELECT a.note_id FROM notes a, notes b, notes c"
    by_rows = research.collate("query", NAME, sql)
    by_bytes = research.collate("query", NAME, sql, "--limit-bytes", "300")
    too_small = research.collate("query", NAME, sql, "--limit-bytes", "10")

    assert len(rows(by_rows)) == 2 + 50
    assert by_rows.stderr == (
        "collate: there are more than these 50 rows: 50 rows are the limit that a table declares\n"
    )
    assert by_bytes.returncode == 0
    assert "300 bytes are what was asked for; raise --limit-bytes" in by_bytes.stderr
    assert too_small.returncode == 2
    assert "ReadResponseTooLarge" in too_small.stderr


@pytest.mark.rule("in-band-error", "query.engine-fault")
@pytest.mark.parametrize(
    ("sql", "identifier"),
    [
        ("SELECT * FROM read_parquet('x.parquet')", "TableFunctionRefused"),
        ("DELETE FROM notes", "StatementNotReadOnly"),
        ("SELECT 1 FROM notes WHERE note_id = $a", "QueryParameterRejected"),
        ("SELECT nope FROM notes", "engine_error"),
    ],
)
def test_a_refusal_is_usage_and_has_the_seeds_identifier(research: Daemon, sql: str, identifier: str) -> None:
    ran = research.collate("query", NAME, sql)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"collate: {identifier}: ")


def test_no_rows_are_nothing_found(research: Daemon) -> None:
    ran = research.collate("query", NAME, "SELECT note_id FROM notes WHERE false", "--internals")

    assert ran.returncode == 1
    assert rows(ran) == ["note_id", "───────"]
    assert "collate: no rows\n" in ran.stderr
    assert "engine duckdb" in ran.stderr


def test_a_statement_ends_at_its_time(research: Daemon) -> None:
    ran = research.collate("query", NAME, ENDLESS, "--timeout", "0.2")

    assert (ran.returncode, ran.stdout) == (3, "")
    assert "ReadDurationExceeded: 200 ms" in ran.stderr


def on_terminal(daemon: Daemon, *typed: str) -> str:
    """Return what a terminal of 60 columns without colours is sent."""
    ran = subprocess.run(
        [sys.executable, "-c", ON_TERMINAL, *typed],
        env={**daemon.environ, "COLUMNS": "60", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=True,
    )
    return ran.stdout.decode()


def test_a_table_fits_a_terminal_and_json_does_not_change(research: Daemon) -> None:
    sql = "SELECT note_id, title, body, content_hash FROM notes ORDER BY 1"

    shown = on_terminal(research, "query", NAME, sql).splitlines()
    assert len(shown) == 2 + 5
    assert all(len(row) <= 60 for row in shown)
    assert shown[2].startswith("n1       Solar battery s…  Cell prices fe…  370ea")
    assert json.loads(on_terminal(research, "query", NAME, sql, "--json")) == answer(
        research, "query", NAME, sql
    )
    lists = on_terminal(research, "query", NAME, "SELECT * FROM notes").splitlines()
    assert lists[0] == "row 1"
    assert all(len(row) <= 60 for row in lists)


# --------------------------------------------------------------------------- retrieve


def test_rows_are_ranked(research: Daemon) -> None:
    ran = research.collate("retrieve", NAME, "battery", "storage", "--limit", "2")

    assert ran.returncode == 0
    assert rows(ran) == [
        "research:notes  run-0002  2 words",
        "    Solar battery storage costs fall (v2) — Cell prices fell again.",
        "research:notes  run-0003  2 words",
        "    Battery storage for regional grids, revised — Grid operators buy batteries.",
    ]
    assert "raise --limit" in ran.stderr
    assert answer(research, "retrieve", NAME, "battery", "storage") == research.ask(
        "corpus.retrieve", store=NAME, query="battery storage"
    )


def retrieved(daemon: Daemon, *typed: str, code: int = 0) -> list[tuple[str, Any]]:
    found = answer(daemon, "retrieve", NAME, *typed, code=code)
    return [(row[0], row[1].get("note_id")) for row in found["rows"]]


def test_every_option_narrows(research: Daemon) -> None:
    every = {table for table, _ in retrieved(research, "battery storage")}

    assert every == {"kb/articles", "notes"}
    assert {table for table, _ in retrieved(research, "storage", "--prefix", "kb/")} == {"kb/articles"}
    assert {table for table, _ in retrieved(research, "battery", "--table", "notes")} == {"notes"}
    assert retrieved(research, "storage", "--filter", "note_id=n2") == [("notes", "n2")]
    both = retrieved(research, "storage", "--filter", "note_id=n1", "--filter", "note_id=n2")
    assert {*both} == {("notes", "n1"), ("notes", "n2")}
    assert retrieved(research, "battery", "--kind", "nothing", code=1) == []
    early = retrieved(research, "storage", "--table", "notes", "--as-of", "2030-01-10T03:00:00Z")
    assert ("notes", "n5") not in early


def test_a_timeframe_orders_and_says_so(research: Daemon) -> None:
    typed = ("retrieve", NAME, "storage", "--since", "2030-01-05", "--as-of", "2030-01-15")
    found = answer(research, *typed)
    ran = research.collate(*typed)

    window = [row[found["columns"].index("_in_window")] for row in found["rows"]]
    assert window == sorted(window, reverse=True)
    assert 0 < sum(window) < len(window)
    assert f"{sum(window)} of {len(window)} rows are from 2030-01-05 on" in ran.stderr
    assert rows(ran)[-2].endswith("out of the timeframe")


def test_nothing_that_matches_is_nothing_found(research: Daemon) -> None:
    ran = research.collate("retrieve", NAME, "zebra")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "collate: no row has any of these words\n"


# --------------------------------------------------------------------------- README


def test_readme_shows_what_these_commands_print(research: Daemon) -> None:
    marked = re.search(
        r"<!-- not run: [^>]*test_context_commands[^>]* -->\n```console\n(.*?)```", README.read_text(), re.S
    )
    assert marked
    parts = re.split(r"^\$ collate (.*)\n", marked[1], flags=re.MULTILINE)

    for typed, shown in zip(parts[1::2], parts[2::2], strict=True):
        expected = "".join(
            r"(?:.*\n)*?" if row == "…" else ".*?".join(map(re.escape, row.split("…"))) + r"\n"
            for row in shown.splitlines()
        )
        ran = research.collate(*shlex.split(typed))
        said = ran.stdout + ran.stderr
        assert re.fullmatch(expected, said), f"$ collate {typed}\n{said}"
