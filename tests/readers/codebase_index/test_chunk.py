"""What stands at a line, beside the recorded lines of the real stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget, RequestError, StoreError
from collated_readers.code import Chunk
from collated_readers.codebase_index.chunk import chunk_of
from collated_readers.codebase_index.places import place_of
from collated_readers.opening import StoreConnection, ask

CodeStore = Callable[[str], StoreConnection]
SPOILT = "UPDATE chunks SET {} = {} WHERE line_end = 1566"


def _chunk(db: StoreConnection, path: str, line: int) -> Chunk:
    return ask(db, lambda db: chunk_of(db, path, line), Budget.lasting(30))


@pytest.mark.parametrize("store", ["typer", "pydantic"])
def test_the_recorded_lines_are_in_the_recorded_chunks(
    code_store: CodeStore, code_stores: Path, store: str
) -> None:
    db = code_store(f"{store}/index.sqlite")
    rows = [json.loads(row) for row in (code_stores / store / "read_at_line.jsonl").read_text().splitlines()]
    assert len(rows) == 12
    for row in rows:
        if row["chunk"] is None:
            with pytest.raises(RequestError) as raised:
                _chunk(db, row["path"], row["line"])
            assert raised.value.code == "unknown_id"
            continue
        chunk = _chunk(db, row["path"], row["line"])
        assert chunk.path == row["path"]
        assert {name: getattr(chunk, name) for name in ("line_start", "line_end", "kind")} == {
            name: row["chunk"][name] for name in ("line_start", "line_end", "kind")
        }
        assert chunk.text.split("\n")[row["line"] - chunk.line_start] == row["line_text"]
        symbol = row["symbol"] and {name: getattr(chunk.symbol, name) for name in row["symbol"]}
        assert symbol == row["symbol"]


@pytest.mark.parametrize(
    "store",
    [
        "schema_versions/typer_v1.2.1.sqlite",
        "schema_versions/typer_883d37c.sqlite",
        "schema_versions/typer_pypi-2.0.0.sqlite",
        "after_update/typer_after_update_id_reuse.sqlite",
        "degraded_no_grammar/typer_no_symbols.sqlite",
        "live_wal/index.sqlite",
    ],
)
def test_every_store_gives_the_text_at_a_line(code_store: CodeStore, store: str) -> None:
    db = code_store(store)
    chunk = _chunk(db, "typer/main.py", 200)
    assert chunk.line_start <= 200 <= chunk.line_end
    assert len(chunk.text.split("\n")) == chunk.line_end - chunk.line_start + 1
    assert (chunk.symbol is None) == ("no_symbols" in store)
    assert place_of(db, chunk.id).line_start == chunk.line_start


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("nowhere.py", 1),
        ("typer/main.py", 0),
        ("typer/main.py", -1),
        ("typer/main.py", 10**30),
        ("main.py", 1),
    ],
)
def test_where_no_text_is_nothing_is_known(code_store: CodeStore, path: str, line: int) -> None:
    with pytest.raises(RequestError) as raised:
        _chunk(code_store("typer/index.sqlite"), path, line)
    assert raised.value.code == "unknown_id"


def test_the_smallest_chunk_counts_and_no_made_up_one(small_store: Callable[[], Any]) -> None:
    store = small_store()
    file = store.file("a.py")
    store.chunk(file, (1, 80), "whole")
    store.chunk(file, (5, 9), "part")
    store.chunk(file, (6, 8), "made up", "doc")
    store.chunk(file, (71, 75), "later", None)
    store.chunk(store.file("b.py"), (6, 6), "other file")
    assert chunk_of(store.db, "a.py", 7).text == "part"
    assert chunk_of(store.db, "a.py", 10).text == "whole"
    assert (chunk_of(store.db, "a.py", 71).text, chunk_of(store.db, "a.py", 71).kind) == ("later", "window")


def test_the_innermost_symbol_is_around_the_line(small_store: Callable[[], Any]) -> None:
    store = small_store()
    file = store.file("a.java", "java")
    store.chunk(file, (1, 9))
    store.symbol(file, "Town", 1, 9, kind="class")
    store.symbol(file, "Town", 3, 3, qualified="Town.Town", kind="method")
    store.symbol(file, "Inner", 3, 3, qualified="Town.Town.Inner", kind="class")
    assert [getattr(chunk_of(store.db, "a.java", line).symbol, "qualified", None) for line in (2, 3, 9)] == [
        "Town",
        "Town.Town.Inner",
        "Town",
    ]


def test_secrets_are_not_sent(small_store: Callable[[], Any]) -> None:
    store = small_store()
    secret = "AKIA" + "Q3EGRIZ7LMWNT4XB"
    store.chunk(store.file("a.py"), (1, 2), f"first\nkey = '{secret}'")
    text = chunk_of(store.db, "a.py", 1).text
    assert text.startswith("first\nkey = '")
    assert secret not in text


@pytest.mark.parametrize("column", ["content", "kind", "line_start"])
def test_a_value_of_another_type_is_damage(
    altered_store: Callable[..., StoreConnection], column: str
) -> None:
    value = "0.5" if column == "line_start" else "x'00'"
    db = altered_store(SPOILT.format(column, value))
    with pytest.raises(StoreError) as raised:
        _chunk(db, "typer/main.py", 1469)
    assert raised.value.code == "damaged"
