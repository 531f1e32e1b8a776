"""Stores whose whole list their reader makes, as their own program orders it (`OwnRanking`, DESIGN §5)."""

from collections.abc import Callable
from functools import partial
from typing import cast

from collated_readers import Budget, OwnRanking, Query, Ranked, Reader
from collated_readers.opening import StoreConnection
from collated_readers.single import own_list

from .cache import Cache
from .fanout import Fanout, partition
from .searching import Search, Searched, size_of

__all__ = ["Own"]


class Own:
    """Asks them where stores keep their own order; for summed statistics they are as all others."""

    def __init__(self, fanout: Fanout, cache: Cache) -> None:
        """Ask through *fanout*; keep lists in *cache*."""
        self._fanout = fanout
        self._cache = cache

    def begin(self, search: Search) -> None:
        """Set those stores apart: no index of words knows what their readers find."""
        chosen = search.selection.chosen
        has_words = bool(chosen.own) and any(reader.tiers(search.query) for reader, _, _ in chosen.formats)
        search.own = chosen.own - search.apart if has_words and search.order == "contract" else frozenset()

    async def rank(self, search: Search, budget: Budget) -> None:
        """Give *search* the lists of the stores apart."""

        def question(each: Searched) -> Callable[[StoreConnection], list[Ranked]]:
            return partial(_own, each.reader, each.query)

        async def take(each: Searched, ranked: list[Ranked]) -> None:
            each.take(ranked)
            self._cache.put(each.key("own"), ranked, size_of(ranked))

        async def job(each: Searched, hop: Budget) -> None:
            await take(each, await self._fanout.ask(each, question(each), hop))

        todo: list[Searched] = []
        for name in sorted(search.own):
            each = search.asked(name)
            kept: list[Ranked] | None = self._cache.get(each.key("own"))
            if kept is not None:
                each.take(kept)
            elif each.is_answering:
                todo.append(each)
        small, large = partition(todo)
        left = await self._fanout.look_up(small, question, take, budget)
        await self._fanout.each([*large, *left], job, budget)


def _own(reader: Reader, query: Query, db: StoreConnection) -> list[Ranked]:
    return own_list(cast("OwnRanking", reader), db, query)  # or it would not be asked
