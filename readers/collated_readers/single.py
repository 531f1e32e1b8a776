"""One store's whole answer to a search, as its format's contract defines it (DESIGN §5).

The federation asks tier by tier over many stores; over one store it must give just this.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from .contract import (
    HINT_NO_EMBEDDER,
    HINT_NO_EMBEDDINGS,
    HINT_NO_HITS,
    HINT_NO_WORDS,
    SEARCH_LIMITS,
    Embed,
    Hit,
    OwnRanking,
    Query,
    Ranked,
    Reader,
    clamped,
)
from .places import Places

__all__ = ["Answer", "fused_or_hint", "lexical", "own_list", "search"]


_WIDEST = 400  # hits that are looked at for one place


class Answer(Struct, frozen=True):
    """The hits in the contract's order, the mode that was really used, and a hint."""

    hits: tuple[Hit, ...]
    mode: Literal["lexical", "hybrid"]
    hint: str | None


class _NoEmbedder(Exception):
    """Raised in place of embedding where nobody can embed."""


def search(reader: Reader, db: sqlite3.Connection, query: Query, embed: Embed | None = None) -> Answer:
    """Return the store's answer; hybrid where `query.is_hybrid`, the store and *embed* allow it.

    Raises:
        RequestError: `invalid_params` (path filter).
        StoreError: what went wrong with the store.
    """
    if not reader.tiers(query):
        return Answer((), "lexical", HINT_NO_WORDS)
    ranked: list[Ranked] | None = None
    hint: str | None = None
    if query.is_hybrid:
        ranked, hint = fused_or_hint(reader, db, query, embed)
    if ranked is None:
        query = msgspec.structs.replace(query, is_hybrid=False)
        hits = _lexical_hits(reader, db, query)
    else:
        hits = tuple(reader.hits(db, query, ranked))
    return Answer(hits, "hybrid" if query.is_hybrid else "lexical", hint if hits else HINT_NO_HITS)


def _lexical_hits(reader: Reader, db: sqlite3.Connection, query: Query) -> tuple[Hit, ...]:
    limit = depth = clamped(query.limit, SEARCH_LIMITS)
    while True:
        ranked = _own_or_best(reader, db, query, depth)
        places = Places()
        hits = [hit for hit in reader.hits(db, query, ranked) if places.take("", hit)]
        if len(hits) >= limit or len(ranked) < depth or depth >= _WIDEST:
            return tuple(hits[:limit])
        depth *= 2


def _own_or_best(reader: Reader, db: sqlite3.Connection, query: Query, limit: int) -> list[Ranked]:
    if isinstance(reader, OwnRanking):
        return own_list(reader, db, msgspec.structs.replace(query, limit=limit))
    return _best(reader, db, query, limit)


def own_list(reader: OwnRanking, db: sqlite3.Connection, query: Query) -> list[Ranked]:
    """Return the store's list as its program orders it, with ranks that say so.

    A record that stands behind a worse one gets the next rank after that one's, so that the list keeps its
    order among the lists of other stores.
    """
    ordered: list[Ranked] = []
    for each in reader.own(db, query):
        last = ordered[-1] if ordered else None
        if last is not None and last.tier == each.tier and last.rank >= each.rank:
            each = msgspec.structs.replace(each, rank=math.nextafter(last.rank, math.inf))  # noqa: PLW2901
        ordered.append(each)
    return ordered


def lexical(reader: Reader, db: sqlite3.Connection, query: Query) -> list[Ranked]:
    """Return the store's best records: its tiers in order, earlier ones winning, cut at the limit."""
    return _best(reader, db, query, clamped(query.limit, SEARCH_LIMITS))


def _best(reader: Reader, db: sqlite3.Connection, query: Query, limit: int) -> list[Ranked]:
    query = msgspec.structs.replace(query, limit=limit)
    found: dict[str, Ranked] = {}
    for tier in reader.tiers(query):
        if len(found) >= limit:
            break
        for one in reader.ranked(db, query, tier):
            found.setdefault(one.id, one)
    return list(found.values())[:limit]


def fused_or_hint(
    reader: Reader, db: sqlite3.Connection, query: Query, embed: Embed | None
) -> tuple[list[Ranked] | None, str | None]:
    """Return the store's hybrid list, or None and the hint that says why there is none."""
    try:
        ranked = reader.fused(db, query, embed or _refuse)
    except _NoEmbedder:
        return None, HINT_NO_EMBEDDER
    return ranked, None if ranked is not None else HINT_NO_EMBEDDINGS


def _refuse(model: str, text: str) -> Sequence[float]:
    raise _NoEmbedder
