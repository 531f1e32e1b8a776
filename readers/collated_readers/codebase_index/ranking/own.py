"""The store's list: what defines what the query names, then everything else in the program's order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from collated_readers.codebase_index.names import DEFINES
from collated_readers.codebase_index.words import key_of
from collated_readers.contract import SEARCH_LIMITS, Query, Ranked
from collated_readers.matching.within import filter_argument, path_matcher_of

from .found import Found, Source
from .fusing import fused
from .layout import files_of
from .paths import paths
from .query import Asked, asked_of
from .reranking import first_of_files, reranked
from .scope import scope_of
from .symbols import defining, symbols
from .texts import texts

__all__ = ["own_of", "page_of", "pool_of"]

_PAGES = (10, SEARCH_LIMITS[1])
"""Hits on a page: so many the program shows unless told otherwise, and so many we show at most.

A list is the first page, and then what only the second has: so it does not depend on how much of it is
asked for.
"""

_POOL_OF_QUESTION = 40


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
    files = files_of(db, {one.file for one in found})
    for one in found:
        file = files[one.file]
        row = file.around(one.line_start) if one.row is None else one.row
        if row is not None:
            yield Ranked(file.id_of(row), "any", -one.score, row)


def _defining(db: sqlite3.Connection, query: Query) -> list[Ranked]:
    """Return what defines what the query names, in any order."""
    accepts = path_matcher_of(query.within)
    lines = defining(db, key_of(query.text))
    files = files_of(db, {file for file, _ in lines})
    found: dict[int, Ranked] = {}
    for number, line in lines:
        file = files.get(number)
        row = None if file is None else file.around(line)
        if file is not None and row is not None and (accepts is None or accepts(file.path)):
            found[row] = Ranked(file.id_of(row), "symbol", -float(DEFINES), row)
    return list(found.values())
