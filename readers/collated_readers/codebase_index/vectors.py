"""Hybrid search: the lexical list and the nearest vectors, fused as in other formats.

The program keeps a chunk's vector in the virtual table `vec_chunks`, which needs an extension and is never
touched. Its shadow tables are ordinary ones and hold the same; so does, by a hash of the text, `vec_cache`
(formats/codebase-index.md T6). `vec_meta.dim` is not looked at: the program writes 0 where it had nothing new
to embed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Literal

from msgspec.structs import replace

from collated_readers.contract import SEARCH_LIMITS, Embed, Query, Ranked, clamped
from collated_readers.declared import is_ordinary, lacking
from collated_readers.fusing import dense_depth, reciprocal
from collated_readers.matching.within import path_matcher_of

from .places import Place, places_at

__all__ = ["fused_of", "model_of"]

_MODEL = """
SELECT CAST(model AS BLOB) FROM vec_meta
WHERE typeof(model) = 'text' AND length(model) BETWEEN 1 AND 200 LIMIT 1"""
_VALIDITY = "SELECT validity FROM vec_chunks_chunks WHERE typeof(validity) = 'blob'"
_IN_CACHE = "SELECT 1 FROM vec_cache WHERE model = ? LIMIT 1"

_META = {"vec_meta": ("model",)}
_SHADOWS = {
    "vec_chunks_chunks": ("chunk_id", "size", "validity", "rowids"),
    "vec_chunks_vector_chunks00": ("rowid", "vectors"),
}
_CACHE = {"vec_cache": ("model", "content_sha", "embedding")}

_Source = Literal["shadows", "cache"]


def model_of(db: sqlite3.Connection) -> str | None:
    """Return the model whose vectors the store holds, None where none can be read."""
    model = _declared_model(db)
    return None if model is None or _source(db, model) is None else model


def _declared_model(db: sqlite3.Connection) -> str | None:
    row = db.execute(_MODEL).fetchone() if _has(db, _META) else None
    try:
        return None if row is None else bytes(row[0]).decode()
    except UnicodeDecodeError:  # nobody can embed with it
        return None


def _source(db: sqlite3.Connection, model: str) -> _Source | None:
    if _has(db, _SHADOWS) and any(validity.strip(b"\0") for (validity,) in db.execute(_VALIDITY)):
        return "shadows"
    return "cache" if _has(db, _CACHE) and db.execute(_IN_CACHE, (model,)).fetchone() else None


def _has(db: sqlite3.Connection, tables: Mapping[str, Sequence[str]]) -> bool:
    return all(is_ordinary(db, name) and not lacking(db, name, tables[name]) for name in tables)


def fused_of(
    db: sqlite3.Connection, query: Query, lexical: Sequence[Ranked], embed: Embed
) -> list[Ranked] | None:
    """Return *lexical* and the dense list fused, best first; None when there are no vectors to be read.

    What `query.within` shuts out of the dense list keeps its position there. Of records whose lines overlap
    the best alone is taken.

    Raises:
        RequestError: `query_model_mismatch`, `invalid_query_vector`, `invalid_params` (path filter).
        StoreError: `invalid_vector`, `damaged`, `deadline_exceeded`.
    """
    model = _declared_model(db)
    source = None if model is None else _source(db, model)
    if model is None or source is None:
        return None
    vector = embed(model, query.text)
    from .nearest import nearest  # numpy
    from .stored import cached, shadowed

    with closing(shadowed(db) if source == "shadows" else cached(db, model)) as batches:
        dense = nearest(db, batches, vector, dense_depth(query.limit))
    accepts = path_matcher_of(query.within)
    allowed = {place.id: place for place in dense if accepts is None or accepts(place.path)}
    ids = [place.id for place in dense]
    fused = reciprocal(lexical, ids, allowed.keys(), SEARCH_LIMITS[1])
    located = [replace(one, row=allowed[one.id].row) if one.tier == "dense" else one for one in fused]
    return _apart(db, located)[: clamped(query.limit, SEARCH_LIMITS)]


def _apart(db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[Ranked]:
    places = places_at(db, {one.row for one in ranked})
    taken: dict[str, list[Place]] = {}
    kept: list[Ranked] = []
    for one in ranked:
        place = places[one.row]
        others = taken.setdefault(place.path, [])
        if not any(_overlap(place, other) for other in others):
            others.append(place)
            kept.append(one)
    return kept


def _overlap(one: Place, other: Place) -> bool:
    return one.line_start <= other.line_end and other.line_start <= one.line_end
