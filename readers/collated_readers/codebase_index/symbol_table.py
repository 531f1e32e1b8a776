"""All symbols of a store in memory, looked up as `symbols` does it in the store."""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from collated_readers.code import How, Symbol, Symbols, SymbolTable

from .definitions import (
    COLUMNS,
    FROM,
    Member,
    check_symbols,
    definition_of,
    member_of,
    module_of,
    symbols_from,
)
from .words import key_of

__all__ = ["symbol_table_of"]

_EVERY = f"SELECT {COLUMNS} {FROM} ORDER BY s.name, f.path, s.line_start, s.id"
_LAST = "\U0010ffff"  # no character comes after it
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)  # all that SQLite's lower() knows
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Symbol, ...])


class _Beginning(NamedTuple):
    """The names that begin in one way: where they are in `lowered`, and how many symbols they have."""

    first: int
    last: int
    symbols: int


class _Table(SymbolTable, frozen=True):
    """Symbols by name: `names` ascending, and for each how many there are, and they, encoded.

    Most are never asked for, and encoded they take a third of the memory and no time of the collector.
    `lowered` are the names in small letters, ascending; `order` has their places in `names`, and `totals`
    how many symbols those before each have, all as C integers. `spelled` has the places by what is left of
    a name without case and separators.
    """

    names: Sequence[str]
    counts: Sequence[int]
    symbols: Sequence[bytes]
    lowered: Sequence[str]
    order: bytes
    totals: bytes
    spelled: Mapping[str, Sequence[int]]

    @property
    def size(self) -> int:
        """See `SymbolTable.size`."""
        return memoryview(self.totals).cast("i")[-1]

    def find(self, name: str, limit: int, *, exact: bool) -> Symbols:
        """See `SymbolTable.find`."""
        place = self._place(name)
        if place is not None:
            more = 0 if exact else self._beginning(name).symbols - self.counts[place]
            return self._answer([place], "exact", limit, more)
        if not exact and (beginning := self._beginning(name)).symbols:
            found = self._answer(self._places(beginning, limit), "prefix", limit)
            return replace(found, is_truncated=beginning.symbols > limit)
        member = member_of(name)
        if member is not None and (members := self._owned(member)):
            return Symbols(tuple(members[:limit]), "member", is_truncated=len(members) > limit)
        spelled: Sequence[int] = () if exact else self.spelled.get(key_of(name), ())
        return self._answer(spelled, "parts" if spelled else "exact", limit)

    def _place(self, name: str) -> int | None:
        place = bisect_left(self.names, name)
        return place if self.names[place : place + 1] == [name] else None

    def _beginning(self, name: str) -> _Beginning:
        """Return where the names are that begin so, whatever the case of ASCII letters."""
        beginning = name.translate(_TO_LOWER)
        first = bisect_left(self.lowered, beginning)
        last = bisect_left(self.lowered, _after(beginning), first) if beginning else len(self.lowered)
        totals = memoryview(self.totals).cast("i")
        return _Beginning(first, last, totals[last] - totals[first])

    def _places(self, beginning: _Beginning, limit: int) -> list[int]:
        """Return the places of the first *limit* names, ascending: each has a symbol or more."""
        import numpy as np  # not before: the client imports this module too

        places = np.frombuffer(self.order, np.int32)[beginning.first : beginning.last]
        if len(places) > limit:
            places = np.partition(places, limit - 1)[:limit]
        first: list[int] = np.sort(places).tolist()
        return first

    def _owned(self, member: Member) -> list[Symbol]:
        place = self._place(member.name)
        if place is None:
            return []
        qualified = f"{member.owner}.{member.name}"
        found = _decoder.decode(self.symbols[place])
        members = [one for one in found if f".{one.qualified or ''}".endswith(f".{qualified}")]
        if members:
            return members
        free = (one for one in found if one.qualified is None or one.qualified == one.name)
        return [one for one in free if module_of(one.path) == member.owner]

    def _answer(self, places: Sequence[int], how: How, limit: int, more: int = 0) -> Symbols:
        found: list[Symbol] = []
        for place in places:
            if len(found) >= limit:
                break
            found += _decoder.decode(self.symbols[place])
        count = sum(map(self.counts.__getitem__, places))
        return Symbols(tuple(found[:limit]), how, more, is_truncated=count > limit)


def _after(beginning: str) -> str:
    """Return a text that comes after all that begin so, and before what does not and comes later."""
    kept = beginning.rstrip(_LAST)
    return kept[:-1] + chr(ord(kept[-1]) + 1) if kept else _LAST * 10_000


def symbol_table_of(db: sqlite3.Connection) -> SymbolTable:
    """Return all symbols of a store.

    Raises:
        StoreError: `symbols_missing`, `damaged`.
    """
    check_symbols(db)
    every = symbols_from([definition_of(row) for row in db.execute(_EVERY)])
    return _table_of({name: list(each) for name, each in groupby(every, key=lambda symbol: symbol.name)})


def _table_of(groups: Mapping[str, Sequence[Symbol]]) -> SymbolTable:
    """Return the table of symbols that are grouped by their names. Pure."""
    names = sorted(groups)
    counts = [len(groups[name]) for name in names]
    lowered = [name.translate(_TO_LOWER) for name in names]
    order = sorted(range(len(names)), key=lowered.__getitem__)
    spelled: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(lowered):
        # As `symbols` has it in SQL: as `key_of`, for names without other characters.
        spelled[name.replace("_", "").replace("-", "")].append(place)
    spelled.pop("", None)
    return _Table(
        names=names,
        counts=counts,
        symbols=[_encoder.encode(groups[name]) for name in names],
        lowered=[lowered[place] for place in order],
        order=array("i", order).tobytes(),
        totals=array("i", accumulate((counts[place] for place in order), initial=0)).tobytes(),
        spelled=dict(spelled),
    )
