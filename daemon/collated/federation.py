"""Search over many stores: the arrays first, then the other stores by tier, then the winners' text."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from collated_readers import TIERS, Budget, Query, Ranked, Reader, StoreError, Tier
from collated_readers import contract as texts
from collated_readers.opening import StoreConnection, StoreMoved

from . import protocol
from .cache import Cache
from .corpora import Corpora
from .embedding import Embedders
from .fanout import SHARES, Fanout
from .hybrid import Hybrid
from .indexed import Indexed
from .own import Own
from .protocol import NO_STORES, SearchParams, SearchResult
from .searching import Report, Search, Searched, size_of
from .showing import Showing

__all__ = ["Federation"]

_SPARE_S = 0.25
_MOST_NOTES = 3
_LONGEST_NOTE = 300  # characters


class Federation:
    """Answers `search` over the stores that a request addresses."""

    def __init__(self, fanout: Fanout, corpora: Corpora, cache: Cache, embedders: Embedders) -> None:
        """Ask *corpora*, and through *fanout*; keep each store's own ranking in *cache*."""
        self._fanout = fanout
        self._cache = cache
        self._indexed = Indexed(fanout, corpora, cache)
        self._hybrid = Hybrid(fanout, embedders, cache)
        self._own = Own(fanout, cache)
        self._showing = Showing(fanout)
        self._begun: tuple[SearchParams, Search] | None = None  # what `at_once` could not answer just now

    def at_once(self, params: SearchParams) -> SearchResult | None:
        """Return the answer if nothing can be found, None if that takes asking.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params`.
        """
        search = self._begin(params, None)
        if not search.is_plain or search.selection.chosen.failed or params.mode == "hybrid" or search.own:
            return None
        if self._indexed.choose(search):
            self._begun = (params, search)
            return None
        return self._result(search, params, [])

    async def search(
        self, params: SearchParams, budget: Budget, report: Report | None = None
    ) -> SearchResult:
        """Return the best hits of all stores addressed, in the order of DESIGN §5.

        The ranking `default` is the caller's to replace.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params`, `deadline_exceeded` when no store answered.
        """
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] is params:
            search = begun[1]
        else:
            search = self._begin(params, report)
            if params.mode == "hybrid":
                await self._hybrid.begin(search, budget)
                self._own.begin(search)
            if not search.is_plain:
                await self._indexed.prepare(search)
            self._indexed.choose(search)
        hits: list[protocol.Hit] | None = None
        while hits is None:
            await self._rank(search, budget)
            search.selection.raise_fault()
            hits = await self._showing.show(search, _spare(budget))
            search.again()
            budget = _spare(budget)
        search.selection.raise_fault()
        return self._result(search, params, hits)

    def _begin(self, params: SearchParams, report: Report | None) -> Search:
        selection = self._fanout.choosing.select("search", params.stores, params.formats)
        search = Search(params, selection, report)
        if params.mode != "hybrid":  # which has to see first who has vectors
            self._own.begin(search)
        return search

    def _result(self, search: Search, params: SearchParams, hits: list[protocol.Hit]) -> SearchResult:
        outcome = search.selection.outcome()
        return SearchResult(
            hits=hits,
            mode="lexical" if search.vectors is None else "hybrid",
            hint=_hint(search, params, bool(hits)),
            complete=not outcome.failed,
            stores=outcome,
        )

    # ----------------------------------------------------------------- ranking

    async def _rank(self, search: Search, budget: Budget) -> None:
        apart = search.apart
        await self._hybrid.rank(search, budget)
        if search.apart != apart:  # who cannot be asked by vectors answers as in any other search
            self._own.begin(search)
            self._indexed.choose(search)
        await self._own.rank(search, budget)
        await self._indexed.rank(search, budget)
        if search.report is not None and search.given:
            search.answered = self._indexed.covered(search)
            await search.report(search.progress(search.given))
        if search.order == "contract":
            todo = [search.store(store) for store in self._indexed.rest(search)]
            await self._fill(search, todo, budget)

    async def _fill(self, search: Search, todo: Sequence[Searched], budget: Budget) -> None:
        """Ask the stores, first the quick ones; one that is slow costs the others none of their tiers."""
        for share in SHARES:
            late: list[Searched] = []
            for tier in TIERS:
                askers = [
                    each for each in todo if each.is_answering and each.needs(tier) and each not in late
                ]
                if not askers or search.is_filled(tier):
                    continue
                missing = [each for each in askers if not self._recall(each, tier)]
                if share == SHARES[0]:
                    question = partial(_question, search, tier)
                    missing = await self._fanout.quick(missing, question, partial(self._take, search), budget)
                late += await self._fanout.serve(missing, partial(self._advance, search, tier), budget, share)
            todo = late

    def _recall(self, each: Searched, tier: Tier) -> bool:
        ranked = self._cache.get(each.key(tier))
        if ranked is None:
            return False
        each.learn(tier, ranked)
        return True

    async def _advance(self, search: Search, tier: Tier, each: Searched, budget: Budget) -> None:
        """Bring the store's list up to *tier*, from the start when its contents have changed."""
        while True:
            try:
                lists = await self._fanout.ask_once(each, _question(search, tier, each), budget)
                break
            except StoreMoved:
                await self._renew(each)
        await self._take(search, each, lists)

    async def _take(self, search: Search, each: Searched, lists: dict[Tier, list[Ranked]]) -> None:
        for asked, ranked in lists.items():
            each.learn(asked, ranked)
            self._cache.put(each.key(asked), ranked, size_of(ranked))
        search.exact += len(lists.get("phrase", ()))
        search.answered += not each.has_answered
        each.has_answered = True
        if search.report is not None:
            await search.report(search.progress({each.store.name: each.found}))

    async def _renew(self, each: Searched) -> None:
        await self._fanout.renew(each)
        each.restart()


