"""Rows that may be given again: what `result_cache` of all tables that a statement reads allows.

A key holds all that rows depend on, the store's state too, so an entry is never wrong: one whose store
changed (frontier-invalidates) is merely never asked for again. Pages are kept, not responses: those are made
of a page in one way only, so that a hit is what the miss was, byte by byte (hit-identical).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from .model import Table
from .reads import Page, Reads

__all__ = ["Results", "key_of", "lifetime_of"]

_ENTRY_BYTES = 400  # what an entry costs beside its key and its page


class _Entry(NamedTuple):
    page: bytes
    made_ns: int
    until_ns: int


class Results:
    """The pages of any number of stores, within *budget_bytes*; the least recently used goes first."""

    def __init__(self, budget_bytes: int) -> None:
        """Hold so many bytes, none yet; of 0 nothing is kept."""
        self._budget = budget_bytes
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """Return what is held."""
        return self._bytes

    def get(self, key: bytes, now_ns: int) -> Page | None:
        """Return the page that was kept under *key* and has not expired; a clock set back ends it too."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if not entry.made_ns <= now_ns < entry.until_ns:
            self._forget(key)
            return None
        self._entries.move_to_end(key)
        return msgspec.msgpack.decode(entry.page, type=Page)

    def keep(self, key: bytes, page: Page, now_ns: int, lifetime_ns: int) -> None:
        """Keep *page* until it expires or its room is needed; one over the budget is not kept."""
        self._forget(key)
        entry = _Entry(msgspec.msgpack.encode(page), now_ns, now_ns + lifetime_ns)
        if _cost(key, entry) > self._budget:
            return
        self._entries[key] = entry
        self._bytes += _cost(key, entry)
        while self._bytes > self._budget:
            self._forget(next(iter(self._entries)))

    def _forget(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= _cost(key, entry)


def _cost(key: bytes, entry: _Entry) -> int:
    return len(key) + len(entry.page) + _ENTRY_BYTES


def lifetime_of(touched: Iterable[Table | None]) -> int | None:
    """Return for how many nanoseconds rows of all these tables may be given again, None for not at all.

    Every one has to allow it (cache-is-opt-in).
    """
    lifetimes = [_lifetime(table) for table in touched]
    allowed = [lifetime for lifetime in lifetimes if lifetime is not None]
    return min(allowed, default=None) if len(allowed) == len(lifetimes) else None


def _lifetime(table: Table | None) -> int | None:
    """Return what a table allows; what retention hides of it changes with the clock alone."""
    if table is None or table.declared.retain_rows is not None:
        return None
    return table.declared.result_cache_ns


def key_of(
    reads: Reads,
    sql: str,
    touched: Collection[str],
    values: Mapping[str, Any] | Sequence[Any],
    limit: int,
) -> bytes:
    """Return all that the rows of a statement depend on (result-key).

    Whoever asks is always the owner of the daemon, in the one zone of this machine; files and what is
    declared are in the store's digest.
    """
    store = reads.store
    # As texts, since instants and values may be beyond what MessagePack has numbers for.
    bounds, bound = repr(reads.bounds), repr(values)
    return msgspec.msgpack.encode((store.root, store.digest, bounds, sql, sorted(touched), bound, limit))
