"""What a writer does between the steps of a copy: the copy is one of the store's states, or there is none.

Three accounts lie on pages of their own and every commit moves something from one to another, so that their
sum is zero in each state, and in hardly any mixture of two.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget
from collated_readers.opening import StoreMoved, take_signature
from collated_readers.opening.copies import copy_store

OtherProcess = Callable[[Path], Any]

# A file is read in pieces of 4 MiB.
_LARGE = "UPDATE filler SET data = randomblob(8388608)"  # two such pieces
_MOVES = (
    "UPDATE account SET balance = balance + iif(id = 1, 1, -1) WHERE id IN (1, 2)",
    "UPDATE account SET balance = balance + iif(id = 2, 5, -5) WHERE id IN (2, 3)",
    "UPDATE account SET balance = balance + iif(id = 3, 7, -7) WHERE id IN (3, 1)",
)


class _Interrupted(Budget):
    """A budget that has something done by others when it is first looked at after *begun* is there."""

    def __init__(self, begun: Path, others: Callable[[], None]) -> None:
        super().__init__(math.inf)
        self._begun = begun
        self._others = others
        self.was_looked_at = False

    def check(self) -> None:
        if not self.was_looked_at and self._begun.exists():
            self.was_looked_at = True
            self._others()


class _Store:
    """A store and its writer; it has two moves of which main knows nothing, more than a piece apart."""

    def __init__(self, folder: Path, other_process: OtherProcess) -> None:
        self.path = folder / "store.sqlite"
        self._writer = other_process(self.path)
        self.copies = folder / "copies"
        self.copies.mkdir()
        self.does(
            "PRAGMA journal_mode = wal",
            "PRAGMA wal_autocheckpoint = 0",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE account (id INTEGER PRIMARY KEY, balance, padding)",
            "CREATE TABLE filler (data)",
            "INSERT INTO account SELECT value, 0, randomblob(3000) FROM json_each('[1, 2, 3]')",
            "INSERT INTO filler VALUES (x'00')",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            *(_MOVES[0], _LARGE, _MOVES[1]),
        )

    def does(self, *statements: str) -> None:
        for sql in statements:
            assert self._writer.run(sql) == "ok", sql

    def copied(self, file: str, *statements: str) -> Path:
        """Copy the store; *statements* run once a piece of *file*, `store` or `store-wal`, was read."""
        budget = _Interrupted(self.copies / file, lambda: self.does(*statements))
        try:
            return copy_store(self.path, take_signature(self.path), self.copies, budget)
        finally:
            assert budget.was_looked_at

    def balances(self) -> list[int]:
        """Return what a copy holds, also one that was given up."""
        db = sqlite3.connect(self.copies / "store")
        try:
            return [balance for (balance,) in db.execute("SELECT balance FROM account ORDER BY id")]
        finally:
            db.close()

    def is_whole(self) -> bool:
        """Tell whether a copy may be one of the store's states."""
        try:
            return sum(self.balances()) == 0
        except sqlite3.DatabaseError:
            return False


@pytest.fixture
def store(tmp_path: Path, other_process: OtherProcess) -> _Store:
    return _Store(tmp_path, other_process)


@pytest.mark.parametrize("file", ["store", "store-wal"])
def test_what_is_committed_meanwhile_is_in_the_copy_or_is_not(store: _Store, file: str) -> None:
    store.copied(file, _LARGE, _MOVES[2])
    assert store.balances() in ([1, 4, -5], [-6, 4, 2])


@pytest.mark.parametrize("file", ["store", "store-wal"])
def test_what_is_checkpointed_meanwhile_is_in_the_copy_once(store: _Store, file: str) -> None:
    store.copied(file, "PRAGMA wal_checkpoint(PASSIVE)")
    assert store.balances() == [1, 4, -5]


@pytest.mark.parametrize("file", ["store", "store-wal"])
def test_a_wal_that_is_begun_anew_meanwhile_makes_no_copy(store: _Store, file: str) -> None:
    store.does("PRAGMA wal_checkpoint(PASSIVE)")
    with pytest.raises(StoreMoved):
        store.copied(file, _MOVES[2], "PRAGMA wal_checkpoint(RESTART)", _MOVES[0], _LARGE)
    assert not store.is_whole()  # and rightly


def test_a_store_that_is_replaced_meanwhile_makes_no_copy(store: _Store) -> None:
    other = store.path.with_name("other.sqlite")
    other.write_bytes(store.path.read_bytes())

    def replace() -> None:
        other.replace(store.path)

    budget = _Interrupted(store.copies / "store", replace)
    with pytest.raises(StoreMoved):
        copy_store(store.path, take_signature(store.path), store.copies, budget)
