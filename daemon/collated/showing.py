"""The winners of a search made presentable: one hop for each store that has one, equal texts shown once."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from collated_readers import Budget, Hit, Query, Ranked, Reader, StoreError
from collated_readers.opening import StoreConnection, StoreMoved

from . import protocol
from .cache import Cache
from .fanout import Fanout
from .searching import Search, Searched

__all__ = ["Showing"]

_WIDEST = 400  # hits that are looked at for equal texts
_HIT_BYTES = 500  # what a hit costs in memory beside its strings, for the cache's account


class _Winners(Struct):
    """What is to be made presentable: the store of each, and the hits that are made."""

    stores: dict[str, Searched]
    wanted: dict[str, list[Ranked]]
    made: dict[tuple[str, str], Hit]
    is_settled: bool = True


class Showing:
    """Makes hits of ranked records."""

    def __init__(self, fanout: Fanout, cache: Cache) -> None:
        """Ask stores through *fanout*, and keep hits in *cache*."""
        self._fanout = fanout
        self._cache = cache

    async def show(self, search: Search, budget: Budget) -> list[protocol.Hit] | None:
        """Return the best hits; None when a store changed or failed meanwhile, or more have to be ranked."""
        merged = search.merged()
        if not search.collapse:
            shown = await self._materialise(search, merged, budget)
            return None if shown is None else [_hit(each, hit) for each, hit in shown]
        count = search.limit
        while True:
            shown = await self._materialise(search, merged[:count], budget)
            if shown is None:
                return None
            hits = _collapsed(shown)
            missing = search.limit - len(hits)
            is_whole = len(merged) < search.query.limit or len(merged) >= _WIDEST
            if missing <= 0 or (count >= len(merged) and is_whole):
                return hits
            if count >= len(merged):
                search.widen()
                return None
            count += missing

    async def _materialise(
        self, search: Search, chosen: Sequence[tuple[str, Ranked]], budget: Budget
    ) -> list[tuple[Searched, Hit]] | None:
        """Return *chosen* as hits; None when a store changed or failed meanwhile: then choose anew."""
        winners = self._recalled(search, chosen)

        def question(each: Searched) -> Callable[[StoreConnection], list[Hit]]:
            return partial(_hits, search, each.reader, winners.wanted[each.store.name])

        async def take(each: Searched, hits: list[Hit]) -> None:
            for one, hit in zip(winners.wanted[each.store.name], hits, strict=True):
                winners.made[each.store.name, one.id] = hit
                size = _HIT_BYTES + len(hit.snippet) + len(hit.heading_path)
                self._cache.put(_key(search, each, one), hit, size)

        async def job(each: Searched, hop: Budget) -> None:
            try:
                await take(each, await self._fanout.ask_once(each, question(each), hop))
            except StoreMoved:
                winners.is_settled = False
                await self._fanout.renew(each)
                each.restart()

        asked = [winners.stores[name] for name in winners.wanted]
        left = await self._fanout.quick(asked, question, take, budget, is_lookup=True)
        await self._fanout.each(left, job, budget)
        if not (winners.is_settled and all(each.is_answering for each in asked)):
            return None
        return [(winners.stores[store], winners.made[store, ranked.id]) for store, ranked in chosen]

    def _recalled(self, search: Search, chosen: Sequence[tuple[str, Ranked]]) -> _Winners:
        """Return the winners with what is remembered of them."""
        winners = _Winners({}, {}, {})
        for name, ranked in chosen:
            each = winners.stores.get(name)
            if each is None:
                each = winners.stores[name] = search.asked(name)
            hit = self._cache.get(_key(search, each, ranked))
            if hit is None:
                winners.wanted.setdefault(name, []).append(ranked)
            else:
                winners.made[name, ranked.id] = hit
        return winners


def _key(search: Search, each: Searched, ranked: Ranked) -> tuple[object, ...]:
    return (each.store.fingerprint, search.shown_by(each.reader, ranked.tier), ranked)


def _hits(search: Search, reader: Reader, ranked: list[Ranked], db: StoreConnection) -> list[Hit]:
    by_query: dict[Query, list[Ranked]] = {}
    for one in ranked:
        by_query.setdefault(search.shown_by(reader, one.tier), []).append(one)
    made = {hit.id: hit for query, some in by_query.items() for hit in reader.hits(db, query, some)}
    if len(made) != len(ranked):
        raise StoreError("damaged", "the store's index and its records do not agree")
    return [made[one.id] for one in ranked]


def _collapsed(shown: Sequence[tuple[Searched, Hit]]) -> list[protocol.Hit]:
    """Return the best hit of each text, naming the refs of the others."""
    by_text: dict[object, protocol.Hit] = {}
    for each, hit in shown:
        text = hit.digest or (each.store.name, hit.id)  # a format may not tell
        first = by_text.get(text)
        if first is None:
            by_text[text] = _hit(each, hit)
        else:
            first.also = [*(first.also or []), f"{each.store.name}:{hit.id}"]
    return list(by_text.values())


def _hit(each: Searched, hit: Hit) -> protocol.Hit:
    store = each.store
    return protocol.Hit(
        store=store.name,
        id=hit.id,
        ref=f"{store.name}:{hit.id}",
        format=store.format or "",
        doc=hit.doc,
        heading_path=hit.heading_path,
        snippet=hit.snippet,
        score=hit.score,
        kind=hit.kind,
        tier=hit.tier,
        line_start=hit.line_start,
        line_end=hit.line_end,
    )
