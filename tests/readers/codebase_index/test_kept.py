"""What is kept of a store: one thing for each open connection, and nothing that is too large."""

from __future__ import annotations

import gc
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import closing

import pytest

from collated_readers.codebase_index.kept import MOST_KEPT, kept
from collated_readers.opening import StoreConnection

CodeStore = Callable[[str], StoreConnection]

TYPER = "typer/index.sqlite"


class Things(set[int]):
    """Some things, made of a connection."""


class Maker:
    """Makes things, and counts how often."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.made: list[weakref.ref[Things]] = []

    def __call__(self, _: sqlite3.Connection) -> Things:
        things = Things(range(self.size))
        self.made.append(weakref.ref(things))
        return things


def _asking(maker: Maker) -> Callable[[sqlite3.Connection], Things]:
    def things_of(db: sqlite3.Connection) -> Things:
        return maker(db)

    return kept(things_of)


@pytest.mark.parametrize("size", [0, MOST_KEPT])
def test_of_an_open_store_a_thing_is_made_once(code_store: CodeStore, size: int) -> None:
    maker = Maker(size)
    things_of, first, second = _asking(maker), code_store(TYPER), code_store(TYPER)
    assert things_of(first) is things_of(first)
    assert things_of(second) is not things_of(first)
    assert len(maker.made) == 2


def test_what_is_too_large_is_made_each_time(code_store: CodeStore) -> None:
    maker = Maker(MOST_KEPT + 1)
    things_of, db = _asking(maker), code_store(TYPER)
    assert things_of(db) == things_of(db)
    assert len(maker.made) == 2


def test_of_a_connection_that_nobody_watches_nothing_is_kept() -> None:
    maker = Maker(1)
    things_of = _asking(maker)
    with closing(sqlite3.connect(":memory:")) as db:
        assert things_of(db) == things_of(db)
    assert len(maker.made) == 2


def test_what_was_kept_goes_with_its_connection() -> None:
    maker = Maker(1)
    things_of = _asking(maker)
    db = sqlite3.connect(":memory:", factory=StoreConnection)
    things_of(db)
    assert maker.made[0]() is not None
    db.close()
    del db
    gc.collect()
    assert maker.made[0]() is None
