"""Hybrid search: the lexical list and the nearest vectors, fused (formats/contextpull.md §11)."""

from __future__ import annotations

import heapq
import json
import math
import sqlite3
from array import array
from collections.abc import Sequence
from contextlib import closing

from collated_readers.contract import Embed, Hit, Query, Ranked, RequestError, StoreError
from collated_readers.fusing import dense_depth, reciprocal
from collated_readers.matching.within import filter_argument
from collated_readers.passes.filters import IN_FILTER
from collated_readers.shown import beginning_of, score_of
from collated_readers.values import text

__all__ = ["dense_hits_of", "fused_of", "model_of"]

_UNIT_TOLERANCE = 1e-6  # float32 rounding of a unit vector stays far below

_MODEL = "SELECT model FROM embeddings LIMIT 1"
_VECTORS = "SELECT e.section_id, e.vec FROM embeddings AS e JOIN sections AS s ON s.id = e.section_id"
_ALLOWED = """
SELECT s.id FROM sections AS s JOIN documents AS d ON d.doc_id = s.doc_id
WHERE s.id IN (SELECT value FROM json_each(?)) AND """
_SHOWN = """
SELECT s.id, d.path, s.heading_path, s.kind, s.text
FROM sections AS s JOIN documents AS d ON d.doc_id = s.doc_id
WHERE s.id IN (SELECT value FROM json_each(?))"""


def model_of(db: sqlite3.Connection) -> str | None:
    """Return the model whose vectors the store holds, None without any; the table itself may be missing."""
    exists = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'embeddings' AND type = 'table'").fetchone()
    row = db.execute(_MODEL).fetchone() if exists else None
    return None if row is None else text(row[0])


def fused_of(
    db: sqlite3.Connection, query: Query, lexical: Sequence[Ranked], embed: Embed
) -> list[Ranked] | None:
    """Return *lexical* and the dense list fused, best first; None when there are no embeddings.

    What `query.within` shuts out of the dense list keeps its position there.
    """
    model = model_of(db)
    if model is None:
        return None
    dense = _nearest(db, embed(model, query.text), dense_depth(query.limit))
    return reciprocal(lexical, dense, _allowed(db, query, dense), query.limit)


def _nearest(db: sqlite3.Connection, wanted: Sequence[float], depth: int) -> list[str]:
    with closing(db.execute(_VECTORS)) as rows:
        scored = ((-_similarity(wanted, vector), text(record_id)) for record_id, vector in rows)
        return [record_id for _, record_id in heapq.nsmallest(depth, scored)]


def _similarity(wanted: Sequence[float], blob: object) -> float:
    # Cosine but for the length of *wanted*, which is the same for every row. A stored vector is
    # of unit length but for rounding; dividing by it would only stir up ties.
    if not isinstance(blob, bytes) or len(blob) % 4:
        raise StoreError("damaged", "the store holds something that is not a vector of 32-bit floats")
    vector = array("f", blob)
    if len(vector) != len(wanted):
        message = f"its vectors have {len(vector)} numbers, the query's has {len(wanted)}"
        raise RequestError("query_model_mismatch", message)
    try:
        dot = math.fsum(x * y for x, y in zip(wanted, vector, strict=False))
        length = math.sqrt(math.fsum(x * x for x in vector)) or 1.0
    except (ValueError, OverflowError) as error:  # fsum of infinities
        raise StoreError("invalid_rank", "the store holds a vector that is not finite") from error
    similarity = dot if abs(length - 1.0) <= _UNIT_TOLERANCE else dot / length
    if not math.isfinite(similarity):
        raise StoreError("invalid_rank", "the store holds a vector that is not finite")
    return similarity


def _allowed(db: sqlite3.Connection, query: Query, dense: list[str]) -> set[str]:
    within = filter_argument(query.within)
    if within is None:
        return set(dense)
    return {text(row[0]) for row in db.execute(_ALLOWED + IN_FILTER, (json.dumps(dense), within))}


def dense_hits_of(db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
    """Return *ranked* that only the vectors found as hits, in any order."""
    by_id = {one.id: one for one in ranked}
    if not by_id:
        return []
    hits: list[Hit] = []
    for record_id, path, heading_path, kind, body in db.execute(_SHOWN, (json.dumps(list(by_id)),)):
        one = by_id[text(record_id)]
        hits.append(
            Hit(
                id=one.id,
                doc=text(path),
                heading_path=text(heading_path),
                snippet=beginning_of(text(body)),
                score=score_of(one.rank, query),
                kind=text(kind),
                tier="dense",
            )
        )
    return hits
