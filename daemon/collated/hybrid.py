"""`mode = "hybrid"`: stores are asked for words and by vectors, and all lists fused (DESIGN §5)."""

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from functools import partial

from collated_readers import Budget, Query, Ranked, Reader, RequestError, StoreError
from collated_readers.opening import StoreConnection, StoreMoved

from .cache import Cache
from .embedding import Embedders, Vectors
from .fanout import Fanout
from .searching import Search, Searched, size_of

__all__ = ["Hybrid"]

_Marks = Mapping[str, bytes]
"""What tells the query's vector from others, by model."""


class Hybrid:
    """Asks the stores whose model the configuration knows; all others answer by words alone."""

    def __init__(self, fanout: Fanout, embedders: Embedders, cache: Cache) -> None:
        """Ask through *fanout*, with vectors of *embedders*; keep lists in *cache*."""
        self._fanout = fanout
        self._cache = cache
        self._embedders = embedders

    async def begin(self, search: Search, budget: Budget) -> None:
        """Get the query's vectors, and set the stores apart that can be asked with them."""
        chosen = search.selection.chosen
        stores = [store for store in chosen.stores if store.model]
        models = {store.model for store in stores if store.model}
        if not any(reader.tiers(search.query) for reader, _, _ in chosen.formats) or not models:
            return
        vectors = await self._embedders.vectors(models, search.query.text, budget)
        search.notes += sorted({failed.message for failed in vectors.failed.values()})
        names = frozenset(store.name for store in stores if store.model in vectors.found)
        if names:
            search.set_apart(names, vectors)

    async def rank(self, search: Search, budget: Budget) -> None:
        """Give *search* the fused lists of the stores apart; one whose vectors do not fit leaves them."""
        vectors = search.vectors
        if vectors is None:
            return
        marks = {model: _mark(vector) for model, vector in vectors.found.items()}

        async def job(each: Searched, hop: Budget) -> None:
            note = await self._ask(each, vectors, marks, hop)
            if note is not None:
                search.join(each, note)

        asked = [search.asked(name) for name in sorted(search.apart)]
        todo = [each for each in asked if not self._recall(each, marks) and each.is_answering]
        await self._fanout.each(todo, job, budget)

    def _recall(self, each: Searched, marks: _Marks) -> bool:
        ranked = self._cache.get(_key(each, marks))
        if ranked is None:
            return False
        each.take(ranked)
        return True

    async def _ask(self, each: Searched, vectors: Vectors, marks: _Marks, hop: Budget) -> str | None:
        """Have *each* take its list, or return why its vectors cannot be asked."""
        try:
            ranked = await self._asked(each, vectors, hop)
        except (StoreError, RequestError) as error:
            if error.code != "query_model_mismatch":
                raise
            return f"{each.store.name}: {error.message}"
        if ranked is None:
            return f"{each.store.name} has no vectors any more"
        each.take(ranked)
        self._cache.put(_key(each, marks), ranked, size_of(ranked))
        return None

    async def _asked(self, each: Searched, vectors: Vectors, hop: Budget) -> list[Ranked] | None:
        while True:
            try:
                return await self._fanout.ask_once(
                    each, partial(_fused, each.reader, each.query, vectors), hop
                )
            except StoreMoved:
                await self._fanout.renew(each)
                each.restart()


def _key(each: Searched, marks: _Marks) -> tuple[object, ...]:
    # One model gives several vectors: what embeds it, and how, is the configuration's.
    return each.key("fused", marks.get(each.store.model or ""))


def _mark(vector: Sequence[float]) -> bytes:
    return hashlib.blake2b(array("d", vector), digest_size=16).digest()


def _fused(reader: Reader, query: Query, vectors: Vectors, db: StoreConnection) -> list[Ranked] | None:
    return reader.fused(db, query, vectors.embed)
