"""The store's list: what defines what the query names, then everything else in the program's order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from collated_readers.codebase_index.names import DEFINES, named
from collated_readers.codebase_index.places import places_at
from collated_readers.codebase_index.words import key_of
from collated_readers.contract import Query, Ranked
from collated_readers.within import filter_argument, path_matcher_of

from .found import Found, Source
from .fusing import fused
from .lists import paths, symbols, texts
from .query import Asked, asked_of
from .reranking import first_of_files, reranked

__all__ = ["own_of", "program_order"]

_FIRST_PAGE = 10
_DEEPEST = 50
_POOL_OF_QUESTION = 40

_AROUND = """
SELECT at.key, (SELECT c.id FROM chunks AS c
WHERE c.file_id = json_extract(at.value, '$[0]') AND c.kind IS NOT 'doc'
AND c.line_start <= json_extract(at.value, '$[1]') AND c.line_end >= json_extract(at.value, '$[1]')
ORDER BY c.line_end - c.line_start, c.line_start, c.id LIMIT 1)
FROM json_each(?) AS at"""


def own_of(db: sqlite3.Connection, query: Query) -> list[Ranked]:
    """Return the store's list in its program's order, at most `query.limit` records.

    The list is that of the program's first page; what it does not have of fifty hits follows.

    Raises:
        RequestError: `invalid_params` (path filter).
        StoreError: `invalid_rank`, `damaged`.
    """
    asked = asked_of(query.text)
    within = filter_argument(query.within)
    ranked = _defining(db, query)
    for depth in (_FIRST_PAGE, _DEEPEST):
        if len(ranked) < query.limit:
            known = {one.id for one in ranked}
            ranked += [
                one for one in _records(db, program_order(db, asked, within, depth)) if one.id not in known
            ]
    return ranked[: query.limit]


def program_order(db: sqlite3.Connection, asked: Asked, within: str | None, depth: int) -> list[Found]:
    """Return the places that the program would find for a page of *depth* hits, in its order."""
    pool = max(2 * depth, _POOL_OF_QUESTION if asked.is_question else 0)
    lists: dict[Source, list[Found]] = {
        "text": texts(db, asked, within, pool),
        "symbol": symbols(db, asked, within, pool),
        "path": paths(db, asked, within, pool),
    }
    return first_of_files(reranked(fused(lists, asked.weights), asked))


def _defining(db: sqlite3.Connection, query: Query) -> list[Ranked]:
    accepts = path_matcher_of(query.within)
    rows = [row for row, weight in named(db, key_of(query.text)).items() if weight == DEFINES]
    places = places_at(db, rows).values()
    found = [
        Ranked(place.id, "symbol", -float(DEFINES), place.row)
        for place in places
        if accepts is None or accepts(place.path)
    ]
    return sorted(found, key=lambda one: one.id)


def _records(db: sqlite3.Connection, found: Sequence[Found]) -> list[Ranked]:
    asked = json.dumps([[one.file, one.line_start] for one in found if one.row is None])
    around = iter([row for _, row in db.execute(_AROUND, (asked,))])
    rows = [one.row if one.row is not None else next(around) for one in found]
    places = places_at(db, {row for row in rows if row is not None})
    ranked: dict[str, Ranked] = {}
    for one, row in zip(found, rows, strict=True):
        if row is not None and row in places:
            ranked.setdefault(places[row].id, Ranked(places[row].id, "any", -one.score, row))
    return list(ranked.values())
