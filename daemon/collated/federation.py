"""Search and grep over many stores: fan out by tier, merge, materialise the winners (DESIGN §5)."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import isfinite

from msgspec import Struct

from collated_readers import TIERS, Budget, Hit, Matches, Pattern, Query, Ranked, Reader, StoreError, Tier
from collated_readers import contract as texts
from collated_readers.contract import GREP_LIMITS, SEARCH_LIMITS, clamped
from collated_readers.opening import StoreConnection, StoreMoved

from . import protocol
from .cache import Cache
from .fanout import SHARES, Asked, Fanout, Selection
from .merge import dedupe, merge_contract, merge_fused, merge_matches
from .protocol import GrepParams, GrepResult, Partial, PartialHit, SearchParams, SearchResult

__all__ = ["Federation", "Report"]

Report = Callable[[Partial], Awaitable[None]]
"""Told how far an answer is, for `$/progress`."""

NO_STORES = "no stores are open; `collate add PATH` adds one, `collate doctor` says more"

_SPARE_S = 0.25

# What a ranked hit and its parts cost in memory beside their strings, for the cache's account.
_RANKED_BYTES = 160
_HIT_BYTES = 500


class _Searched(Asked):
    """A store in one search: its tiers as far as they were asked, and its own list."""

    def __init__(self, asked: Asked, query: Query) -> None:
        super().__init__(asked.store, asked.reader)
        self.query = query
        self.wanted = asked.reader.tiers(query)
        self.tiers: dict[Tier, list[Ranked]] = {}
        self._list: list[Ranked] = []

    @property
    def found(self) -> list[Ranked]:
        """Return the store's list as far as it is known; empty once the store has failed."""
        return self._list if self.is_answering else []

    def needs(self, tier: Tier) -> bool:
        """Tell whether *tier* could still add to the store's list."""
        return tier in self.wanted and tier not in self.tiers and len(self._list) < self.query.limit

    def upto(self, tier: Tier) -> list[Tier]:
        """Return the tiers to ask for *tier* and the better ones, as far as they are not known."""
        upto = TIERS[: TIERS.index(tier) + 1]
        return [each for each in self.wanted if each in upto and each not in self.tiers]

    def learn(self, tier: Tier, ranked: list[Ranked]) -> None:
        """Take what *tier* found; tiers come best first."""
        self.tiers[tier] = ranked
        if ranked:
            self._list = dedupe((self._list, ranked), self.query.limit)

    def restart(self) -> None:
        """Forget what was found: the store's contents are others now."""
        self.wanted = self.reader.tiers(self.query)
        self.tiers.clear()
        self._list = []

    def key(self, *parts: object) -> tuple[object, ...]:
        """Return a cache key of this store's contents and query."""
        return (self.store.fingerprint, self.query, *parts)


class _Search(Struct):
    """One search: its stores, and whether it may stop as soon as the better tiers fill the limit.

    Without `stop_early` each store's own list is filled, which reciprocal ranks need.
    """

    stores: list[_Searched]
    limit: int
    stop_early: bool
    report: Report | None
    exact: int = 0
    answered: int = 0

    def is_filled(self, tier: Tier) -> bool:
        """Tell whether the tiers better than *tier* fill the limit."""
        better = TIERS[: TIERS.index(tier)]
        found = (each.found for each in self.stores if each.found)
        return self.stop_early and sum(hit.tier in better for hits in found for hit in hits) >= self.limit

    def goes_ahead(self) -> bool:
        """Tell whether `all` is worth asking in the hop of `phrase`, whose hits do not fill the limit yet.

        Only a guess, read by the stores' threads while others answer: it decides what is asked
        when, never what is found.
        """
        return not self.stop_early or self.exact < self.limit


