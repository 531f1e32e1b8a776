"""The names of all symbols of a store in one text each way, so that one search looks at all of them."""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from collated_readers.codebase_index.kept import kept

__all__ = ["Roster", "roster_of"]

# A name with a zero character, of which LIKE sees no more than what stands before it, is nobody's.
_NAMES = """
SELECT CAST(coalesce(group_concat(name, char(0)), '') AS BLOB), json_group_array(CAST(id AS INTEGER))
FROM symbols WHERE typeof(name) = 'text' AND instr(name, char(0)) = 0 AND id IS NOT NULL"""
_ASCII_BETWEEN = bytes(code for code in range(1, 128) if not chr(code).isalnum())
_BETWEEN = re.compile(r"(?:[^\w\0]|_)+")
_END = b"\0"


class Roster(Struct, frozen=True, gc=False):
    """Symbols' row ids, and in the same order their names, in small ASCII letters, and the keys of these.

    A zero byte stands before each and after the last.
    """

    rows: Sequence[int]
    lowered: bytes
    keys: bytes

    def __len__(self) -> int:
        """Return how many symbols there are."""
        return len(self.rows)

    def having(self, word: str) -> list[int]:
        """Return the rows of the symbols whose names have *word* in them, as LIKE has it."""
        return list(self._rows(self.lowered, word.encode().lower(), 0))

    def called(self, key: str) -> list[int]:
        """Return the rows of the symbols whose names have this key."""
        return list(self._rows(self.keys, _END + key.encode() + _END, 1))

    def _rows(self, names: bytes, part: bytes, offset: int) -> Iterator[int]:
        """Yield the row of each of *names* that *part* is in, which begins *offset* bytes before the name."""
        ends = counted = 0
        found = names.find(part)
        while found >= 0:
            begin = found + offset
            ends += names.count(_END, counted, begin)
            yield self.rows[ends - 1]
            counted = begin
            found = names.find(part, names.find(_END, begin))


@kept
def roster_of(db: sqlite3.Connection) -> Roster:
    """Return the names of the store's symbols."""
    names, rows = db.execute(_NAMES).fetchone()
    return _roster(names, array("q", msgspec.json.decode(rows, type=list[int])))


def _roster(names: bytes, rows: Sequence[int]) -> Roster:
    """Return the roster of *names*, with a zero byte between each two. Pure."""
    keys = names.decode(errors="replace").casefold().encode().translate(None, _ASCII_BETWEEN)
    if not keys.isascii():
        keys = _BETWEEN.sub("", keys.decode()).encode()
    return Roster(rows, _END + names.lower() + _END, _END + keys + _END)
