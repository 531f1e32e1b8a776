"""`vectors.search`: records whose vectors are nearest to one that is given, over all stores (DESIGN §5)."""

import hashlib
import math
from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from collated_readers import Budget, Reader, RequestError, StoreError
from collated_readers.contract import clamped
from collated_readers.opening import StoreConnection
from collated_readers.vectors import SIMILAR_LIMITS, Similar, VectorFacts, VectorReader

from . import protocol
from .cache import Cache
from .errors import RequestFailed
from .fanout import Fanout
from .gathering import Gathering
from .merge_code import Near, Room, are_alike, merge_near
from .protocol import VectorsSearchParams, VectorsSearchResult
from .selection import Selection

__all__ = ["Refusal", "Similarity", "mismatch"]

# What may be wrong with a vector for one store and right for another.
_OF_ONE_STORE = frozenset({"invalid_query_vector", "query_model_mismatch"})
_TEXT_CHARACTERS = 1_000
_SUGGESTION = "embed the query with the model of the stores that are asked, or name other stores"


class Refusal(Struct, frozen=True):
    """Why a store's vectors cannot be compared with the one that was given."""

    code: str
    message: str


class _Query(Struct, frozen=True):
    """The vector, as float64, and what else each store is asked."""

    vector: bytes
    model: str | None
    limit: int


class _Answer(Struct, frozen=True):
    """What one store says: its nearest, or why it has none to say."""

    near: Near | None = None
    refusal: Refusal | None = None


class Similarity:
    """Answers `vectors.search` over the stores that a request addresses."""

    def __init__(self, fanout: Fanout, cache: Cache) -> None:
        """Ask through *fanout*; keep each store's part of an answer in *cache*."""
        self._fanout = fanout
        self._gathering = Gathering(fanout, cache)

    async def search(self, params: VectorsSearchParams, budget: Budget) -> VectorsSearchResult:
        """Return the nearest records of all stores whose vectors are of the query's kind.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params`; `invalid_query_vector` and
                `query_model_mismatch` where every store says so; `deadline_exceeded` when none answered.
        """
        limit = clamped(params.limit, SIMILAR_LIMITS)
        query = _Query(_checked(params.vector), params.model, limit)
        selection = self._fanout.choosing.select("vectors.search", params.stores, params.formats)
        key = (hashlib.sha256(query.vector).digest(), params.model, limit)
        ask = partial(_similar, query)
        answers = await self._gathering.gather("vectors.search", selection, key, ask, budget)
        _note_refusals(selection, answers)
        selection.raise_fault()
        near = {store: each.near for store, each in answers.items() if each.near is not None}
        outcome = selection.outcome()
        room = Room()
        return VectorsSearchResult(
            hits=room.take(_hit(store, near[store].facts, hit) for store, hit in merge_near(near, limit)),
            order="score" if are_alike(near.values()) else "rank",
            truncated=room.is_cut,
            complete=not outcome.failed,
            stores=outcome,
        )


def _checked(numbers: Sequence[float]) -> bytes:
    """Return a query's vector as float64.

    Raises:
        RequestFailed: `invalid_query_vector` for what is wrong whatever store is asked.
    """
    if not any(numbers):
        raise RequestFailed("invalid_query_vector", "the vector has no number that is not zero")
    if not all(map(math.isfinite, numbers)):
        raise RequestFailed("invalid_query_vector", "a number of the vector is not finite")
    return array("d", numbers).tobytes()


def mismatch(facts: VectorFacts, dimensions: int, model: str | None) -> Refusal | None:
    """Return why a vector of *model* (None: of any) cannot be compared with those of *facts*. Pure."""
    if model is not None and model.casefold() != facts.model.casefold():
        message = f"the query's vector is of model {model}, the store's are of {facts.model}"
        return Refusal("query_model_mismatch", message)
    if dimensions != facts.dimensions:
        message = f"the query's vector has {dimensions} numbers, the store's have {facts.dimensions}"
        return Refusal("invalid_query_vector", f"{message} (model {facts.model})")
    return None


def _similar(query: _Query, reader: Reader, db: StoreConnection, budget: Budget) -> _Answer:
    vectors = cast("VectorReader", reader)  # who has the capability has its methods
    numbers = array("d", query.vector)
    facts = vectors.vectors(db)
    if refusal := mismatch(facts, len(numbers), query.model):
        return _Answer(refusal=refusal)
    try:
        hits = vectors.similar(db, numbers, query.limit, budget)
    except RequestError as error:
        if error.code not in _OF_ONE_STORE:
            raise
        return _Answer(refusal=Refusal(error.code, error.message))
    if not all(math.isfinite(hit.score) for hit in hits):
        raise StoreError("invalid_rank", "the store gave a score that is not a finite number")
    shown = (replace(hit, text=hit.text[:_TEXT_CHARACTERS]) for hit in hits)
    return _Answer(Near(facts, tuple(shown)))


def _note_refusals(selection: Selection, answers: Mapping[str, _Answer]) -> None:
    """Count stores whose vectors are of another kind as failed.

    Raises:
        RequestFailed: all stores are, so that the request is wrong.
    """
    for each in selection.asked:
        answer = answers.get(each.store.name)
        if answer and answer.refusal:
            each.fail(answer.refusal.code, answer.refusal.message)
    failed = selection.outcome().failed
    if failed and not selection.outcome().answered and all(each.code in _OF_ONE_STORE for each in failed):
        first = failed[0]
        more = f", and {len(failed) - 1} more stores say so" if len(failed) > 1 else ""
        raise RequestFailed(first.code, f"{first.store}: {first.message}{more}", _SUGGESTION)


def _hit(store: str, facts: VectorFacts, hit: Similar) -> protocol.Similar:
    return protocol.Similar(
        store=store,
        id=hit.id,
        ref=f"{store}:{hit.id}",
        doc=hit.doc,
        heading_path=hit.heading_path,
        kind=hit.kind,
        text=hit.text,
        score=hit.score,
        metric=facts.metric,
        direction=facts.direction,
        model=facts.model,
    )
