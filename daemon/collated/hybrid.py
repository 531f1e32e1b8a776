"""`mode = "hybrid"`: stores are asked for words and by vectors, and all lists fused (DESIGN §5)."""

from functools import partial

from collated_readers import Budget, Query, Ranked, Reader, RequestError, StoreError
from collated_readers.opening import StoreConnection, StoreMoved

from .embedding import Embedders, Vectors
from .fanout import Fanout
from .searching import Search, Searched

__all__ = ["Hybrid"]


class Hybrid:
    """Asks the stores whose model the configuration knows; all others answer by words alone."""

    def __init__(self, fanout: Fanout, embedders: Embedders) -> None:
        """Ask through *fanout*, with vectors of *embedders*."""
        self._fanout = fanout
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

        async def job(each: Searched, hop: Budget) -> None:
            try:
                ranked = await self._asked(each, vectors, hop)
            except (StoreError, RequestError) as error:
                if error.code != "query_model_mismatch":
                    raise
                search.join(each, f"{each.store.name}: {error.message}")
                return
            if ranked is None:
                search.join(each, f"{each.store.name} has no vectors any more")
            else:
                each.take(ranked)

        asked = [search.asked(name) for name in sorted(search.apart)]
        await self._fanout.each([each for each in asked if each.is_answering], job, budget)

    async def _asked(self, each: Searched, vectors: Vectors, hop: Budget) -> list[Ranked] | None:
        while True:
            try:
                return await self._fanout.ask_once(
                    each, partial(_fused, each.reader, each.query, vectors), hop
                )
            except StoreMoved:
                await self._fanout.renew(each)
                each.restart()


def _fused(reader: Reader, query: Query, vectors: Vectors, db: StoreConnection) -> list[Ranked] | None:
    return reader.fused(db, query, vectors.embed)
