"""The lexical passes: candidates by rank, and what a hit shows of them (store-format: Search).

Candidates are taken in rank order and sorted by (rank, id) here; the list is the contract's all the same.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from collated_readers.contract import Hit, Query, Ranked, Tier
from collated_readers.fts.best import best_ranks
from collated_readers.matching.within import filter_argument
from collated_readers.shown import score_of
from collated_readers.values import Row, finite, text

from .filters import IN_FILTER
from .words import match_of, tiers_of, words_of

__all__ = ["hits_of", "ranked_of"]

_BEST = """
SELECT rowid, bm25(sections_fts, 0.0, 2.0, 1.0) AS best FROM sections_fts
WHERE sections_fts MATCH ? ORDER BY best LIMIT ?"""

# FTS5's own table of what was indexed, c0 being the first column: half the time of asking FTS5 for it.
_IDS = """
SELECT f.id, f.c0 FROM sections_fts_content AS f
JOIN sections AS s ON s.id = f.c0 JOIN documents AS d ON d.doc_id = s.doc_id
WHERE f.id IN (SELECT value FROM json_each(?))"""

_JOINED = """
SELECT f.rowid, f.id, bm25(sections_fts, 0.0, 2.0, 1.0) AS best FROM sections_fts AS f
JOIN sections AS s ON s.id = f.id JOIN documents AS d ON d.doc_id = s.doc_id
WHERE sections_fts MATCH ? ORDER BY best, f.id LIMIT ?"""

_FILTERED = _JOINED.replace("ORDER BY", f"AND {IN_FILTER} ORDER BY")

# Two statements for each hit take half the time of one for all: a row is found by its number.
_SHOWN = """
SELECT d.path, s.heading_path, s.kind FROM sections_fts_content AS f
JOIN sections AS s ON s.id = f.c0 JOIN documents AS d ON d.doc_id = s.doc_id
WHERE f.id = ?"""

_SHOWN_AND_INDEXED = _SHOWN.replace(" FROM", ", f.c1, f.c2 FROM", 1)

_SNIPPET = """
SELECT snippet(sections_fts, 2, '**', '**', '…', 20) FROM sections_fts
WHERE sections_fts MATCH ? AND rowid = ?"""


def ranked_of(db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
    """Return one pass's best records, in (rank, id) order, no id twice; none for a pass not to be run.

    Raises:
        RequestError: `invalid_params` (path filter).
        StoreError: `invalid_rank`, `damaged`.
    """
    words = words_of(query.text)
    if tier not in tiers_of(words):
        return []
    match = match_of(words, tier)
    within = filter_argument(query.within)
    rows = _best(db, match, query.limit) if within is None else None
    if rows is None:
        rows = _joined(db, match, within, query.limit)
    seen: dict[str, Ranked] = {}
    for row, record_id, rank in rows:
        seen.setdefault(text(record_id), Ranked(text(record_id), tier, finite(rank), int(row)))
    return list(seen.values())


def _best(db: sqlite3.Connection, match: str, limit: int) -> list[Row] | None:
    ranks = best_ranks(db, _BEST, (match,), limit)
    if not ranks:
        return []
    ids = db.execute(_IDS, (json.dumps(list(ranks)),)).fetchall()
    if len(ids) != len(ranks):  # rows of the index without a section must not use up the limit
        return None
    candidates = [(row, text(record_id), ranks[row]) for row, record_id in ids]
    return sorted(candidates, key=lambda candidate: (candidate[2], candidate[1]))[:limit]


def _joined(db: sqlite3.Connection, match: str, within: str | None, limit: int) -> list[Row]:
    if within is None:
        return db.execute(_JOINED, (match, limit)).fetchall()
    return db.execute(_FILTERED, (match, within, limit)).fetchall()


def hits_of(db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
    """Return lexical *ranked* as hits, in any order; each snippet is that of the hit's own pass.

    Raises:
        StoreError: `damaged`.
    """
    words = words_of(query.text)
    made = (_hit(db, query, words, one) for one in ranked)
    return [hit for hit in made if hit is not None]


def _hit(db: sqlite3.Connection, query: Query, words: list[str], one: Ranked) -> Hit | None:
    is_loose = one.tier == "any" and len(words) > 1
    row = db.execute(_SHOWN_AND_INDEXED if is_loose else _SHOWN, (one.row,)).fetchone()
    if row is None:
        return None
    path, heading_path, kind, *indexed = row
    if is_loose:
        words = _present(words, " ".join(map(text, indexed)))
    match = match_of(words, one.tier)
    shown = db.execute(_SNIPPET, (match, one.row)).fetchone() if match else None
    if shown is None:
        return None
    return Hit(
        id=one.id,
        doc=text(path),
        heading_path=text(heading_path),
        snippet=" ".join(text(shown[0]).split()),
        score=score_of(one.rank, query),
        kind=text(kind),
        tier=one.tier,
    )


def _present(words: list[str], indexed: str) -> list[str]:
    """Return *words* without those that are surely not in the text, which SQLite would look up in vain."""
    if not indexed.isascii():  # `cafe` finds `café`
        return words
    folded = indexed.lower()
    return [word for word in words if not word.isascii() or word in folded]
