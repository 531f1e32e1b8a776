"""The program's list of symbols, by the words in their names."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter

from collated_readers.values import Row, integer, optional_text, text

from .found import Found
from .query import Asked
from .roster import roster_of
from .scope import Scope, escaped

__all__ = ["defining", "symbols"]

_THESE = """
FROM symbols AS s JOIN files AS f ON f.id = s.file_id
WHERE s.id IN (SELECT value FROM json_each(:rows)) AND (:kind IS NULL OR s.kind = :kind) AND {condition}"""
_SYMBOLS = f"""
SELECT s.name, s.qualified, s.kind, s.line_start, s.line_end, s.file_id, f.path,
{{generated}}, {{callers}}, {{callees}} {_THESE} ORDER BY s.id"""
_FIRST = f"""
SELECT s.id, {{callers}} AS callers {_THESE}
ORDER BY s.name = :word COLLATE NOCASE DESC, s.name LIKE :beginning ESCAPE '!' DESC, callers DESC,
s.name COLLATE NOCASE, f.path, s.line_start, s.id LIMIT :most"""
_DEFINED = "SELECT file_id, line_start FROM symbols WHERE id IN (SELECT value FROM json_each(?))"
_USES = """
SELECT dst_name, count(*) FROM edges WHERE dst_name IN (SELECT value FROM json_each(?)) GROUP BY dst_name"""

_TYPES = frozenset({"class", "interface", "enum", "struct", "trait", "impl", "record"})
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_PER_SYNONYM, _FOR_EXACT = 0.35, 2.0

_Order = tuple[bool, int, int, float, int, int, str, str, int]
"""What a symbol is ordered by, the most first: whether it is called just so, how many of the words its name
has, how many of those of the same meaning, what part of it they are, callers, length, name, path, line."""


def symbols(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Found]:
    """Return the symbols whose names have most of the words, and of these those with most callers.

    Raises:
        StoreError: `damaged`.
    """
    called = _without_constructors(_called(db, asked, scope)) if asked.names else []
    found = [(_order(row, asked.names, asked.synonyms), row) for row in called]
    found.sort(key=itemgetter(0), reverse=True)
    del found[scope.depth :]
    uses = _uses(db, {row[0] for _, row in found if not row[8]})
    return [_found(row, order, uses) for order, row in found]


def defining(db: sqlite3.Connection, key: str) -> list[tuple[int, int]]:
    """Return where what *key* names is defined: files, by row id, and lines.

    Raises:
        StoreError: `damaged`.
    """
    rows = roster_of(db).called(key) if key else []
    found = db.execute(_DEFINED, (json.dumps(rows),)) if rows else ()
    return [(integer(file), integer(line)) for file, line in found]


def _called(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Row]:
    """Return the symbols with any of the words in their names; of too many with one word, the first."""
    about = {"kind": asked.kind, "within": scope.within, "most": scope.depth}
    rows: set[int] = set()
    for word in dict.fromkeys((*asked.names, *asked.synonyms)):
        having = roster_of(db).having(word)
        if len(having) > scope.depth:
            order = {"rows": json.dumps(having), "word": word, "beginning": f"{escaped(word)}%"}
            having = [integer(row) for row, _ in db.execute(scope.filled(_FIRST), {**about, **order})]
        rows.update(having)
    return db.execute(scope.filled(_SYMBOLS), {**about, "rows": json.dumps(list(rows))}).fetchall()


def _without_constructors(rows: Iterable[Row]) -> list[Row]:
    """Return *rows* without the methods that are called as the type that they make, where that is there."""
    rows = list(rows)
    types = {(row[6], row[0]) for row in rows if row[2] in _TYPES}
    return [row for row in rows if not (row[2] == "method" and (row[6], row[0]) in types and _is_maker(row))]


def _is_maker(row: Row) -> bool:
    return (optional_text(row[1]) or "").endswith(f"{row[0]}.{row[0]}")


def _order(row: Row, words: Sequence[str], synonyms: Sequence[str]) -> _Order:
    name, _, _, start, _, _, path, _, callers, _ = row
    folded = text(name).casefold()
    pieces = {piece.lower() for piece in _PIECE.findall(name) if len(piece) > 1}
    return (
        folded == "".join(words),
        sum([word in folded for word in words]),
        sum([word in folded for word in synonyms]),
        len(pieces.intersection(words)) / len(pieces) if pieces else 0.0,
        integer(callers),
        -len(folded),
        folded,
        text(path),
        integer(start),
    )


def _found(row: Row, order: _Order, uses: Mapping[str, int]) -> Found:
    name, _, kind, start, end, file, path, generated, callers, callees = row
    is_exact, covered, by_synonym, tightness, *_ = order
    return Found(
        source="symbol",
        path=path,
        file=integer(file),
        line_start=start,
        line_end=integer(end),
        score=covered + _PER_SYNONYM * by_synonym + tightness + (_FOR_EXACT if is_exact else 0.0),
        is_generated=bool(generated),
        name=name,
        kind=optional_text(kind),
        is_exact=is_exact,
        callers=callers,
        callees=integer(callees),
        uses=0 if callers else uses.get(name, 0),
    )


def _uses(db: sqlite3.Connection, names: Collection[str]) -> Mapping[str, int]:
    """Return in how many places each of *names* is used, where it is."""
    return dict(db.execute(_USES, (json.dumps(sorted(names)),)).fetchall()) if names else {}