class _Grepped(Asked):
    """A store in one grep."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.store, asked.reader)
        self.result = Matches(())


class Federation:
    """Answers `search` and `grep` over the stores that a request addresses."""

    def __init__(self, fanout: Fanout, cache: Cache) -> None:
        """Ask through *fanout*; keep each store's part of an answer in *cache*."""
        self._fanout = fanout
        self._cache = cache

    # ----------------------------------------------------------------- search

    async def search(
        self, params: SearchParams, budget: Budget, report: Report | None = None
    ) -> SearchResult:
        """Return the best hits of all stores addressed, in the order of DESIGN §5.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params`, `deadline_exceeded` when no store answered.
        """
        selection = self._fanout.select("search", params.stores, params.formats)
        query = Query(params.query, tuple(params.within or ()), clamped(params.limit, SEARCH_LIMITS))
        searched = [_Searched(each, query) for each in selection.asked]
        selection.asked = list[Asked](searched)
        merge = merge_fused if params.ranking == "fused" else merge_contract
        search = _Search(searched, query.limit, params.ranking == "contract", report)
        await self._fill(search, budget)
        while True:
            selection.raise_fault()
            lists = {each.store.name: each.found for each in searched}
            hits = await self._materialise(searched, merge(lists, query.limit), _spare(budget))
            if hits is not None:
                break
            await self._fill(search, _spare(budget))
        selection.raise_fault()
        outcome = selection.outcome()
        return SearchResult(
            hits=hits,
            mode="lexical",
            hint=_hint(selection, searched, params, bool(hits)),
            complete=not outcome.failed,
            stores=outcome,
        )

    async def _fill(self, search: _Search, budget: Budget) -> None:
        """Ask the stores, first the quick ones; one that is slow costs the others none of their tiers."""
        todo = search.stores
        for share in SHARES:
            late: list[_Searched] = []
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

    def _recall(self, each: _Searched, tier: Tier) -> bool:
        ranked = self._cache.get(each.key(tier))
        if ranked is None:
            return False
        each.learn(tier, ranked)
        return True

    async def _advance(self, search: _Search, tier: Tier, each: _Searched, budget: Budget) -> None:
        """Bring the store's list up to *tier*, from the start when its contents have changed."""
        while True:
            try:
                lists = await self._fanout.ask_once(each, _question(search, tier, each), budget)
                break
            except StoreMoved:
                await self._renew(each)
        await self._take(search, each, lists)

    async def _take(self, search: _Search, each: _Searched, lists: dict[Tier, list[Ranked]]) -> None:
        for asked, ranked in lists.items():
            each.learn(asked, ranked)
            size = sum(_RANKED_BYTES + len(hit.id) for hit in ranked) + len(each.query.text)
            self._cache.put(each.key(asked), ranked, size)
        search.exact += len(lists.get("phrase", ()))
        search.answered += not each.has_answered
        each.has_answered = True
        if search.report is not None:
            await search.report(_progress(search.stores, each, search.answered))

    async def _renew(self, each: _Searched) -> None:
        await self._fanout.renew(each)
        each.restart()

    async def _materialise(
        self, searched: Sequence[_Searched], chosen: Sequence[tuple[str, Ranked]], budget: Budget
    ) -> list[protocol.Hit] | None:
        """Return *chosen* as hits; None when a store changed or failed meanwhile: then choose anew."""
        by_name = {each.store.name: each for each in searched}
        made, wanted = self._recall_hits(by_name, chosen)
        is_settled = True

        def question(each: _Searched) -> Callable[[StoreConnection], list[Hit]]:
            return partial(_hits, each.reader, each.query, wanted[each.store.name])

        async def take(each: _Searched, hits: list[Hit]) -> None:
            for one, hit in zip(wanted[each.store.name], hits, strict=True):
                made[each.store.name, one.id] = hit
                self._cache.put(each.key(one), hit, _HIT_BYTES + len(hit.snippet) + len(hit.heading_path))

        async def job(each: _Searched, hop: Budget) -> None:
            nonlocal is_settled
            try:
                await take(each, await self._fanout.ask_once(each, question(each), hop))
            except StoreMoved:
                is_settled = False
                await self._renew(each)

        asked = [by_name[name] for name in wanted]
        await self._fanout.each(await self._fanout.quick(asked, question, take, budget), job, budget)
        if not (is_settled and all(each.is_answering for each in asked)):
            return None
        return [_hit(by_name[store], made[store, ranked.id]) for store, ranked in chosen]

    def _recall_hits(
        self, by_name: Mapping[str, _Searched], chosen: Sequence[tuple[str, Ranked]]
    ) -> tuple[dict[tuple[str, str], Hit], dict[str, list[Ranked]]]:
        """Return the hits that are remembered, by store and id, and what is to be made, by store."""
        made: dict[tuple[str, str], Hit] = {}
        wanted: dict[str, list[Ranked]] = {}
        for store, ranked in chosen:
            hit = self._cache.get(by_name[store].key(ranked))
            if hit is None:
                wanted.setdefault(store, []).append(ranked)
            else:
                made[store, ranked.id] = hit
        return made, wanted

    # ----------------------------------------------------------------- grep

    async def grep(self, params: GrepParams, budget: Budget, report: Report | None = None) -> GrepResult:
        """Return the first matching line of each record, by id and store.

        Raises:
            RequestFailed: as `search`, and `pattern_rejected`.
        """
        selection = self._fanout.select("grep", params.stores, params.formats)
        limit = clamped(params.limit, GREP_LIMITS)
        pattern = Pattern(params.pattern, params.regex, tuple(params.within or ()), limit)
        grepped = [_Grepped(each) for each in selection.asked]
        selection.asked = list[Asked](grepped)

        answered = 0

        async def job(each: _Grepped, hop: Budget) -> None:
            nonlocal answered
            each.result = await self._grep_one(each, pattern, hop)
            answered += 1
            each.has_answered = True
            if report is not None:
                await report(_progress(grepped, each, answered))

        await self._fanout.each(grepped, job, budget)
        selection.raise_fault()
        answering = [each for each in grepped if each.is_answering]
        lists = {each.store.name: each.result.matches for each in answering}
        merged, has_more = merge_matches(lists, limit)
        outcome = selection.outcome()
        return GrepResult(
            matches=[
                protocol.Match(store, m.id, f"{store}:{m.id}", m.doc, m.heading_path, m.line)
                for store, m in merged
            ],
            truncated=has_more or any(each.result.is_truncated for each in answering),
            complete=not outcome.failed,
            stores=outcome,
        )

    async def _grep_one(self, each: _Grepped, pattern: Pattern, budget: Budget) -> Matches:
        cached: Matches | None = self._cache.get((each.store.fingerprint, pattern))
        if cached is not None:
            return cached
        result = await self._fanout.ask(each, lambda db: each.reader.grep(db, pattern, budget), budget)
        size = sum(_HIT_BYTES + len(match.line) for match in result.matches)
        self._cache.put((each.store.fingerprint, pattern), result, size)
        return result


