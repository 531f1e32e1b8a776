"""The store's list: what defines what the query names, then everything else in the program's order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from collated_readers.codebase_index.names import DEFINES, defining
from collated_readers.codebase_index.places import places_at
from collated_readers.codebase_index.words import key_of
from collated_readers.contract import SEARCH_LIMITS, Query, Ranked
from collated_readers.matching.within import filter_argument, path_matcher_of
from collated_readers.values import integer

from .found import Found, Source
from .fusing import fused
from .paths import paths
from .query import Asked, asked_of
from .reranking import first_of_files, reranked
from .scope import scope_of
from .symbols import symbols
from .texts import texts

__all__ = ["own_of", "page_of", "pool_of"]

_PAGES = (10, SEARCH_LIMITS[1])
"""Hits on a page: so many the program shows unless told otherwise, and so many we show at most.

A list is the first page, and then what only the second has: so it does not depend on how much of it is
asked for.
"""

_POOL_OF_QUESTION = 40

_AROUND = """
SELECT (SELECT c.id FROM chunks AS c
WHERE c.file_id = json_extract(at.value, '$[0]') AND c.kind IS NOT 'doc'
AND c.line_start <= json_extract(at.value, '$[1]') AND c.line_end >= json_extract(at.value, '$[1]')
ORDER BY c.line_end - c.line_start, c.line_start, c.id LIMIT 1)
FROM json_each(?) AS at ORDER BY at.key"""


def own_of(db: sqlite3.Connection, query: Query) -> list[Ranked]:
    """Return the store's list in its program's order, at most `query.limit` records.

    A place that is no chunk is shown by the smallest around its first line, once.

    Raises:
        RequestError: `invalid_params` (path filter).
        StoreError: `invalid_rank`, `damaged`.
    """
    pages = _pages(db, query)
    first: Iterable[Ranked] = next(pages)
    defining = _defining(db, query)
    if len(defining) > 1:
        first = list(first)
        places = {one.id: place for place, one in enumerate(first)}
        defining.sort(key=lambda one: (places.get(one.id, len(places)), one.id))
    found: dict[str, Ranked] = {one.id: one for one in defining}
    for one in chain(first, chain.from_iterable(pages)):
        if len(found) >= query.limit:
            break
        found.setdefault(one.id, one)
    return list(found.values())[: query.limit]


def pool_of(asked: Asked, page: int) -> int:
    """Return how many rows each list has for a page of so many hits."""
    return max(2 * page, _POOL_OF_QUESTION if asked.is_question else 0)


def page_of(lists: dict[Source, list[Found]], asked: Asked) -> list[Found]:
    """Return the places of the lists as the program orders them."""
    return first_of_files(reranked(fused(lists, asked.weights), asked))


def _pages(db: sqlite3.Connection, query: Query) -> Iterator[Iterator[Ranked]]:
    """Yield the first page, and then the larger one, if there is more."""
    asked = asked_of(query.text)
    within = filter_argument(query.within)
    for page in _PAGES:
        scope = scope_of(db, within, pool_of(asked, page))
        lists: dict[Source, list[Found]] = {
            "text": texts(db, asked, scope),
            "symbol": symbols(db, asked, scope),
            "path": paths(db, asked, scope),
        }
        # Some are of one record, so a few more than the limit are looked up at once.
        yield _records(db, page_of(lists, asked), query.limit + query.limit // 2 + 1)
        if all(len(each) < scope.depth for each in lists.values()):
            break


def _records(db: sqlite3.Connection, found: Sequence[Found], at_once: int) -> Iterator[Ranked]:
    """Yield the records of *found* in its order, looked up as they are wanted, some at once."""
    for first in range(0, len(found), at_once):
        yield from _looked_up(db, found[first : first + at_once])


def _looked_up(db: sqlite3.Connection, found: Sequence[Found]) -> Iterator[Ranked]:
    around = iter(_around(db, [(one.file, one.line_start) for one in found if one.row is None]))
    rows = [next(around) if one.row is None else one.row for one in found]
    places = places_at(db, {row for row in rows if row is not None})
    for one, row in zip(found, rows, strict=True):
        if row is not None and row in places:
            yield Ranked(places[row].id, "any", -one.score, row)


def _defining(db: sqlite3.Connection, query: Query) -> list[Ranked]:
    """Return what defines what the query names, in any order."""
    accepts = path_matcher_of(query.within)
    rows = {row for row in _around(db, defining(db, key_of(query.text))) if row is not None}
    return [
        Ranked(place.id, "symbol", -float(DEFINES), place.row)
        for place in (places_at(db, rows).values() if rows else ())
        if accepts is None or accepts(place.path)
    ]


def _around(db: sqlite3.Connection, lines: Iterable[tuple[int, int]]) -> list[int | None]:
    """Return the row id of the smallest chunk of a file's own text around each line, None for none."""
    asked = json.dumps(list(lines))
    return [None if row is None else integer(row) for (row,) in db.execute(_AROUND, (asked,))]
