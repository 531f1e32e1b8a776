"""Which codebase-index stores can be read, what is said of them, and that none is touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collated_readers import Budget, Pattern, Query, StoreError, StoreFacts
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection, ask, tables
from collated_readers.registry import identify
from collated_readers.single import search

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]
CodeStore = Callable[[str], StoreConnection]
Altered = Callable[..., StoreConnection]

READER = CodebaseIndex()
BUDGET = Budget.lasting(600)

# Store, schema version, files, chunks, symbols, edges whose target is another or gone.
STORES = (
    ("typer/index.sqlite", "4", 39, 722, 648, 0),
    ("pydantic/index.sqlite", "4", 109, 3087, 2340, 0),
    ("schema_versions/typer_v1.2.1.sqlite", "1", 39, 722, 648, 0),
    ("schema_versions/typer_v1.2.1_vec64.sqlite", "1", 39, 722, 648, 0),
    ("schema_versions/typer_v1.4.0.sqlite", "1", 39, 722, 648, 0),
    ("schema_versions/typer_883d37c.sqlite", "2", 39, 722, 648, 0),
    ("schema_versions/typer_v1.5.0.sqlite", "3", 39, 722, 648, 0),
    ("schema_versions/typer_pypi-1.7.0.sqlite", "3", 39, 722, 648, 0),
    ("schema_versions/typer_pypi-2.0.0.sqlite", "3", 39, 722, 648, 0),
    ("schema_versions/typer_pypi-2.1.0.sqlite", "4", 39, 722, 648, 0),
    ("schema_versions/typer_v4_vec64_forced.sqlite", "4", 39, 722, 648, 0),
    ("after_update/typer_after_update.sqlite", "4", 38, 699, 579, 23),
    ("after_update/typer_after_update_id_reuse.sqlite", "4", 39, 723, 649, 65),
    ("live_wal/index.sqlite", "4", 39, 724, 649, 13),
    ("degraded_no_grammar/typer_no_symbols.sqlite", "4", 39, 560, 0, 0),
)


def _facts(db: StoreConnection) -> StoreFacts:
    reader, facts = ask(db, identify, BUDGET)
    assert isinstance(reader, CodebaseIndex)
    return facts


def _code_of(db: StoreConnection) -> str:
    with pytest.raises(StoreError) as caught:
        _facts(db)
    return caught.value.code


@pytest.mark.parametrize("expected", STORES, ids=lambda expected: expected[0])
def test_a_store_of_every_version_is_opened_and_searched(
    code_store: CodeStore, expected: tuple[str, str, int, int, int, int]
) -> None:
    name, version, files, chunks, symbols, dangling = expected
    db = code_store(name)
    facts = _facts(db)
    details = facts.details
    assert (facts.schema_version, facts.documents, facts.records) == (version, files, chunks)
    assert (details["symbols"], details["dangling_edges"]) == (symbols, dangling)
    assert details["symbols_missing"] == (symbols == 0)
    assert details["languages"] == ["markdown", "python"]
    assert details["built_at"].startswith("2026-")
    assert (details["updated_at"] is None) == (not name.startswith(("after_update", "live_wal")))
    hits = ask(db, lambda db: search(READER, db, Query("lenientIssubclass")), BUDGET).hits
    assert hits[0].tier == ("symbol" if symbols else "any")
    assert READER.grep(db, Pattern("def lenient_issubclass"), BUDGET).matches


def test_stores_of_other_contents_have_other_identities(code_store: CodeStore) -> None:
    identities = {_facts(code_store(name)).identity for name, *_ in STORES}
    assert len(identities) == len(STORES)


def test_what_was_committed_to_the_wal_only_is_found(code_store: CodeStore) -> None:
    # formats/codebase-index.md §1: the new symbol is in the `-wal` alone.
    db = code_store("live_wal/index.sqlite")
    added = {name for (name,) in db.execute("SELECT name FROM symbols")} - {
        name for (name,) in code_store("typer/index.sqlite").execute("SELECT name FROM symbols")
    }
    assert added
    assert {search(READER, db, Query(name)).hits[0].tier for name in added} == {"symbol"}


def test_a_build_that_was_interrupted_is_incomplete(code_store: CodeStore) -> None:
    assert _code_of(code_store("crash_mid_build/index.sqlite")) == "index_incomplete"


@pytest.mark.slow
def test_no_store_is_touched(
    code_stores: Path, open_at: OpenAt, snapshot: Callable[[Path], dict[str, Any]]
) -> None:
    before = snapshot(code_stores)
    for name, *_ in STORES:
        db = open_at(code_stores / name)
        ask(db, lambda db: search(READER, db, Query("get_command")), BUDGET)
        ask(db, READER.postings, BUDGET)
        ask(db, READER.vocabulary, BUDGET)
        ask(db, lambda db: READER.examine(db, None, BUDGET), BUDGET)
        ask(db, lambda db: READER.grep(db, Pattern("def get_command"), BUDGET), BUDGET)
    assert snapshot(code_stores) == before


@pytest.mark.parametrize("version", ["5", "99", "0", "-1", "four", "", "4.0", "٤", " 4", "000000004999"])
def test_a_version_that_is_not_known_is_refused_naming_both(altered_store: Altered, version: str) -> None:
    db = altered_store(f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")  # noqa: S608 - a test's
    with pytest.raises(StoreError) as caught:
        _facts(db)
    assert caught.value.code == "unsupported_version"
    assert repr(version) in caught.value.message
    assert "1 to 4" in caught.value.message


@pytest.mark.parametrize(
    ("code", "statements"),
    [
        ("unsupported_version", ["DELETE FROM meta WHERE key = 'schema_version'"]),
        ("index_incomplete", ["DELETE FROM meta WHERE key = 'built_at'"]),
        ("damaged", ["UPDATE meta SET value = x'00' WHERE key = 'schema_version'"]),
        ("unknown_format", ["DROP TABLE edges"]),
        ("wrong_schema", ["ALTER TABLE edges RENAME TO other", "CREATE VIEW edges AS SELECT * FROM other"]),
        ("wrong_schema", ["ALTER TABLE meta RENAME TO other", "CREATE VIEW meta AS SELECT * FROM other"]),
        ("wrong_schema", ["ALTER TABLE symbols RENAME COLUMN qualified TO other"]),
        ("wrong_schema", ["DROP TABLE fts_chunks", "CREATE TABLE fts_chunks (content)"]),
        ("wrong_schema", ["DROP TABLE fts_chunks", "CREATE VIRTUAL TABLE fts_chunks USING fts5(content)"]),
        (
            "wrong_schema",
            ["DROP TABLE fts_chunks", "CREATE VIRTUAL TABLE fts_chunks USING fts5(content, content='other')"],
        ),
        (
            "wrong_schema",
            [
                "DROP TABLE fts_chunks",
                "CREATE VIRTUAL TABLE fts_chunks USING fts5(content, content='chunks')",
            ],
        ),
        (
            "wrong_schema",
            [
                "DROP TABLE files",
                "CREATE TABLE files (id, path, lang, size_bytes, mtime_ns, parser, sha256 AS (7))",
            ],
        ),
        ("damaged", ["UPDATE files SET sha256 = x'00'"]),
        ("damaged", ["UPDATE files SET lang = x'00'"]),
    ],
)
def test_what_is_no_such_store_is_refused(altered_store: Altered, code: str, statements: list[str]) -> None:
    assert _code_of(altered_store("PRAGMA foreign_keys = OFF", *statements)) == code


def test_what_is_shown_of_a_store_is_never_long(altered_store: Altered) -> None:
    facts = _facts(
        altered_store(
            "UPDATE meta SET value = hex(zeroblob(1000000)) WHERE key IN ('built_at', 'head_commit')",
            "UPDATE files SET lang = hex(randomblob(200)) || id",
        )
    )
    assert len(msgspec.json.encode(facts.details)) < 10_000


def test_an_endless_view_is_not_read(altered_store: Altered) -> None:
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS key, i AS value FROM n"
    )
    db = altered_store("DROP TABLE meta", f"CREATE VIEW meta AS {endless}")
    assert READER.recognises(db, tables(db))
    assert _code_of(db) == "wrong_schema"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET content = x'00'",
        "UPDATE chunks SET kind = x'00'",
        "UPDATE chunks SET line_start = -5",
        "UPDATE chunks SET line_end = 'many'",
        "UPDATE files SET path = CAST('a' || id AS BLOB)",
    ],
)
def test_values_of_other_types_are_damage_and_nothing_else(altered_store: Altered, statement: str) -> None:
    drops = [f"DROP TRIGGER {name}" for name in ("chunks_ai", "chunks_ad", "chunks_au")]
    db = altered_store(*drops, statement)
    questions: tuple[Callable[[StoreConnection], object], ...] = (
        lambda db: READER.hits(db, Query("get"), READER.ranked(db, Query("get"), "any")),
        lambda db: READER.grep(db, Pattern("def", is_regex=True), BUDGET),
        lambda db: list(READER.texts(db)),
    )
    for question in questions:
        with pytest.raises(StoreError) as caught:
            ask(db, question, BUDGET)
        assert caught.value.code == "damaged"


@pytest.mark.slow
def test_a_line_without_an_end_is_shown_in_part(
    make_code_store: MakeStore, open_at: OpenAt, tmp_path: Path
) -> None:
    long = "zebra " + "x" * 2_000_000
    path = make_code_store(tmp_path / "store.sqlite", {"a.txt": "zebra"})
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE chunks SET content = ?", (long,))
        made.commit()
    db = open_at(path)
    for text in ("zebra", "x" * 2_000_000):
        for hit in search(READER, db, Query(text)).hits:
            assert 0 < len(hit.snippet) < 1_000
    assert search(READER, db, Query("zebra")).hits
