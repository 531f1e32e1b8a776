"""The program's list of chunks, by the words in them."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Sequence

from collated_readers.codebase_index.search import finite
from collated_readers.values import Row, integer, text

from .found import Found
from .query import Asked, Term
from .scope import Scope

__all__ = ["texts"]

_BEST = """
SELECT rowid, bm25(fts_chunks) AS best FROM fts_chunks
WHERE fts_chunks MATCH :match ORDER BY best, rowid LIMIT :most"""
_BEST_WITHIN = """
SELECT x.rowid, bm25(fts_chunks) AS best FROM fts_chunks AS x
JOIN chunks AS c ON c.id = x.rowid JOIN files AS f ON f.id = c.file_id
WHERE fts_chunks MATCH :match AND {} ORDER BY best, x.rowid LIMIT :most"""
_TEXTS = """
SELECT x.rowid, x.best, c.content, f.path, c.line_start, c.line_end, c.file_id, {generated}
FROM ({best}) AS x CROSS JOIN chunks AS c ON c.id = x.rowid CROSS JOIN files AS f ON f.id = c.file_id"""

_FEWEST_TIMES, _MOST_TIMES = 2, 5  # as many as the list is long are looked at
_PER_COVERED, _PER_WEIGHT, _PER_BM25, _MOST_BM25 = 2.0, 0.35, 0.08, 4.0
_SHORT = 2  # words that must stand alone


def texts(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Found]:
    """Return the chunks with most of the words, of those that bm25 puts first.

    A chunk needs half of the words; if none has, all count by bm25 alone.

    Raises:
        StoreError: `invalid_rank`, `damaged`.
    """
    terms = len(asked.terms)
    if not terms:
        return []
    rows = _rows(db, asked, scope)
    scored: list[tuple[float, int, float, Row]] = []
    for row in rows:
        matched, weight = _covered(text(row[2]).casefold(), asked.terms)
        if matched >= math.ceil(terms / 2):
            by_words = (_PER_COVERED * matched + _PER_WEIGHT * weight) / terms
            scored.append((by_words + _PER_BM25 * min(_bm25(row), _MOST_BM25), matched, _bm25(row), row))
    best = scored or [(_bm25(row), 0, _bm25(row), row) for row in rows]
    best.sort(key=lambda one: (-one[0], -one[1], -one[2], text(one[3][3]), integer(one[3][4]), one[3][0]))
    return [_found(row, score) for score, _, _, row in best[: scope.depth]]


def _rows(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Row]:
    best = _BEST if scope.within is None else _BEST_WITHIN.format(scope.condition)
    most = scope.depth * min(max(len(asked.terms), _FEWEST_TIMES), _MOST_TIMES)
    arguments = {"match": asked.match, "most": most, "within": scope.within}
    return db.execute(_TEXTS.format(best=best, generated=scope.generated), arguments).fetchall()


def _bm25(row: Row) -> float:
    return max(0.0, -finite(row[1]))


def _covered(content: str, terms: Sequence[Term]) -> tuple[int, float]:
    """Return how many of *terms* are in *content*, and the sum of what their first spellings there weigh."""
    matched, weight = 0, 0.0
    for term in terms:
        for word, weighs in term.spellings:
            if _is_in(word, content):
                matched += 1
                weight += weighs
                break
    return matched, weight


def _is_in(word: str, content: str) -> bool:
    if word not in content:
        return False
    return (
        len(word) > _SHORT
        or re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", content) is not None
    )


def _found(row: Row, score: float) -> Found:
    number, _, _, path, start, end, file, generated = row
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
