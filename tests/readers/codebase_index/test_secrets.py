"""What a code store holds of secrets is in nothing that is sent, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from collated_readers import Budget, Pattern, Query
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.opening import StoreConnection
from collated_readers.single import search

READER = CodebaseIndex()
SECRET = "AKIA" + "Q3EGRIZ7LMWNT4XB"
REPORT = f'{{"of {SECRET}": [1, {{"label": "{SECRET}"}}]}}'
EVERYWHERE = tuple(
    statement.replace("SECRET", SECRET).replace("REPORT", REPORT)
    for statement in (
        "UPDATE symbols SET qualified = 'SECRET.' || name, signature = 'SECRET'",
        "UPDATE edges SET dst_qualifier = 'SECRET'",
        "UPDATE chunks SET content = content || ' SECRET '",
        "UPDATE meta SET value = 'REPORT' WHERE key = 'graph_analysis'",
    )
)
BUDGET = Budget.lasting(600)

Sent = Callable[[StoreConnection], object]
SENT: dict[str, Sent] = {
    "search": lambda db: search(READER, db, Query("echo message")).hits,
    "search for a name": lambda db: search(READER, db, Query("echo")).hits,
    "grep": lambda db: READER.grep(db, Pattern(SECRET, limit=100), BUDGET).matches,
    "grep by expression": lambda db: READER.grep(db, Pattern("Q3EG.*", is_regex=True), BUDGET).matches,
    "read": lambda db: READER.read(db, "typer/main.py:40", 2),
    "neighbours": lambda db: READER.neighbours(db, "typer/main.py:40", 2, 2),
    "references": lambda db: READER.references(db, "echo", "all", None, 100),
    "references of a member": lambda db: READER.references(db, f"{SECRET}.invoke", "all", None, 100),
    "chunk": lambda db: READER.chunk(db, "typer/main.py", 40).text,
    "signatures": lambda db: [one.signature for one in READER.symbols(db, "echo", 100, exact=True).symbols],
    "architecture": READER.architecture,
}


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT.keys())
def test_a_secret_is_in_nothing_that_is_sent(
    altered_store: Callable[..., StoreConnection], sent: Sent
) -> None:
    answer = msgspec.json.encode(sent(altered_store(*EVERYWHERE)))
    assert b"<<redacted:aws_access_key>>" in answer
    assert SECRET.encode() not in answer
