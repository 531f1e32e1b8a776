"""The program's list of chunks, by the words in them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from collated_readers.values import Row, finite, integer, text

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
SELECT x.rowid, x.best, substr(c.content, 1, {longest}), f.path, c.line_start, c.line_end, c.file_id,
{generated}
FROM ({best}) AS x CROSS JOIN chunks AS c ON c.id = x.rowid CROSS JOIN files AS f ON f.id = c.file_id"""

_FEWEST_TIMES, _MOST_TIMES = 2, 5  # as many as the list is long are looked at
_PER_COVERED, _PER_WEIGHT, _PER_BM25, _MOST_BM25 = 2.0, 0.35, 0.08, 4.0
_LONGEST = 200_000  # characters of a chunk, all of nearly every one
_SHORT = 2  # words that must stand alone


class _Scored(Struct, frozen=True, gc=False):
    """A chunk, how many of the words are in it, and what bm25 makes of it, more being better."""

    found: Found
    covered: int
    bm25: float


def texts(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Found]:
    """Return the chunks with most of the words, of those that bm25 puts first.

    A chunk needs half of the words; if none has, all count by bm25 alone.

    Raises:
        StoreError: `invalid_rank`, `damaged`.
    """
    if not asked.terms:
        return []
    every = [_scored(row, asked.terms) for row in _rows(db, asked, scope)]
    scored = [one for one in every if one.covered >= len(asked.terms) / 2]
    if not scored:
        scored = [replace(one, covered=0, found=replace(one.found, score=one.bm25)) for one in every]
    return [one.found for one in sorted(scored, key=_order)[: scope.depth]]


def _rows(db: sqlite3.Connection, asked: Asked, scope: Scope) -> sqlite3.Cursor:
    best = _BEST if scope.within is None else _BEST_WITHIN.format(scope.condition)
    most = scope.depth * min(max(len(asked.terms), _FEWEST_TIMES), _MOST_TIMES)
    sql = _TEXTS.format(best=best, generated=scope.generated, longest=_LONGEST)
    return db.execute(sql, {"match": asked.match, "most": most, "within": scope.within})


def _scored(row: Row, terms: Sequence[Term]) -> _Scored:
    number, rank, content, path, start, end, file, generated = row
    covered, weight = _covered(text(content).casefold(), terms)
    bm25 = max(0.0, -finite(rank))
    by_words = (_PER_COVERED * covered + _PER_WEIGHT * weight) / len(terms)
    found = Found(
        source="text",
        path=text(path),
        file=integer(file),
        line_start=integer(start),
        line_end=integer(end),
        score=by_words + _PER_BM25 * min(bm25, _MOST_BM25),
        is_generated=bool(generated),
        row=integer(number),
    )
    return _Scored(found, covered, bm25)


def _order(one: _Scored) -> tuple[float, int, float, str, int, int]:
    return -one.found.score, -one.covered, -one.bm25, one.found.path, one.found.line_start, one.found.row or 0


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
