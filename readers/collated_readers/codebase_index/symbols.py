"""Looking a symbol up: by its name, by the beginning of it, as `Owner.member`, or spelled another way."""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from itertools import chain, product

from collated_readers.code import How, Symbols
from collated_readers.values import integer

from .definitions import (
    COLUMNS,
    FROM,
    Definition,
    check_symbols,
    definition_of,
    member_of,
    named,
    owned,
    symbols_from,
)
from .words import key_of

__all__ = ["ranges_of", "symbols_of"]

_ORDER = "ORDER BY s.name, f.path, s.line_start, s.id LIMIT ?"
_RANGED_LETTERS = 3

# A beginning matches whatever the case of its ASCII letters, so no index finds it by itself: `starts` are
# the ranges of all spellings of its first letters. Compared as text, not by LIKE: `_` means itself (T9).
_RANGED = "starts CROSS JOIN symbols AS s ON s.name >= starts.low AND s.name < starts.high"
_BEGINS = "lower(substr(s.name, 1, ?)) = lower(?)"
_FILES = "CROSS JOIN files AS f ON f.id = s.file_id"
_PREFIX = f"FROM {_RANGED} {_FILES} WHERE {_BEGINS} {_ORDER}"
_MORE = f"FROM {_RANGED} WHERE {_BEGINS} AND s.name <> ?"

# As `key_of` has it, for names without other characters: nearly all.
_SPELLED = "(SELECT id FROM symbols WHERE replace(replace(lower(name), '_', ''), '-', '') = ?)"
_PARTS = f"SELECT {COLUMNS} {FROM} WHERE s.id IN {_SPELLED} {_ORDER}"


def symbols_of(db: sqlite3.Connection, name: str, limit: int, *, exact: bool) -> Symbols:
    """Return the first *limit* definitions that *name* finds, by (name, path, line).

    Of the ways to find any, the first that finds some counts: the name; its beginning in any case;
    `Owner.member`; the same letters whatever the case and the separators. The second and the last are
    not for *exact*, which wants what is written.

    Raises:
        StoreError: `symbols_missing`, `damaged`.
    """
    check_symbols(db)
    found = named(db, name, limit + 1)
    if found:
        return _answer(found, "exact", limit, more=0 if exact else _more(db, name))
    if not exact and (found := _beginning(db, name, limit + 1)):
        return _answer(found, "prefix", limit)
    member = member_of(name)
    if member is not None and (found := owned(db, member)):
        return _answer(found, "member", limit)
    return _answer([] if exact else _spelled(db, name, limit + 1), "parts", limit)


def _answer(found: list[Definition], how: How, limit: int, *, more: int = 0) -> Symbols:
    return Symbols(
        symbols_from(found[:limit]), how if found else "exact", more, is_truncated=len(found) > limit
    )


def _more(db: sqlite3.Connection, name: str) -> int:
    return integer(_ranged(db, f"count(*) {_MORE}", name, name).fetchone()[0])


def _beginning(db: sqlite3.Connection, name: str, limit: int) -> list[Definition]:
    return [definition_of(row) for row in _ranged(db, f"{COLUMNS} {_PREFIX}", name, limit)]


def _ranged(db: sqlite3.Connection, sql: str, name: str, last: str | int) -> sqlite3.Cursor:
    ranges = ranges_of(name[:_RANGED_LETTERS])
    starts = ", ".join(["(?, ?)"] * len(ranges))
    values = (*chain.from_iterable(ranges), len(name), name, last)
    return db.execute(f"WITH starts(low, high) AS (VALUES {starts}) SELECT {sql}", values)


@lru_cache(maxsize=1_000)
def ranges_of(letters: str) -> tuple[tuple[str, str | bytes], ...]:
    """Return [low, high) of all text that begins so in whatever case, by the ASCII letters in front. Pure."""
    while not letters.isascii():
        letters = letters[:-1]
    if not letters:
        return (("", b""),)  # to SQLite every text is less than any BLOB
    lows = sorted({"".join(spelling) for spelling in product(*({x.lower(), x.upper()} for x in letters))})
    return tuple((low, low[:-1] + chr(ord(low[-1]) + 1)) for low in lows)


def _spelled(db: sqlite3.Connection, name: str, limit: int) -> list[Definition]:
    key = key_of(name)
    return [definition_of(row) for row in db.execute(_PARTS, (key, limit))] if key else []
