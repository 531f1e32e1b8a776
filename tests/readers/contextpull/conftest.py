"""The reader's answers in the reference's JSON shapes (formats/contextpull.md §12), and stores gone wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collated_readers import (
    GREP_LIMITS,
    Budget,
    Embed,
    Pattern,
    Query,
    Record,
    RequestError,
    clamped,
)
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection, ask
from collated_readers.single import search

READER = ContextPull()


@pytest.fixture(scope="session")
def call() -> Callable[..., Any]:
    """`call(db, tool, args)` answers as `contextpull.tools.call` would: a dict, text, or the error."""

    def call_it(db: StoreConnection, tool: str, args: dict[str, Any], embed: Embed | None = None) -> Any:
        budget = Budget.lasting(30)
        try:
            return ask(db, lambda db: TOOLS[tool](db, args, embed, budget), budget)
        except RequestError as error:
            return {"error": error.message, "suggestion": error.suggestion}

    return call_it


def _search(db: StoreConnection, args: dict[str, Any], embed: Embed | None, budget: Budget) -> Any:
    is_hybrid = args.get("mode") == "hybrid"
    query = Query(args["query"], _within(args), args.get("limit", 10), is_hybrid)
    answer = search(READER, db, query, embed)
    hits = [msgspec.to_builtins(hit) for hit in answer.hits]
    for hit in hits:
        del hit["tier"]  # ours alone
    return {"hits": hits, "mode": answer.mode, "hint": answer.hint}


def _read(db: StoreConnection, args: dict[str, Any], embed: Embed | None, budget: Budget) -> Any:
    reading = READER.read(db, args["id"], args.get("context", 0))
    around = [_section(record, is_context=True) for record in reading.context]
    return {**msgspec.to_builtins(reading.record), "context": around}


def _grep(db: StoreConnection, args: dict[str, Any], embed: Embed | None, budget: Budget) -> Any:
    is_regex = args.get("regex", False)
    limit = clamped(args.get("limit", 20), GREP_LIMITS)
    pattern = Pattern(args["pattern"], is_regex, _within(args), limit)
    found = READER.grep(db, pattern, budget)
    return {"matches": msgspec.to_builtins(list(found.matches)), "truncated": found.is_truncated}


def _neighbours(db: StoreConnection, args: dict[str, Any], embed: Embed | None, budget: Budget) -> Any:
    found = READER.neighbours(db, args["id"], args.get("before", 1), args.get("after", 1))
    header = None if found.header is None else _section(found.header)
    return {"sections": [_section(record) for record in found.records], "header": header}


def _index(db: StoreConnection, args: dict[str, Any], embed: Embed | None, budget: Budget) -> Any:
    return READER.index(db, args.get("prefix"))


def _within(args: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(args.get("in") or ())


def _section(record: Record, *, is_context: bool = False) -> dict[str, Any]:
    return {**msgspec.to_builtins(record), "context": is_context}


TOOLS = {"search": _search, "read": _read, "grep": _grep, "neighbours": _neighbours, "index": _index}


@pytest.fixture
def doctored(
    tmp_path: Path, make_store: Callable[..., Path], open_at: Callable[[Path], StoreConnection]
) -> Callable[..., StoreConnection]:
    """`doctored(sql…)` opens a real store of two documents after those statements were run on it."""
    documents = {
        "a.md": "# Zebra\n\n## One\n\nA zebra lives in this sentence.\n\n## Two\n\nAnother zebra.\n",
        "b.md": "# Other\n\nNothing of that kind, but a zebra in the last line.\n",
    }

    def make(*statements: str) -> StoreConnection:
        path = make_store(tmp_path / "store.sqlite", documents, min_chars=1, rollback=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for sql in statements:
                db.execute(sql)
        return open_at(path)

    return make
