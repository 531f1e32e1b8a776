"""What is read of a store once for as long as it is open, and not again for each question.

It is right as long as the connection answers, which it does only while the file is the one that was opened
(`StoreConnection.has_moved`); after that its answers are thrown away, and it is closed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sized
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from collated_readers.opening import StoreConnection

__all__ = ["MOST_KEPT", "kept"]

T = TypeVar("T", bound=Sized)

MOST_KEPT = 100_000
"""Things, of 40 to 80 bytes each, that are kept of an open store; of a larger one they are read each time."""


def kept(make: Callable[[sqlite3.Connection], T]) -> Callable[[sqlite3.Connection], T]:
    """Return *make*, which of one open store then makes its result once, unless that has too many things.

    Of other connections, whose file may change between two questions, it is made each time.
    """
    made: WeakKeyDictionary[StoreConnection, T] = WeakKeyDictionary()

    @wraps(make)
    def once(db: sqlite3.Connection) -> T:
        if not isinstance(db, StoreConnection):
            return make(db)
        found = made.get(db)
        if found is None:
            found = make(db)
            if len(found) <= MOST_KEPT:
                made[db] = found
        return found

    return once