def _spare(budget: Budget) -> Budget:
    """Return *budget*, or a moment where slow stores used it up: what others found is shown all the same."""
    return Budget(max(budget.deadline, time.monotonic() + _SPARE_S))


def _question(
    search: Search, tier: Tier, each: Searched
) -> Callable[[StoreConnection], dict[Tier, list[Ranked]]]:
    return partial(_passes, each.reader, each.query, each.upto(tier), search.goes_ahead)


def _passes(
    reader: Reader, query: Query, tiers: list[Tier], goes_ahead: Callable[[], bool], db: StoreConnection
) -> dict[Tier, list[Ranked]]:
    """Return what each of *tiers* finds; with `phrase` also `all`, which costs less than a hop of its own."""
    lists: dict[Tier, list[Ranked]] = {tier: reader.ranked(db, query, tier) for tier in tiers}
    if tiers[-1:] == ["phrase"] and len(lists["phrase"]) < query.limit and goes_ahead():
        lists["all"] = reader.ranked(db, query, "all")
    if not all(isfinite(hit.rank) for ranked in lists.values() for hit in ranked):
        raise StoreError("invalid_rank", "the store gives a rank that is not a finite number")
    return lists


def _hint(search: Search, params: SearchParams, has_hits: bool) -> str | None:
    """Return the contract's hint (formats/contextpull.md §12; the seed's words where they differ)."""
    chosen = search.selection.chosen
    if not chosen.stores:
        return None if search.selection.outcome().asked else NO_STORES
    if not any(search.question(reader).tiers for reader, _, _ in chosen.formats):
        return texts.HINT_NO_WORDS
    if not has_hits:
        return texts.HINT_NO_HITS
    if params.mode == "hybrid":
        if not any(store.model for store in chosen.stores):
            return texts.HINT_NO_EMBEDDINGS
        return _said(search.notes)
    return None


def _said(notes: Sequence[str]) -> str | None:
    """Return the first of *notes*, and how many more there are; the models that they name are the stores'."""
    distinct = list(dict.fromkeys(notes))
    said = [
        note if len(note) <= _LONGEST_NOTE else f"{note[:_LONGEST_NOTE]}…" for note in distinct[:_MOST_NOTES]
    ]
    more = len(distinct) - len(said)
    return "; ".join([*said, f"{more} more"] if more else said) or None
