"""The lexical passes: candidates by rank, and what a hit shows of them.

`fts_chunks` can only be asked for MATCH, rowid and bm25 (formats/codebase-index.md T1), so snippets are
cut here, and candidates are sorted by (rank, id) here: ids are made of several columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from msgspec import Struct

from collated_readers.contract import Hit, Query, Ranked, Tier
from collated_readers.fts.best import best_ranks
from collated_readers.matching.within import filter_argument, path_matcher_of
from collated_readers.secrets import redacted
from collated_readers.shown import beginning_of, digest_of, score_of
from collated_readers.values import integer, optional_text, text

from .bodies import beginning
from .names import line_in, named
from .places import IN_FILTER, Place, places_at
from .snippets import Shown, shown_name, shown_words, snippet_of
from .words import key_of, match_of, phrases_of, tiers_of, words_of

__all__ = ["digests_of", "hits_of", "ranked_of"]

_BEST = """
SELECT rowid, bm25(fts_chunks) AS best FROM fts_chunks WHERE fts_chunks MATCH ? ORDER BY best LIMIT ?"""
_JOINED = """
SELECT x.rowid, bm25(fts_chunks) AS best FROM fts_chunks AS x
JOIN chunks AS c ON c.id = x.rowid JOIN files AS f ON f.id = c.file_id
WHERE fts_chunks MATCH ? AND {} ORDER BY best LIMIT ?"""
_SHOWN = """
SELECT c.content, c.file_id, coalesce(s.qualified, s.name) FROM chunks AS c
LEFT JOIN symbols AS s ON s.id = c.symbol_id AND s.file_id = c.file_id WHERE c.id = ?"""
_TEXT = "SELECT content FROM chunks WHERE id = ?"


def ranked_of(db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
    """Return one pass's best records, in (rank, id) order; none for a pass not to be run.

    Raises:
        RequestError: `invalid_params` (path filter).
        StoreError: `invalid_rank`, `damaged`.
    """
    words = words_of(query.text)
    if tier not in tiers_of(words):
        return []
    if tier == "symbol":
        return _named(db, query)
    match = match_of(words, tier)
    ranks = _best(db, match, filter_argument(query.within), query.limit)
    return _sorted(places_at(db, ranks), ranks, tier)[: query.limit]


def _named(db: sqlite3.Connection, query: Query) -> list[Ranked]:
    """Return what defines or uses what the query names; a rank is minus a weight."""
    accepts = path_matcher_of(query.within)
    weights = named(db, key_of(query.text))
    places = {
        row: place for row, place in places_at(db, weights).items() if accepts is None or accepts(place.path)
    }
    return _sorted(places, {row: -weight for row, weight in weights.items()}, "symbol")[: query.limit]


def _sorted(places: Mapping[int, Place], ranks: Mapping[int, float], tier: Tier) -> list[Ranked]:
    found = [Ranked(place.id, tier, float(ranks[row]), row) for row, place in places.items()]
    return sorted(found, key=lambda one: (one.rank, one.id))


def _best(db: sqlite3.Connection, match: str, within: str | None, limit: int) -> dict[int, float]:
    """Return the ranks of the best chunks by row id, with all that tie with the last of *limit*."""
    rows = best_ranks(db, _BEST, (match,), limit) if within is None else None
    if rows is None or len(places_at(db, rows)) != len(rows):  # rows of no chunk must not use up the limit
        arguments = (match,) if within is None else (match, within)
        rows = best_ranks(db, _JOINED.format("1" if within is None else IN_FILTER), arguments, limit)
    return rows


# --------------------------------------------------------------------------- hits


class _Showing(Struct, frozen=True):
    """What the hits of *query* show: its words, or a name; of what only vectors found, the beginning."""

    query: Query
    words: Shown
    phrase: Shown
    name: Shown
    key: str


def hits_of(db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
    """Return *ranked* as hits, in their order; a record that is gone is left out.

    Raises:
        StoreError: `damaged`.
    """
    key = key_of(query.text)
    phrases = phrases_of(words_of(query.text))
    phrase = tuple(term for phrase in phrases for term in phrase)
    showing = _Showing(query, shown_words(phrases), shown_words([phrase]), shown_name(key), key)
    places = places_at(db, {one.row for one in ranked})
    made = (_hit(db, showing, one, places[one.row]) for one in ranked if one.row in places)
    return [hit for hit in made if hit is not None]


def _hit(db: sqlite3.Connection, showing: _Showing, one: Ranked, place: Place) -> Hit | None:
    row = db.execute(_SHOWN, (one.row,)).fetchone()
    if row is None or place.id != one.id:
        return None
    body = beginning(row[0])
    return Hit(
        id=one.id,
        doc=place.path,
        heading_path=redacted(optional_text(row[2]) or ""),
        snippet=_snippet(db, showing, one, (place, integer(row[1]), body)) or place.path,
        score=score_of(one.rank, showing.query),
        kind=place.kind,
        tier=one.tier,
        line_start=place.line_start,
        line_end=place.line_end,
    )


def _snippet(db: sqlite3.Connection, showing: _Showing, one: Ranked, chunk: tuple[Place, int, str]) -> str:
    place, file, body = chunk
    if one.tier == "dense":
        return beginning_of(body)
    if one.tier != "symbol":
        return snippet_of(body, showing.phrase if one.tier == "phrase" else showing.words)
    line = line_in(db, showing.key, file, (place.line_start, place.line_end))
    return snippet_of(body, showing.name, (line or place.line_start) - place.line_start)


def digests_of(db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
    """Return 16 bytes for each of *ranked*, the same for the same text; none for a record that is gone.

    Raises:
        StoreError: `damaged`.
    """
    rows = (db.execute(_TEXT, (one.row,)).fetchone() for one in ranked)
    return [digest_of(text(row[0])) if row else b"" for row in rows]
