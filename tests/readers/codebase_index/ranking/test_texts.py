"""The list of chunks is that of all candidates scored and sorted, though some are not looked at."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from collated_readers.codebase_index.ranking.query import Asked, asked_of
from collated_readers.codebase_index.ranking.scope import scope_of
from collated_readers.codebase_index.ranking.texts import texts
from collated_readers.opening import StoreConnection

Altered = Callable[..., StoreConnection]
Listed = tuple[float, str, int, int]

BEST = """
SELECT c.id, -x.best, c.content, f.path, c.line_start FROM (
SELECT rowid, bm25(fts_chunks) AS best FROM fts_chunks WHERE fts_chunks MATCH ? ORDER BY best, rowid LIMIT ?
) AS x JOIN chunks AS c ON c.id = x.rowid JOIN files AS f ON f.id = c.file_id"""
AGAIN = """
INSERT INTO chunks (file_id, line_start, line_end, kind, content, token_est, symbol_names)
SELECT {}, line_start + id % 3, line_end, kind, content, token_est, symbol_names FROM chunks
WHERE content LIKE '%completion%'"""


def _expected(db: sqlite3.Connection, asked: Asked, depth: int) -> list[Listed]:
    """Return what the program's list is, for words of one spelling of three letters or more."""
    words = [term.text for term in asked.terms]
    scored: list[tuple[float, int, float, str, int, int]] = []
    for row, bm25, content, path, line in db.execute(BEST, (asked.match, depth * max(2, len(words)))):
        covered = sum(word in content.casefold() for word in words)
        score = (2.0 * covered + 0.35 * covered) / len(words) + 0.08 * min(bm25, 4.0)
        if 2 * covered >= len(words):
            scored.append((-score, -covered, -bm25, path, line, row))
    return [(-score, path, line, row) for score, _, _, path, line, row in sorted(scored)[:depth]]


@pytest.mark.parametrize("depth", [1, 2, 5, 20, 40])
@pytest.mark.parametrize("text", ["completion", "completion script", "completion script install", "echo"])
def test_nothing_that_would_be_listed_is_passed_over(altered_store: Altered, text: str, depth: int) -> None:
    # Equal texts, so that those that tie with the last are told apart by their places.
    db = altered_store(AGAIN.format(9), AGAIN.format(1))
    asked = asked_of(text)
    expected = _expected(db, asked, depth)
    found = texts(db, asked, scope_of(db, None, depth))
    assert len(expected) == depth
    assert [(round(one.score, 9), one.path, one.line_start, one.row) for one in found] == [
        (round(score, 9), path, line, row) for score, path, line, row in expected
    ]
