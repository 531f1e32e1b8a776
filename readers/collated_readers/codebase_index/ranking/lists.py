"""The program's three lists: texts by words, symbols by name, files by path.

As in the program each is cut before the lists are fused. What a path filter shuts out is in none.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Sequence

from collated_readers.codebase_index.places import IN_FILTER
from collated_readers.codebase_index.schema import has_column
from collated_readers.codebase_index.search import finite
from collated_readers.values import Row, integer, optional_text, text

from .found import Found
from .query import Asked, Term

__all__ = ["paths", "symbols", "texts"]

_TEXTS = """
SELECT x.rowid, x.best, c.file_id, f.path, c.line_start, c.line_end, c.content, {generated}
FROM ({best}) AS x JOIN chunks AS c ON c.id = x.rowid JOIN files AS f ON f.id = c.file_id
ORDER BY x.best, x.rowid"""
_BEST = """
SELECT rowid, bm25(fts_chunks) AS best FROM fts_chunks
WHERE fts_chunks MATCH :match ORDER BY best, rowid LIMIT :most"""
_BEST_WITHIN = """
SELECT x.rowid, bm25(fts_chunks) AS best FROM fts_chunks AS x
JOIN chunks AS c ON c.id = x.rowid JOIN files AS f ON f.id = c.file_id
WHERE fts_chunks MATCH :match AND {within} ORDER BY best, x.rowid LIMIT :most"""
_SYMBOLS = """
SELECT s.id, s.name, s.qualified, s.kind, s.line_start, s.line_end, s.file_id, f.path, {generated},
{callers}, {callees}
FROM symbols AS s JOIN files AS f ON f.id = s.file_id
WHERE s.id IN (SELECT id FROM symbols WHERE name LIKE :within ESCAPE '\\') {conditions}
ORDER BY s.name = :name COLLATE NOCASE DESC, s.name LIKE :prefix ESCAPE '\\' DESC, {callers} DESC,
s.name COLLATE NOCASE, f.path, s.line_start, s.id LIMIT :most"""
_USES = """
SELECT dst_name, count(*) FROM edges WHERE dst_name IN (SELECT value FROM json_each(?)) GROUP BY dst_name"""
_PATHS = """
SELECT f.id, f.path, {generated}, count(*) AS hits
FROM json_each(:patterns) AS pattern CROSS JOIN files AS f ON f.path LIKE pattern.value ESCAPE '\\'
WHERE {within} GROUP BY f.id ORDER BY hits DESC, length(f.path), f.path LIMIT :most"""
_NO_FEWER = "max(0, CAST(s.{} AS INTEGER))"  # whatever a store has written there

_WORD_LENGTH = 3  # shorter ones must stand alone
_LEAST_COVERED = 0.5
_PER_COVERED, _PER_WEIGHT, _PER_BM25, _MOST_BM25 = 2.0, 0.35, 0.08, 4.0
_WIDENED = (2, 5)
_OF_SYNONYM, _OF_EXACT = 0.35, 2.0
_TYPES = frozenset({"class", "interface", "enum", "struct", "trait", "impl", "record"})
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def texts(db: sqlite3.Connection, asked: Asked, within: str | None, depth: int) -> list[Found]:
    """Return the chunks with most of the words; bm25 tells apart what is left equal.

    Raises:
        StoreError: `invalid_rank`, `damaged`.
    """
    if not asked.terms:
        return []
    widened = depth * min(max(len(asked.terms), _WIDENED[0]), _WIDENED[1])
    best = _BEST if within is None else _BEST_WITHIN.format(within=_filter(within))
    sql = _TEXTS.format(best=best, generated=_column(db, "files", "f", "is_generated"))
    rows = db.execute(sql, {"match": asked.match, "most": widened, "filter": within}).fetchall()
    covered = [_covered(text(row[6]).casefold(), asked.terms) for row in rows]
    least = max(1, math.ceil(len(asked.terms) * _LEAST_COVERED))
    kept = [(row, each) for row, each in zip(rows, covered, strict=True) if each[0] >= least]
    if not kept:
        kept = [(row, (0, 0.0)) for row in rows]
        scored = [(-min(0.0, finite(row[1])), 0, row) for row in rows]
    else:
        scored = [(_score(each, finite(row[1]), len(asked.terms)), each[0], row) for row, each in kept]
    scored.sort(key=lambda one: (-one[0], -one[1], min(0.0, one[2][1]), text(one[2][3]), integer(one[2][4])))
    return [_text(row, score) for score, _, row in scored[:depth]]


def _text(row: Row, score: float) -> Found:
    number, _, file, path, start, end, _, generated = row
    return Found(
        source="text",
        path=text(path),
        file=integer(file),
        line_start=integer(start),
        line_end=integer(end),
        score=score,
        is_generated=bool(generated),
        row=integer(number),
    )


def _covered(content: str, terms: Sequence[Term]) -> tuple[int, float]:
    matched, weight = 0, 0.0
    for term in terms:
        for word, counts in term.spellings:
            if _stands(word, content):
                matched += 1
                weight += counts
                break
    return matched, weight


def _stands(word: str, content: str) -> bool:
    if word not in content:
        return False
    if len(word) >= _WORD_LENGTH:
        return True
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", content) is not None


def _score(covered: tuple[int, float], rank: float, terms: int) -> float:
    matched, weight = covered
    return (
        _PER_COVERED * matched / terms
        + _PER_WEIGHT * weight / terms
        + _PER_BM25 * min(max(0.0, -rank), _MOST_BM25)
    )


def symbols(db: sqlite3.Connection, asked: Asked, within: str | None, depth: int) -> list[Found]:
    """Return the symbols whose names have most of the words, what is called so exactly first.

    Raises:
        StoreError: `damaged`.
    """
    if not asked.names:
        return []
    rows: dict[int, Row] = {}
    for word in dict.fromkeys((*asked.names, *asked.synonyms)):
        rows.update((integer(row[0]), row) for row in _called(db, asked, word, within, depth))
    types = {(row[7], row[1]) for row in rows.values() if row[3] in _TYPES}
    joined = "".join(asked.names)
    scored: list[tuple[tuple[object, ...], float, bool, Row]] = []
    for row in rows.values():
        if row[3] == "method" and (row[7], row[1]) in types and _is_constructor(row):
            continue
        name = text(row[1])
        folded = name.casefold()
        pieces = {
            piece.lower() for part in name.split("_") for piece in _PIECE.findall(part) if len(piece) > 1
        }
        covered = sum(word in folded for word in asked.names)
        by_synonym = sum(word in folded for word in asked.synonyms)
        tightness = len(pieces.intersection(asked.names)) / len(pieces) if pieces else 0.0
        is_exact = folded == joined
        key = (
            is_exact,
            covered,
            by_synonym,
            tightness,
            row[9],
            -len(folded),
            folded,
            text(row[7]),
            integer(row[4]),
        )
        score = covered + _OF_SYNONYM * by_synonym + tightness + _OF_EXACT * is_exact
        scored.append((key, score, is_exact, row))
    scored.sort(key=lambda one: one[0], reverse=True)
    return _with_uses(db, [_symbol(row, score, is_exact=exact) for _, score, exact, row in scored[:depth]])


def _called(db: sqlite3.Connection, asked: Asked, word: str, within: str | None, depth: int) -> list[Row]:
    callers, callees = (_column(db, "symbols", "s", column) for column in ("in_degree", "out_degree"))
    kind = "" if asked.kind is None else "AND s.kind = :kind"
    path = "" if within is None else f"AND {_filter(within)}"
    sql = _SYMBOLS.format(
        generated=_column(db, "files", "f", "is_generated"),
        callers=callers,
        callees=callees,
        conditions=f"{kind} {path}",
    )
    escaped = _escaped(word)
    values = {"name": word, "prefix": f"{escaped}%", "within": f"%{escaped}%", "kind": asked.kind}
    return db.execute(sql, {**values, "filter": within, "most": depth}).fetchall()


def _is_constructor(row: Row) -> bool:
    return (optional_text(row[2]) or "").endswith(f"{row[1]}.{row[1]}")


def _symbol(row: Row, score: float, *, is_exact: bool) -> Found:
    _, name, _, kind, start, end, file, path, generated, callers, callees = row
    return Found(
        source="symbol",
        path=text(path),
        file=integer(file),
        line_start=integer(start),
        line_end=integer(end),
        score=score,
        is_generated=bool(generated),
        name=text(name),
        kind=optional_text(kind),
        is_exact=is_exact,
        callers=integer(callers),
        callees=integer(callees),
    )


def _with_uses(db: sqlite3.Connection, found: Sequence[Found]) -> list[Found]:
    from msgspec.structs import replace

    uncalled = {one.name for one in found if not one.callers}
    uses = dict(db.execute(_USES, (json.dumps(sorted(map(text, uncalled))),))) if uncalled else {}
    return [one if one.callers else replace(one, uses=integer(uses.get(one.name, 0))) for one in found]


def paths(db: sqlite3.Connection, asked: Asked, within: str | None, depth: int) -> list[Found]:
    """Return the files with most of the words in their paths, the shortest first; a place is the first line.

    Raises:
        StoreError: `damaged`.
    """
    words = dict.fromkeys((*(term.text for term in asked.terms), *asked.synonyms))
    if not words:
        return []
    sql = _PATHS.format(
        generated=_column(db, "files", "f", "is_generated"), within="1" if within is None else _filter(within)
    )
    patterns = json.dumps([f"%{_escaped(word)}%" for word in words])
    rows = db.execute(sql, {"patterns": patterns, "filter": within, "most": depth})
    return [
        Found("path", text(path), integer(file), 1, 1, float(hits), bool(generated))
        for file, path, generated, hits in rows
    ]


def _filter(within: str | None) -> str:
    return IN_FILTER.replace("?", ":filter")


def _escaped(word: str) -> str:
    return word.replace("_", "\\_")


def _column(db: sqlite3.Connection, table: str, alias: str, column: str) -> str:
    """Return an expression of a number that older stores may lack."""
    return f"max(0, CAST(coalesce({alias}.{column}, 0) AS INTEGER))" if has_column(db, table, column) else "0"
