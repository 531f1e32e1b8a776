"""The statements that are sent to a store: found by indexes, and leaving no trace."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget, RequestError, StoreError
from collated_readers.codebase_index.architecture import architecture_of
from collated_readers.codebase_index.chunk import chunk_of
from collated_readers.codebase_index.impact import impact_of
from collated_readers.codebase_index.references import references_of
from collated_readers.codebase_index.symbols import symbols_of
from collated_readers.opening import StoreConnection, ask

Question = Callable[[sqlite3.Connection], object]

QUESTIONS: dict[str, Question] = {
    "symbols by name": lambda db: symbols_of(db, "Typer", 9, exact=False),
    "symbols by beginning": lambda db: symbols_of(db, "_get", 9, exact=False),
    "members": lambda db: symbols_of(db, "Typer.command", 9, exact=False),
    "references": lambda db: references_of(db, "echo", "all", "typer", 9),
    "references to a member": lambda db: references_of(db, "Typer.command", "all", None, 9),
    "impact of a file": lambda db: impact_of(db, "typer/main.py", "both", 3, Budget.lasting(30)),
    "impact of a symbol": lambda db: impact_of(db, "Typer", "both", 3, Budget.lasting(30)),
    "a chunk": lambda db: chunk_of(db, "typer/main.py", 200),
    "the report": architecture_of,
}
WHOLE_TABLES = {
    "SCAN symbols",
    "SCAN edges",
    "SCAN chunks",
    "SCAN files",
    "SCAN s",
    "SCAN t",
    "SCAN c",
    "SCAN f",
}
SPOILT = "UPDATE {} SET {} = {} WHERE rowid IN (SELECT max(rowid) FROM {})"
OPENED_IN_PLACE = (
    "typer/index.sqlite",
    "after_update/typer_after_update.sqlite",
    "after_update/typer_after_update_id_reuse.sqlite",
    "degraded_no_grammar/typer_no_symbols.sqlite",
    "live_wal/index.sqlite",
    "schema_versions/typer_v1.2.1.sqlite",
    "schema_versions/typer_883d37c.sqlite",
    "schema_versions/typer_v1.5.0.sqlite",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_table_is_read_whole(altered_store: Callable[..., StoreConnection], question: str) -> None:
    db = altered_store()
    sent: list[str] = []
    db.set_trace_callback(sent.append)
    QUESTIONS[question](db)
    db.set_trace_callback(None)
    asked = [sql for sql in sent if "SELECT" in sql and "SELECT NOT EXISTS" not in sql]
    assert asked
    for sql in asked:
        steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
        scans = {step.partition(" USING")[0] for step in steps}
        assert not scans & WHOLE_TABLES, (sql, steps)
        assert "SCAN e" not in scans or "MATERIALIZE e" in scans, (sql, steps)


@pytest.mark.parametrize("store", OPENED_IN_PLACE)
def test_a_store_is_as_it_was_after_all_questions(
    code_stores: Path,
    code_store: Callable[[str], StoreConnection],
    snapshot: Callable[[Path], dict[str, tuple[object, ...]]],
    store: str,
) -> None:
    folder = (code_stores / store).parent
    before = snapshot(folder)
    db = code_store(store)
    for question in QUESTIONS.values():
        with suppress(StoreError, RequestError):
            ask(db, question, Budget.lasting(30))
    db.close()
    assert snapshot(folder) == before


# ---------------------------------------------------------------- stores made to harm

COLUMNS = {
    "files": ("id", "path", "lang", "sha256", "parser"),
    "symbols": ("id", "file_id", "name", "qualified", "kind", "line_start", "line_end", "signature"),
    "edges": (
        *("edge_type", "src_kind", "src_id", "dst_kind", "dst_id", "dst_name", "file_id", "line", "resolved"),
        *("confidence", "dst_qualifier"),
    ),
    "chunks": ("file_id", "line_start", "line_end", "kind", "content"),
    "meta": ("value",),
}
VALUES = (
    "x'00'",
    "1.5",
    "''",
    "'Typer'",
    "'\n/.:'",
    "-1",
    "9223372036854775807",
    "CAST(x'ff' AS TEXT)",
    "NULL",
)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("table", "column"), [(table, each) for table in COLUMNS for each in COLUMNS[table]])
def test_any_value_anywhere_is_an_answer_or_damage(
    small_store: Callable[[], Any], table: str, column: str, value: str
) -> None:
    store = small_store()
    main, other = store.file("typer/main.py"), store.file("typer/other.py")
    typer, command = (
        store.symbol(main, "Typer", 1, 300),
        store.symbol(main, "command", 9, qualified="Typer.command"),
    )
    echo = store.symbol(other, "echo", 5, signature="def echo():")
    store.edge(main, typer, "echo", echo)
    store.edge(other, echo, "command", command, dst_qualifier="Typer")
    store.edge(other, echo, "command", dst_qualifier="app")
    store.edge(other, other, "typer.main", main, edge_type="import", src_kind="file", dst_kind="file")
    store.chunk(main, (1, 300), "text")
    store.meta("graph_analysis", "{}")
    with suppress(sqlite3.IntegrityError):  # a value that the table itself does not take
        store.db.execute(SPOILT.format(table, column, value, table))
    for question in QUESTIONS.values():
        try:
            question(store.db)
        except (StoreError, RequestError):
            pass
        except sqlite3.OperationalError as error:  # which `ask` translates
            assert "decode" in str(error)
