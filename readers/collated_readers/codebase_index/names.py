"""Names: which chunks define a symbol of a name, and which use it.

Names are one if their keys are (`key_of`). A symbol belongs to the smallest chunk of the file's own text
around its first line: a method has no chunk of its own.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain

from collated_readers.values import integer, text

from .words import key_of

__all__ = [
    "DEFINES",
    "USES",
    "every_name",
    "key_in",
    "line_in",
    "name_term",
    "named",
    "names_of",
    "names_terms",
]

DEFINES, USES = 2, 1
"""What a chunk weighs that defines a symbol, and one that uses it only."""

# A name has the letters of its key, in order; but for letters that become others when case is folded.
_SYMBOL_NAMES = """
SELECT DISTINCT name FROM symbols WHERE name LIKE ? OR length(CAST(name AS BLOB)) > length(name)"""
_USED_NAMES = """
SELECT DISTINCT dst_name FROM edges
WHERE dst_name LIKE ? OR length(CAST(dst_name AS BLOB)) > length(dst_name)"""
_LONGEST_KEY = 1_000  # characters; of longer patterns LIKE may take none
_DEFINITIONS = "SELECT file_id, line_start, name FROM symbols WHERE {}"
_USAGES = "SELECT file_id, line, dst_name FROM edges WHERE line IS NOT NULL AND dst_name IS NOT NULL AND {}"
_CHUNKS = "SELECT file_id, line_start, line_end, id FROM chunks WHERE kind IS NOT 'doc' AND {}"
_AMONG = "{} IN (SELECT value FROM json_each(?))"
_DEFINED_AT = """
SELECT line_start, name FROM symbols WHERE file_id = ? AND line_start BETWEEN ? AND ? ORDER BY line_start"""
_USED_AT = """
SELECT line, dst_name FROM edges
WHERE file_id = ? AND line BETWEEN ? AND ? AND dst_name IS NOT NULL ORDER BY line"""

Line = tuple[int, int]
"""A file's row id and a line in it."""


def name_term(key: str) -> bytes:
    """Return the term under which postings list what is called so; no word of an index begins like that."""
    return b"\0" + key.encode()


def key_in(term: bytes) -> str | None:
    """Return the key whose term this is, None for a word's."""
    return term[1:].decode() if term.startswith(b"\0") else None


def names_of(db: sqlite3.Connection, key: str) -> list[str]:
    """Return the names that the store has with this *key*.

    Raises:
        StoreError: `damaged`.
    """
    return sorted({*_spelt(db, _SYMBOL_NAMES, key), *_spelt(db, _USED_NAMES, key)})


def _spelt(db: sqlite3.Connection, statement: str, key: str) -> list[str]:
    """Return the names with this *key* among those that *statement* gives."""
    if not 0 < len(key) <= _LONGEST_KEY:
        return []
    found = db.execute(statement, (f"%{'%'.join(key)}%",))
    return [name for (name,) in found if key_of(text(name)) == key]


def named(db: sqlite3.Connection, key: str) -> dict[int, int]:
    """Return the row ids of the chunks that define or use what *key* names, with what each weighs.

    Raises:
        StoreError: `damaged`.
    """
    names = names_of(db, key)
    return _weights(db, names).get(key, {}) if names else {}


def every_name(db: sqlite3.Connection) -> Mapping[str, Mapping[int, int]]:
    """Return `named` of each key that has any chunks.

    Raises:
        StoreError: `damaged`.
    """
    return _weights(db, None)


def names_terms(db: sqlite3.Connection) -> list[bytes]:
    """Return the terms of all names in the store, ascending.

    Raises:
        StoreError: `damaged`.
    """
    found = db.execute("SELECT name FROM symbols UNION SELECT dst_name FROM edges WHERE dst_name IS NOT NULL")
    keys = {key_of(text(name)) for (name,) in found}
    return sorted(name_term(key) for key in keys if 0 < len(key) <= _LONGEST_KEY)


def line_in(db: sqlite3.Connection, key: str, file: int, lines: tuple[int, int]) -> int | None:
    """Return the first of *lines* of a file that defines what *key* names, or else that uses it.

    Raises:
        StoreError: `damaged`.
    """
    for statement in (_DEFINED_AT, _USED_AT):
        with closing(db.execute(statement, (file, *lines))) as rows:
            for line, name in rows:
                if key_of(text(name)) == key:
                    return integer(line)
    return None


def _weights(db: sqlite3.Connection, names: Sequence[str] | None) -> dict[str, dict[int, int]]:
    uses, defines = _lines(db, _USAGES, "dst_name", names), _lines(db, _DEFINITIONS, "name", names)
    around = _around(db, chain.from_iterable((*uses.values(), *defines.values())))
    weights: dict[str, dict[int, int]] = defaultdict(dict)
    for lines_of, weight in ((uses, USES), (defines, DEFINES)):  # what defines it counts, whatever it uses
        for key, lines in lines_of.items():
            weights[key].update((around[line], weight) for line in lines if line in around)
    return {key: rows for key, rows in weights.items() if rows}


def _lines(
    db: sqlite3.Connection, statement: str, column: str, names: Sequence[str] | None
) -> dict[str, set[Line]]:
    condition, arguments = ("1", []) if names is None else (_AMONG.format(column), [json.dumps(names)])
    found: dict[str, set[Line]] = defaultdict(set)
    keys: dict[str, str] = {}
    for file, line, name in db.execute(statement.format(condition), arguments):
        key = keys.get(text(name))
        if key is None:
            key = keys[name] = key_of(name)
        if 0 < len(key) <= _LONGEST_KEY:
            found[key].add((integer(file), integer(line)))
    return found


def _around(db: sqlite3.Connection, lines: Iterable[Line]) -> dict[Line, int]:
    """Return the row id of the smallest chunk around each of *lines* that has one."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for file, line in lines:
        wanted[file].add(line)
    chunks: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    statement = _CHUNKS.format(_AMONG.format("file_id"))
    for file, start, end, row in db.execute(statement, (json.dumps(list(wanted)),)):
        chunks[integer(file)].append((integer(start), integer(end), integer(row)))
    return {
        (file, line): row
        for file, found in chunks.items()
        for line, row in _smallest(sorted(found), sorted(wanted[file]))
    }


def _smallest(chunks: Sequence[tuple[int, int, int]], lines: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each of *lines* that a chunk is around, with the smallest; both are ascending. Pure."""
    begun: list[tuple[int, int, int, int]] = []
    following = 0
    for line in lines:
        while following < len(chunks) and chunks[following][0] <= line:
            start, end, row = chunks[following]
            heapq.heappush(begun, (end - start, start, row, end))
            following += 1
        while begun and begun[0][3] < line:  # ended, for every later line too
            heapq.heappop(begun)
        if begun:
            yield line, begun[0][2]
