"""The program's list of symbols, by the words in their names."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from collated_readers.values import Row, integer, optional_text, text

from .found import Found
from .query import Asked
from .scope import Scope, escaped

__all__ = ["symbols"]

_CALLED = """
SELECT s.id, s.name, s.qualified, s.kind, s.line_start, s.line_end, s.file_id, f.path,
{generated}, {callers} AS callers, {callees}
FROM symbols AS s JOIN files AS f ON f.id = s.file_id
WHERE s.id IN (SELECT id FROM symbols WHERE name LIKE :inside ESCAPE '!')
AND (:kind IS NULL OR s.kind = :kind) AND {condition}
ORDER BY s.name = :name COLLATE NOCASE DESC, s.name LIKE :beginning ESCAPE '!' DESC, callers DESC,
s.name COLLATE NOCASE, f.path, s.line_start, s.id LIMIT :most"""
_USES = """
SELECT dst_name, count(*) FROM edges WHERE dst_name IN (SELECT value FROM json_each(?)) GROUP BY dst_name"""

_TYPES = frozenset({"class", "interface", "enum", "struct", "trait", "impl", "record"})
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_PER_SYNONYM, _FOR_EXACT = 0.35, 2.0


class _Likeness(Struct, frozen=True, order=True, gc=False):
    """How like the words a name is; more is better, field by field."""

    is_exact: bool
    covered: int
    by_synonym: int
    tightness: float

    @property
    def score(self) -> float:
        exact = _FOR_EXACT if self.is_exact else 0.0
        return self.covered + _PER_SYNONYM * self.by_synonym + self.tightness + exact


def symbols(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Found]:
    """Return the symbols whose names have most of the words, and of these those with most callers.

    Raises:
        StoreError: `damaged`.
    """
    rows: dict[int, Row] = {}
    for word in dict.fromkeys((*asked.names, *asked.synonyms)) if asked.names else ():
        rows.update((row[0], row) for row in _called(db, asked, word, scope))
    found = [_found(row, _likeness(text(row[1]), asked)) for row in _without_constructors(rows.values())]
    found.sort(key=_order, reverse=True)
    return _with_uses(db, [one for _, one in found[: scope.depth]])


def _called(db: sqlite3.Connection, asked: Asked, word: str, scope: Scope) -> list[Row]:
    sql = _CALLED.format(
        generated=scope.generated, callers=scope.callers, callees=scope.callees, condition=scope.condition
    )
    part = escaped(word)
    like = {"name": word, "beginning": f"{part}%", "inside": f"%{part}%"}
    return db.execute(
        sql, {**like, "kind": asked.kind, "within": scope.within, "most": scope.depth}
    ).fetchall()


def _without_constructors(rows: Iterable[Row]) -> list[Row]:
    """Return *rows* without the methods that are called as the type that they make, where that is there."""
    rows = list(rows)
    types = {(row[7], row[1]) for row in rows if row[3] in _TYPES}
    return [row for row in rows if not (row[3] == "method" and (row[7], row[1]) in types and _is_maker(row))]


def _is_maker(row: Row) -> bool:
    return (optional_text(row[2]) or "").endswith(f"{row[1]}.{row[1]}")


def _likeness(name: str, asked: Asked) -> _Likeness:
    folded = name.casefold()
    pieces = {piece.lower() for part in name.split("_") for piece in _PIECE.findall(part) if len(piece) > 1}
    return _Likeness(
        is_exact=folded == "".join(asked.names),
        covered=sum(word in folded for word in asked.names),
        by_synonym=sum(word in folded for word in asked.synonyms),
        tightness=len(pieces.intersection(asked.names)) / len(pieces) if pieces else 0.0,
    )


def _found(row: Row, likeness: _Likeness) -> tuple[_Likeness, Found]:
    _, name, _, kind, start, end, file, path, generated, callers, callees = row
    return likeness, Found(
        source="symbol",
        path=text(path),
        file=integer(file),
        line_start=integer(start),
        line_end=integer(end),
        score=likeness.score,
        is_generated=bool(generated),
        name=text(name),
        kind=optional_text(kind),
        is_exact=likeness.is_exact,
        callers=integer(callers),
        callees=integer(callees),
    )


def _order(one: tuple[_Likeness, Found]) -> tuple[_Likeness, int, int, str, str, int]:
    likeness, found = one
    name = (found.name or "").casefold()
    return likeness, found.callers, -len(name), name, found.path, found.line_start


def _with_uses(db: sqlite3.Connection, found: Sequence[Found]) -> list[Found]:
    """Return *found*, those without callers with the number of places that use their name."""
    names = sorted({one.name or "" for one in found if not one.callers})
    uses = dict(db.execute(_USES, (json.dumps(names),)).fetchall()) if names else {}
    return [one if one.callers else replace(one, uses=uses.get(one.name, 0)) for one in found]
