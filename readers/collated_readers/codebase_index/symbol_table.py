"""All symbols of a store in memory, looked up as `symbols` does it in the store."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from string import ascii_lowercase, ascii_uppercase

import msgspec

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
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)  # all that SQLite's lower() knows
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Symbol, ...])


class _Table(SymbolTable, frozen=True):
    """Symbols by name: `names` ascending, and for each how many there are, and they, encoded.

    Most are never asked for, and encoded they take a third of the memory and no time of the collector.
    `lowered` are the names in small letters, ascending, and `order` their places in `names`; `spelled` has
    the places by what is left of a name without case and separators.
    """

    names: Sequence[str]
    counts: Sequence[int]
    symbols: Sequence[bytes]
    lowered: Sequence[str]
    order: Sequence[int]
    spelled: Mapping[str, Sequence[int]]

    def find(self, name: str, limit: int, *, exact: bool) -> Symbols:
        """See `SymbolTable.find`."""
        place = bisect_left(self.names, name)
        if self.names[place : place + 1] == [name]:
            more = 0 if exact else self._count(self._beginning(name)) - self.counts[place]
            return self._answer([place], "exact", limit, more)
        if not exact and (places := self._beginning(name)):
            return self._answer(sorted(places), "prefix", limit)
        member = member_of(name)
        if member is not None and (found := self._owned(member)):
            return Symbols(tuple(found[:limit]), "member", is_truncated=len(found) > limit)
        spelled: Sequence[int] = () if exact else self.spelled.get(key_of(name), ())
        return self._answer(spelled, "parts" if spelled else "exact", limit)

    def _beginning(self, name: str) -> Sequence[int]:
        """Return the places of the names that begin so, whatever the case of ASCII letters."""
        beginning = name.translate(_TO_LOWER)
        first = last = bisect_left(self.lowered, beginning)
        while last < len(self.lowered) and self.lowered[last].startswith(beginning):
            last += 1
        return self.order[first:last]

    def _owned(self, member: Member) -> list[Symbol]:
        place = bisect_left(self.names, member.name)
        if self.names[place : place + 1] != [member.name]:
            return []
        qualified = f"{member.owner}.{member.name}"
        found = _decoder.decode(self.symbols[place])
        members = [one for one in found if f".{one.qualified or ''}".endswith(f".{qualified}")]
        if members:
            return members
        free = (one for one in found if one.qualified is None or one.qualified == one.name)
        return [one for one in free if module_of(one.path) == member.owner]

    def _count(self, places: Sequence[int]) -> int:
        return sum(self.counts[place] for place in places)

    def _answer(self, places: Sequence[int], how: How, limit: int, more: int = 0) -> Symbols:
        found: list[Symbol] = []
        for place in places:
            if len(found) >= limit:
                break
            found += _decoder.decode(self.symbols[place])
        return Symbols(tuple(found[:limit]), how, more, is_truncated=self._count(places) > limit)


def symbol_table_of(db: sqlite3.Connection) -> SymbolTable:
    """Return all symbols of a store.

    Raises:
        StoreError: `symbols_missing`, `damaged`.
    """
    check_symbols(db)
    every = symbols_from([definition_of(row) for row in db.execute(_EVERY)])
    groups = {name: list(each) for name, each in groupby(every, key=lambda symbol: symbol.name)}
    names = sorted(groups)
    lowered = [name.translate(_TO_LOWER) for name in names]
    order = sorted(range(len(names)), key=lowered.__getitem__)
    spelled: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(lowered):
        # As `symbols` has it in SQL: as `key_of`, for names without other characters.
        spelled[name.replace("_", "").replace("-", "")].append(place)
    spelled.pop("", None)
    return _Table(
        names=names,
        counts=[len(groups[name]) for name in names],
        symbols=[_encoder.encode(groups[name]) for name in names],
        lowered=[lowered[place] for place in order],
        order=order,
        spelled=dict(spelled),
    )
