"""The part of a search that the arrays answer, and what the other stores lend to it (DESIGN §5)."""

from collections.abc import Sequence
from functools import partial

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from collated_readers import Budget, Ranked, Reader, StoreError
from collated_readers.opening import StoreConnection
from collated_readers.postings import Postings

from .cache import Cache
from .catalog import Store
from .corpora import Corpora, Coverage
from .errors import RequestFailed
from .fanout import Fanout
from .merge import Order
from .searching import Search, Searched
from .selection import Chosen, path_filter
from .sidecars.corpus import FEW_WORDS, Addressed, Corpus, Part, Question, best, lists, summed
from .sidecars.segment import Segment, index_store

__all__ = ["Indexed"]

_ROWS_A_POSTING = 16  # rows whose norms are made in the time of one posting


class Indexed:
    """Ranks the stores that are in segments, all at once."""

    def __init__(self, fanout: Fanout, corpora: Corpora, cache: Cache) -> None:
        """Ask the stores of *corpora*'s segments there, and what others lend through *fanout*."""
        self._fanout = fanout
        self._corpora = corpora
        self._cache = cache

    async def prepare(self, search: Search) -> None:
        """Make the terms of a query that is not plain, and see which documents pass its path filter.

        Raises:
            RequestFailed: `invalid_params` for the path filter.
        """
        chosen = search.selection.chosen
        sections = self._corpora.coverage(chosen).sections

        def work() -> None:
            for reader, _, _ in chosen.formats:
                search.question(reader)
                _filtered(search, reader, [each for each in sections if each.format == reader.format])

        await anyio.to_thread.run_sync(work)

    # ----------------------------------------------------------------- who can match

    def choose(self, search: Search) -> bool:
        """Count the stores that cannot match as skipped; tell whether anything can be found at all."""
        chosen = search.selection.chosen
        search.able = able = self._able(search, chosen)
        if search.aside:
            able[[store.name in search.aside for store in chosen.stores]] = True
        search.selection.skipped = hopeless = search.hopeless
        if hopeless == len(able):
            return False
        coverage = self._coverage(search)
        search.parts = self._parts(search, coverage, chosen)
        return any(able[place] for place, _ in coverage.rest) or any(part.cost for part in search.parts)

    def _coverage(self, search: Search) -> Coverage:
        """Return where the chosen stores are: the same all through one attempt, whatever comes and goes."""
        if search.coverage is None:
            search.coverage = self._corpora.coverage(search.selection.chosen)
        return search.coverage

    def _able(self, search: Search, chosen: Chosen) -> NDArray[np.bool_]:
        of_format = [self._able_of(search.question(reader), slots) for reader, _, slots in chosen.formats]
        if len(of_format) == 1:
            return of_format[0]
        able = np.zeros(len(chosen.stores), np.bool_)
        for (_, places, _), found in zip(chosen.formats, of_format, strict=True):
            able[places] = found
        return able

    def _able_of(self, question: Question, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        if len(question.sought) > FEW_WORDS or not question.tiers:
            return np.full(len(slots), bool(question.tiers))
        return self._fanout.inventory.filters.may_match(question.sought).take(slots)

    def rest(self, search: Search) -> list[Store]:
        """Return the stores that have to be asked one by one."""
        rest = self._coverage(search).rest
        return [store for place, store in rest if search.able[place] and store.name not in search.aside]

    def covered(self, search: Search) -> int:
        """Return how many stores that can match are in segments."""
        return int(np.count_nonzero(search.able)) - len(self.rest(search))

    # ----------------------------------------------------------------- ranking

    async def rank(self, search: Search, budget: Budget) -> None:
        """Give *search* the lists of all stores that are in segments; with summed statistics, of all stores.

        Raises:
            RequestFailed: `invalid_params` for a store that cannot be ranked by summed statistics, and
                for the path filter.
        """
        parts, search.parts = search.parts, None  # good for once: what is asked again has changed
        if search.order == "global":
            parts = await self._whole(search, parts, budget)
        elif parts is None:
            parts = self._parts(search, self._coverage(search), search.selection.chosen)
        for matching in (matching for part in parts for matching in part.matchings):
            matching.budget = budget
        cost = sum(part.cost for part in parts)
        if search.order == "global":  # a new mean length means new norms of all rows
            cost += (
                sum(section.segment.size for part in parts for section in part.sections) // _ROWS_A_POSTING
            )
        work = partial(_ranked, search.ranking == "fused", search.order, parts)
        try:
            search.given = await self._corpora.compute(work, cost)
        except StoreError as error:
            raise RequestFailed(
                error.code, "the query has too many words to be ranked in time", "ask with fewer words"
            ) from error

    def _parts(self, search: Search, coverage: Coverage, chosen: Chosen) -> list[Part]:
        sections = coverage.sections
        left_out = search.aside | search.selection.failures().keys()
        if left_out:
            names = chosen.names - left_out
            sections = [left for section in sections if (left := section.among(names))]
        parts = [Part(reader, search.question(reader), [], []) for reader, _, _ in chosen.formats]
        for part in parts:
            here = [section for section in sections if section.format == part.reader.format]
            part.add(_filtered(search, part.reader, here))
        return parts

    # ----------------------------------------------------------------- summed statistics

    async def _whole(self, search: Search, parts: list[Part] | None, budget: Budget) -> list[Part]:
        """Return every store whose statistics count, those of no segment too, with hits in those chosen."""
        chosen = search.selection.chosen
        counted, coverage = chosen, self._coverage(search)
        if search.statistics == "all":
            counted = self._fanout.choosing.select("search", None, None).chosen
            coverage = self._corpora.coverage(counted)
        lenders = [search.store(store) for _, store in coverage.rest]
        lent = await self._lend(search, lenders, budget)
        if parts is None or counted is not chosen or search.selection.failures():
            parts = self._parts(search, coverage, counted)
        for part in parts:
            for name, segment in lent.items():
                if segment.format == part.reader.format:
                    # By itself: two names of one file have one fingerprint.
                    own = Corpus([segment], {segment.pieces[0].fingerprint: name})
                    part.add(_filtered(search, part.reader, own.sections))
        if counted is not chosen:
            for part in parts:
                sections = [section.showing(chosen.names) for section in part.sections]
                part.sections, part.matchings = [], []
                part.add(sections)
        return parts

    async def _lend(self, search: Search, lenders: Sequence[Searched], budget: Budget) -> dict[str, Segment]:
        """Return what the index of each store says of the query's words, by store."""
        lent: dict[str, Segment] = {}
        unable: list[str] = []

        async def job(each: Searched, hop: Budget) -> None:
            sought = search.question(each.reader).sought
            terms = tuple(sorted({term for phrase in sought for term in phrase}))
            segment = self._cache.get((each.store.fingerprint, "postings", terms))
            if segment is None:
                work = partial(_postings, each.reader, terms)
                postings = await self._fanout.ask(each, work, hop)
                if postings is None:
                    unable.append(each.store.name)
                    return
                segment = index_store(each.store.fingerprint or "", each.reader.format, postings, None)
                size = sum(array.nbytes for array in segment.arrays.values())
                self._cache.put((each.store.fingerprint, "postings", terms), segment, size)
            lent[each.store.name] = segment

        await self._fanout.each([each for each in lenders if each.is_answering], job, budget)
        if unable and not search.leave_out:
            raise RequestFailed(
                "invalid_params",
                f"store {min(unable)} cannot be ranked by summed statistics: its words cannot be counted",
                "name other stores, ask with ranking=contract, or leave such stores out with leave_out",
            )
        search.selection.skipped = search.hopeless + len(unable)
        return lent


def _filtered(search: Search, reader: Reader, sections: Sequence[Addressed]) -> list[Addressed]:
    matches = path_filter(reader, search.within)
    return [section.within(search.within, matches) if matches else section for section in sections]


def _postings(reader: Reader, terms: Sequence[bytes], db: StoreConnection) -> Postings | None:
    return reader.postings(db, terms)


def _ranked(is_fused: bool, order: Order, parts: Sequence[Part]) -> dict[str, list[Ranked]]:
    if order == "global":
        statistics = summed([(part.matchings, part.question) for part in parts])
        for matching in (matching for part in parts for matching in part.matchings):
            matching.use(statistics)
    found: dict[str, list[Ranked]] = {}
    for part in parts:
        if is_fused:
            found |= lists(part.sections, part.matchings, part.question)
            continue
        for store, hit in best(part.sections, part.matchings, part.question, order):
            found.setdefault(store, []).append(hit)
    return found
