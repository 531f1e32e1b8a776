"""The readers, in order of offer, and which of them a store is for.

Import this only where stores are read: it brings in everything that the formats need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .book_agent import BookAgent
from .codebase_index import CodebaseIndex
from .contextful.reader import Contextful, NoEngine
from .contextpull import ContextPull
from .contract import Reader, StoreError, StoreFacts
from .opening import StoreConnection, tables

__all__ = ["READERS", "identify", "recognised"]

READERS: tuple[Reader, ...] = (ContextPull(), CodebaseIndex(), BookAgent())
"""The readers of files; that of context stores, `Contextful`, has an engine to be made with."""


def identify(db: StoreConnection, readers: Sequence[Reader] = READERS) -> tuple[Reader, StoreFacts]:
    """Return the first reader that recognises the store, and what it learned on opening it.

    Raises:
        StoreError: `unknown_format`, or what `Reader.open` raises.
    """
    names = tables(db)
    reader = _recognised(db, readers, names)
    return reader, reader.open(db, names)


def recognised(db: StoreConnection) -> Reader:
    """Return the reader of a store that was opened before; it can tell what is indexed, and ask no engine.

    Raises:
        StoreError: `unknown_format`.
    """
    return _recognised(db, (*READERS, Contextful(NoEngine())), tables(db))


def _recognised(db: StoreConnection, readers: Sequence[Reader], names: Mapping[str, str]) -> Reader:
    for reader in readers:
        if reader.recognises(db, names):
            return reader
    what = "a directory" if db.mode == "directory" else "a SQLite database"
    raise StoreError("unknown_format", f"{what}, but of no format that is known here")
