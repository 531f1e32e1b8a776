"""The program's list of chunks, by the words in them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing

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
WHERE fts_chunks MATCH :match AND {condition} ORDER BY best, x.rowid LIMIT :most"""
_TEXTS = """
SELECT x.rowid, x.best, CASE WHEN length(CAST(c.content AS BLOB)) > {longest}
THEN substr(c.content, 1, {longest}) ELSE c.content END,
f.path, c.line_start, c.line_end, c.file_id, {generated}
FROM ({best}) AS x CROSS JOIN chunks AS c ON c.id = x.rowid CROSS JOIN files AS f ON f.id = c.file_id"""

_FEWEST_TIMES, _MOST_TIMES = 2, 5  # as many as the list is long are looked at
_PER_COVERED, _PER_WEIGHT, _PER_BM25, _MOST_BM25 = 2.0, 0.35, 0.08, 4.0
_LONGEST = 200_000  # characters of a chunk, all of nearly every one
_SHORT = 2  # words that must stand alone

_Scored = tuple[float, int, float, str, int, int, object, object, object]
"""What a chunk is ordered by, the least first, up to its row id; then its last line, file and mark."""


def texts(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Found]:
    """Return the chunks with most of the words, of those that bm25 puts first.

    A chunk needs half of the words; if none has, all count by bm25 alone.

    Raises:
        StoreError: `invalid_rank`, `damaged`.
    """
    if not asked.terms:
        return []
    with closing(_rows(db, asked, scope)) as rows:
        every = _scored(rows, asked.terms, scope.depth)
    scored = [one for one in every if -one[1] >= len(asked.terms) / 2]
    if not scored:
        scored = [(one[2], 0, *one[2:]) for one in every]
    return [_found(one) for one in sorted(scored)[: scope.depth]]


def _rows(db: sqlite3.Connection, asked: Asked, scope: Scope) -> sqlite3.Cursor:
    best = _BEST if scope.within is None else scope.filled(_BEST_WITHIN)
    most = scope.depth * min(max(len(asked.terms), _FEWEST_TIMES), _MOST_TIMES)
    sql = scope.filled(_TEXTS, best=best, longest=_LONGEST)
    return db.execute(sql, {"match": asked.match, "most": most, "within": scope.within})


def _scored(rows: Iterable[Row], terms: Sequence[Term], depth: int) -> list[_Scored]:
    """Return *rows*, which come by bm25, scored: at least those that are the first *depth* then. Pure."""
    scored: list[_Scored] = []
    perfect, least = 0, 0.0
    for row, rank, content, path, start, end, file, generated in rows:
        bm25 = max(0.0, -finite(rank))
        if perfect >= depth and bm25 < least:  # so many are better whatever words it has
            break
        covered, weight = _covered(text(content).casefold(), terms)
        if weight == len(terms):
            perfect, least = perfect + 1, bm25
        by_words = (_PER_COVERED * covered + _PER_WEIGHT * weight) / len(terms)
        score = by_words + _PER_BM25 * min(bm25, _MOST_BM25)
        place = text(path), integer(start), row, end, file, generated
        scored.append((-score, -covered, -bm25, *place))
    return scored


def _covered(content: str, terms: Sequence[Term]) -> tuple[int, float]:
    """Return how many of *terms* are in *content*, and the sum of what their first spellings there weigh."""
    matched, weight = 0, 0.0
    for term in terms:
        for word, weighs in term.spellings:
            if word in content and (len(word) > _SHORT or _stands_alone(word, content)):
                matched += 1
                weight += weighs
                break
    return matched, weight


def _stands_alone(word: str, content: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", content) is not None


def _found(one: _Scored) -> Found:
    score, _, _, path, start, row, end, file, generated = one
    return Found(
        source="text",
        path=path,
        file=integer(file),
        line_start=start,
        line_end=integer(end),
        score=-score,
        is_generated=bool(generated),
        row=row,
    )
