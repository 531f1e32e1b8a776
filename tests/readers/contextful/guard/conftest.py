"""A store with every kind of column, a session of it, and the guard in front of that session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from collated_readers.contextful.guard import Judged, check_text, judge
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bounds
from collated_readers.contextful.session import Session, open_session

Judge = Callable[..., Judged]

AT = ["2029-01-01T00:00:00Z", "2029-06-01T12:00:00Z", "2030-01-01T00:00:00Z"]


@pytest.fixture(scope="session")
def guarded_store(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a store of `notes`, `events` with its ledger, and `rates`."""
    with closing(maker.StoreMaker(tmp_path_factory.mktemp("guarded") / "project")) as store:
        notes = store.table("notes", NOTES, primary_key=["note_id"])
        notes.run("run-0001", [note(number) for number in range(3)])
        notes.run("run-0002", [note(number) for number in range(2, 5)])
        events = store.table("events", EVENTS)
        events.run("run-0003", [event(number) for number in range(6)])
        events.ledger("run-0003", [{"request_id": "r-1", "status_code": 200}])
        rates = store.table("rates", {"ccy": "utf8", "happened": "timestamp", "rate": "float64"})
        rates.run(
            "run-0004", [{"ccy": "EUR", "happened": at, "rate": rate + 0.5} for rate, at in enumerate(AT)]
        )
        root: Path = store.root
    return root


NOTES = {
    "note_id": "utf8",
    "title": "utf8",
    "body": "utf8",
    "stars": "int64",
    "score": "float64",
    "is_open": "bool",
    "due": "timestamp",
    "tags": "list<utf8>",
    "meta": "json",
    "vector": "float32[3]",
    "author": "struct<name: utf8, age: int32>",
    "counts": "map<utf8, int64>",
}
EVENTS = {
    "event_id": "utf8",
    "note_id": "utf8",
    "kind": "utf8",
    "ccy": "utf8",
    "user": "utf8",
    "amount": "int64",
    "happened": "timestamp",
}


def note(number: int) -> dict[str, Any]:
    return {
        "note_id": f"n{number}",
        "title": f"a title {number}",
        "body": None if number == 1 else "text",
        "stars": number,
        "score": number / 2,
        "is_open": number % 2 == 0,
        "due": AT[number % 3],
        "tags": ["a", f"t{number}"],
        "meta": '{"a": {"b": 1}}',
        "vector": [1.0, 2.0, float(number)],
        "author": {"name": "x", "age": number},
        "counts": {"a": number},
    }


def event(number: int) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "note_id": f"n{number % 4}",
        "kind": "view" if number % 2 else "edit",
        "ccy": "EUR",
        "user": "someone",
        "amount": number,
        "happened": AT[number % 3],
    }


@pytest.fixture(scope="session")
def session(guarded_store: Path) -> Iterator[Session]:
    """A session of the store, locked to its parts."""
    with closing(
        open_session(load_store(guarded_store), Bounds(), memory_bytes=1 << 30, threads=1)
    ) as opened:
        yield opened


@pytest.fixture(scope="session")
def judged(session: Session) -> Judge:
    """`judged(text, parameters)` is the guard's verdict, asked as `context.query` asks for it."""

    def ask(
        text: str, parameters: Mapping[str, Any] | None = None, relations: Set[str] | None = None
    ) -> Judged:
        check_text(text)
        return judge(
            session.tree(text),
            text=text,
            relations=session.relations if relations is None else relations,
            closed=session.closed,
            parameters=parameters,
        )

    return ask


@pytest.fixture(scope="session")
def part(guarded_store: Path) -> Path:
    """A part that the session's engine may open."""
    return guarded_store / "tables/notes/data/runs/run-0001/ingest-a/part-00000.parquet"


# ---------------------------------------------------------------- what the engine itself would read

OTHERS = ("secret", "hidden", "a", "b", "x")
LEAVES = {"SEQ_SCAN", "DUMMY_SCAN", "CTE_SCAN", "REC_CTE_SCAN", "COLUMN_DATA_SCAN", "EMPTY_RESULT"}


@pytest.fixture(scope="session")
def read_by_the_engine() -> Iterator[Callable[[str], set[str]]]:
    """`read_by_the_engine(text)` are the tables in the engine's plan, and what else it would scan.

    Asked of an engine without any lock, in which all that is registered, and `OTHERS`, are plain tables.
    """
    with closing(duckdb.connect(config={"threads": 1})) as engine:
        engine.execute("PRAGMA disable_optimizer")  # so that nothing is read less, or not at all
        rates = {"ccy": "utf8", "happened": "timestamp", "rate": "float64"}
        asked = {"request_id": "utf8"}
        plain = {"v": "int64", "w": "utf8"}
        tables = {"notes": NOTES, "events": EVENTS, "rates": rates, "events__requests": asked}
        for name, columns in (tables | dict.fromkeys(OTHERS, plain)).items():
            spelled = ", ".join(
                f'"{column}" {ENGINE_TYPES.get(kind, kind)}' for column, kind in columns.items()
            )
            engine.execute(f"CREATE TABLE {name} ({spelled})")

        def reads(text: str) -> set[str]:
            rows = engine.execute(f"EXPLAIN (FORMAT json) {text}").fetchall()
            return {name for _, plan in rows for root in json.loads(plan) for name in _scans(root)}

        yield reads


ENGINE_TYPES = {
    "utf8": "VARCHAR",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "timestamp": "TIMESTAMPTZ_NS",
    "list<utf8>": "VARCHAR[]",
    "float32[3]": "FLOAT[3]",
    "struct<name: utf8, age: int32>": "STRUCT(name VARCHAR, age INTEGER)",
    "map<utf8, int64>": "MAP(VARCHAR, BIGINT)",
}


def _scans(node: dict[str, Any]) -> Iterator[str]:
    name, table = node["name"].strip(), node["extra_info"].get("Table")
    if table is not None:
        yield table.removeprefix("memory.main.")
    elif not node["children"] and name not in LEAVES:
        yield f"the scan {name}"
    for child in node["children"]:
        yield from _scans(child)