def _spare(budget: Budget) -> Budget:
    """Return *budget*, or a moment where slow stores used it up: what others found is shown all the same."""
    return Budget(max(budget.deadline, time.monotonic() + _SPARE_S))


def _question(
    search: _Search, tier: Tier, each: _Searched
) -> Callable[[StoreConnection], dict[Tier, list[Ranked]]]:
    return partial(_passes, each.reader, each.query, each.upto(tier), search.goes_ahead)


def _hits(reader: Reader, query: Query, ranked: list[Ranked], db: StoreConnection) -> list[Hit]:
    hits = reader.hits(db, query, ranked)
    if len(hits) != len(ranked):
        raise StoreError("damaged", "the store's index and its records do not agree")
    return hits


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


def _hit(each: _Searched, hit: Hit) -> protocol.Hit:
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


def _hint(
    selection: Selection, searched: Sequence[_Searched], params: SearchParams, has_hits: bool
) -> str | None:
    """Return the contract's hint (formats/contextpull.md §12; the seed's words where they differ)."""
    if not searched:
        return None if selection.outcome().asked else NO_STORES
    if not any(each.wanted for each in searched):
        return texts.HINT_NO_WORDS
    if not has_hits:
        return texts.HINT_NO_HITS
    if params.mode == "hybrid":
        has_embeddings = any(each.store.has_embeddings for each in searched)
        return texts.HINT_NO_EMBEDDER if has_embeddings else texts.HINT_NO_EMBEDDINGS
    return None


def _progress(every: Sequence[Asked], latest: Asked, answered: int) -> Partial:
    """Return how far the request is; *answered* counts who gave an answer, failed since or not."""
    hits: list[PartialHit] = []
    if isinstance(latest, _Searched):
        name = latest.store.name
        hits = [
            PartialHit(name, hit.id, f"{name}:{hit.id}", hit.tier, round(-hit.rank, 2))
            for hit in latest.found
        ]
    failed = [each for each in every if each.failure is not None]
    failures = [each.failure for each in failed if each.failure]
    return Partial(len(every), answered - sum(each.has_answered for each in failed), hits, failures)
