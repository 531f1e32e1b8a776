"""The winners of a search made presentable: one hop for each store that has one, each place shown once."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from collated_readers import Budget, Hit, Query, Ranked, Reader, StoreError
from collated_readers.opening import StoreConnection, StoreMoved
from collated_readers.places import Places

from . import protocol
from .fanout import Fanout
from .searching import Search, Searched

__all__ = ["Showing"]

_WIDEST = 400  # hits that are looked at for equal texts and places

_Made = tuple[Hit, bytes]
"""A hit, and what is the same for equal texts; nothing where that is not asked or not known."""


class Showing:
    """Makes hits of ranked records. None is remembered: whole answers are, and a hit costs little."""

    def __init__(self, fanout: Fanout) -> None:
        """Ask stores through *fanout*."""
        self._fanout = fanout

    async def show(self, search: Search, budget: Budget) -> list[protocol.Hit] | None:
        """Return the best hits; None when a store changed or failed meanwhile, or more have to be ranked."""
        merged = search.merged()
        shown: list[tuple[Searched, _Made]] = []
        count = search.limit
        while True:
            more = await self._materialise(search, merged[len(shown) : count], budget)
            if more is None:
                return None
            shown += more
            hits = _distinct(shown)
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
    ) -> list[tuple[Searched, _Made]] | None:
        """Return *chosen* as hits; None when a store changed or failed meanwhile: then choose anew."""
        winners = [(search.asked(name), ranked) for name, ranked in chosen]
        wanted: dict[Searched, list[Ranked]] = {}
        for each, ranked in winners:
            wanted.setdefault(each, []).append(ranked)
        made: dict[Searched, Iterator[_Made]] = {}

        def question(each: Searched) -> Callable[[StoreConnection], list[_Made]]:
            return partial(_hits, search, each.reader, wanted[each])

        async def take(each: Searched, hits: list[_Made]) -> None:
            made[each] = iter(hits)

        async def job(each: Searched, hop: Budget) -> None:
            try:
                await take(each, await self._fanout.ask_once(each, question(each), hop))
            except StoreMoved:
                await self._fanout.renew(each)
                each.restart()

        left = await self._fanout.look_up(list(wanted), question, take, budget)
        await self._fanout.each(left, job, budget)
        if len(made) < len(wanted):
            return None
        return [(each, next(made[each])) for each, _ in winners]


def _hits(search: Search, reader: Reader, ranked: list[Ranked], db: StoreConnection) -> list[_Made]:
    by_query: dict[Query, list[Ranked]] = {}
    for one in ranked:
        by_query.setdefault(search.shown_by(reader, one.tier), []).append(one)
    made = {hit.id: hit for query, some in by_query.items() for hit in reader.hits(db, query, some)}
    if len(made) != len(ranked):
        raise StoreError("damaged", "the store's index and its records do not agree")
    digests = reader.digests(db, ranked) if search.collapse else [b""] * len(ranked)
    return [(made[one.id], digest) for one, digest in zip(ranked, digests, strict=True)]


def _distinct(shown: Sequence[tuple[Searched, _Made]]) -> list[protocol.Hit]:
    """Return the best hit of each place, and of each text that is known, naming the refs of equal texts."""
    places = Places()
    by_text: dict[object, protocol.Hit] = {}
    for each, (hit, digest) in shown:
        if not places.take(each.store.name, hit):
            continue
        text = digest or (each.store.name, hit.id)  # a format may not tell
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
