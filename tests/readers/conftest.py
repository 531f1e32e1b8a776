"""The reader's answers in the reference's JSON shapes (formats/contextpull.md §12)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
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
    StoreError,
    clamped,
)
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection, ask
from collated_readers.single import search

READER = ContextPull()

# Runs the statement in each line, which commits by itself, and answers `ok` or the error.
# `repeat STATEMENT` is answered once and never ends.
_OTHER_PROCESS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
def run(sql):
    try:
        db.execute(sql).fetchall()
        return "ok"
    except sqlite3.Error as error:
        return str(error)
for line in sys.stdin:
    sql = line.removeprefix("repeat ")
    print(run(sql), flush=True)
    while sql != line:
        run(sql)
"""


class OtherProcess:
    """Another program with a store open; killed at the end, so it may leave a `-wal` behind."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OTHER_PROCESS, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, sql: str) -> str:
        """Run one statement there and return what it says."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(sql + "\n")
        stdin.flush()
        return stdout.readline().strip()

    def kill(self) -> None:
        """End it without any last words to its database."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other_process() -> Iterator[Callable[[Path], OtherProcess]]:
    """`other_process(path)` starts a program that has the database at *path* open."""
    started: list[OtherProcess] = []

    def start(path: Path) -> OtherProcess:
        started.append(OtherProcess(path))
        return started[-1]

    yield start
    for process in started:
        process.kill()


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


# ---------------------------------------------------------------- stores and what is asked of them


@pytest.fixture
def written_store(
    make_store: Callable[..., Path], other_process: Callable[[Path], OtherProcess]
) -> Callable[[Path], Path]:
    """`written_store(folder)` makes a store of two documents whose newest frames are in its `-wal` alone."""

    def make(folder: Path) -> Path:
        path = make_store(
            folder / "store.sqlite", {"a.md": "# Zebra\n\nA zebra.\n", "b.md": "# B\n\nMore.\n"}
        )
        assert other_process(path).run("UPDATE documents SET title = 'not checkpointed'") == "ok"
        return path

    return make


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


@pytest.fixture(scope="session")
def asked() -> Callable[[StoreConnection], int]:
    """`asked(db)` is the number of documents, asked for as the daemon asks."""

    def count(db: StoreConnection) -> int:
        number: int = db.execute("SELECT count(*) FROM documents").fetchone()[0]
        return number

    return lambda db: ask(db, count, Budget.lasting(30))


@pytest.fixture(scope="session")
def code_of() -> Callable[[Callable[[], object]], str]:
    """`code_of(function)` is the code of the `StoreError` that *function* must raise."""

    def call(function: Callable[[], object]) -> str:
        with pytest.raises(StoreError) as caught:
            function()
        return caught.value.code

    return call


@pytest.fixture(scope="session")
def tree() -> Callable[[Path], dict[str, Any]]:
    """`tree(folder)` is everything in it: names, bytes, times of last change, modes."""

    def look(folder: Path) -> dict[str, Any]:
        return {
            str(path.relative_to(folder)): (
                path.read_bytes() if path.is_file() else None,
                path.lstat().st_mtime_ns,
                path.lstat().st_mode,
            )
            for path in [folder, *folder.rglob("*")]
        }

    return look
