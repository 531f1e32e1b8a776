"""The readers, in order of offer, and which of them a store is for.

Import this only where stores are read: it brings in everything that the formats need.
"""

from __future__ import annotations

from collections.abc import Sequence

from .book_agent import BookAgent
from .codebase_index import CodebaseIndex
from .contextpull import ContextPull
from .contract import Reader, StoreError, StoreFacts
from .opening import StoreConnection, tables

__all__ = ["READERS", "identify"]

READERS: tuple[Reader, ...] = (ContextPull(), CodebaseIndex(), BookAgent())


def identify(db: StoreConnection, readers: Sequence[Reader] = READERS) -> tuple[Reader, StoreFacts]:
    """Return the first reader that recognises the store, and what it learned on opening it.

    Raises:
        StoreError: `unknown_format`, or what `Reader.open` raises.
    """
    names = tables(db)
    for reader in readers:
        if reader.recognises(db, names):
            return reader, reader.open(db, names)
    raise StoreError("unknown_format", "a SQLite database, but of no format that is known here")
