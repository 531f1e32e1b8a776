"""Grep over many stores: the arrays name the records that may match, the stores say which do (DESIGN §5)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import chain, islice
from typing import Any

import anyio.to_thread
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from collated_readers import Budget, Match, Matches, Pattern, Reader
from collated_readers.contract import GREP_LIMITS, LONGEST_PATTERN, clamped
from collated_readers.opening import StoreConnection, StoreMoved

from . import protocol
from .cache import Cache
from .catalog import Store
from .corpora import Corpora, Coverage
from .fanout import Fanout
from .merge import merge_matches
from .protocol import GrepParams, GrepResult, Partial
from .searching import Report
from .selection import Asked, Selection, path_filter
from .sidecars.corpus import Addressed
from .sidecars.segment import numbers
from .sidecars.trigrams import candidates

__all__ = ["Grepping"]

_MATCH_BYTES = 500  # what a match costs in memory beside its line, for the cache's account
_SHORTEST = 3  # bytes of a literal by which records can be looked up
# Records that are asked for in one go, at first and at most; candidates that are put in order at first.
_FIRST, _MOST = 16, 1_024
_SPARE = 4  # most candidates match: one in so many may not before more are asked for
_ORDERED = 1_024

_Candidate = tuple[str, str]
"""A record that may match: its id and its store."""


class _Grepped(Asked):
    """A store in one grep: to be asked as a whole (`scans`), asked so (`is_whole`), or of candidates."""

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store, reader)
        self.matches: list[Match] = []
        self.is_truncated = False
        self.scans = False
        self.is_whole = False


class _Grep:
    """One grep over the stores of a selection."""

    def __init__(self, params: GrepParams, selection: Selection, report: Report | None) -> None:
        self.limit = clamped(params.limit, GREP_LIMITS)
        self.pattern = Pattern(params.pattern, params.regex, tuple(params.within or ()), self.limit)
        self.selection = selection
        self.report = report
        self.grepped: dict[str, _Grepped] = {}
        self.answered = 0

    def store(self, store: Store) -> _Grepped:
        """Return *store* as asked by itself."""
        if store.name not in self.grepped:
            self.grepped[store.name] = each = _Grepped(store, self.selection.reader(store))
            self.selection.enter(each)
        return self.grepped[store.name]

    def answering(self) -> list[_Grepped]:
        """Return the stores that were asked and have not failed."""
        return [each for each in self.grepped.values() if each.is_answering]

    @property
    def verified(self) -> int:
        """Return how many candidates match."""
        return sum(len(each.matches) for each in self.answering() if not each.is_whole)

    async def tell(self) -> None:
        """Report how far the grep is."""
        if self.report is not None:
            failures = self.selection.failures()
            late = sum(each.has_answered for each in self.grepped.values() if each.failure)
            total = len(self.selection.chosen.stores)
            await self.report(Partial(total, self.answered - late, [], list(failures.values())))


class Grepping:
    """Answers `grep` over the stores that a request addresses."""

    def __init__(self, fanout: Fanout, corpora: Corpora, cache: Cache) -> None:
        """Ask *corpora*, and through *fanout*; keep each store's part of an answer in *cache*."""
        self._fanout = fanout
        self._corpora = corpora
        self._cache = cache

    async def grep(self, params: GrepParams, budget: Budget, report: Report | None = None) -> GrepResult:
        """Return the first matching line of each record, by id and store.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params`, `pattern_rejected`, `deadline_exceeded` when
                no store answered.
        """
        grep = _Grep(params, self._fanout.choosing.select("grep", params.stores, params.formats), report)
        coverage = self._corpora.coverage(grep.selection.chosen)
        found, rest = await anyio.to_thread.run_sync(_looked_up, grep, coverage)
        for store in rest:
            grep.store(store).scans = True
        grep.answered = len(grep.selection.chosen.stores) - len(rest)
        await self._scan(grep, budget)
        if found:
            await self._verify(grep, merge(*found), budget)
            await self._scan(grep, budget)  # who changed meanwhile
        grep.selection.raise_fault()
        return _result(grep)

    # ----------------------------------------------------------------- stores that are asked as a whole

    async def _scan(self, grep: _Grep, budget: Budget) -> None:
        async def job(each: _Grepped, hop: Budget) -> None:
            result = await self._scanned(grep, each, hop)
            each.matches, each.is_truncated = list(result.matches), result.is_truncated
            each.scans, each.is_whole = False, True
            grep.answered += not each.has_answered
            each.has_answered = True
            await grep.tell()

        await self._fanout.each([each for each in grep.answering() if each.scans], job, budget)

    async def _scanned(self, grep: _Grep, each: _Grepped, budget: Budget) -> Matches:
        cached: Matches | None = self._cache.get((each.store.fingerprint, grep.pattern))
        if cached is not None:
            return cached
        work = partial(_grep, each.reader, grep.pattern, budget)
        result = await self._fanout.ask(each, work, budget)
        size = sum(_MATCH_BYTES + len(match.line) for match in result.matches)
        self._cache.put((each.store.fingerprint, grep.pattern), result, size)
        return result

    # ----------------------------------------------------------------- candidates

    async def _verify(self, grep: _Grep, candidates: Iterator[_Candidate], budget: Budget) -> None:
        """Ask of *candidates*, best first, until one more than the limit match or all were asked."""
        size = max(_FIRST, grep.limit + grep.limit // _SPARE)
        while grep.verified <= grep.limit:
            batch = list(islice(candidates, size))
            if not batch:
                return
            await self._ask_of(grep, batch, budget)
            size = min(_MOST, 4 * size)

    async def _ask_of(self, grep: _Grep, batch: Sequence[_Candidate], budget: Budget) -> None:
        """Take the matches of a *batch* of (id, store) from those stores that have not moved or failed."""
        wanted: dict[str, list[str]] = {}
        for record_id, name in batch:
            wanted.setdefault(name, []).append(record_id)
        asked = [grep.store(grep.selection.chosen.by_name[name]) for name in wanted]
        asked = [each for each in asked if each.is_answering and not each.scans]

        def question(each: _Grepped) -> Callable[[StoreConnection], Matches]:
            ids = tuple(wanted[each.store.name])
            pattern = replace(grep.pattern, among=ids, limit=len(ids))
            return partial(_grep, each.reader, pattern, budget)

        async def take(each: _Grepped, result: Matches) -> None:
            each.matches += result.matches

        async def job(each: _Grepped, hop: Budget) -> None:
            try:
                await take(each, await self._fanout.ask_once(each, question(each), hop))
            except StoreMoved:
                await self._fanout.renew(each)
                each.matches, each.scans = [], True

        left = await self._fanout.look_up(asked, question, take, budget)
        await self._fanout.each(left, job, budget)


def _looked_up(grep: _Grep, coverage: Coverage) -> tuple[list[Iterator[_Candidate]], list[Store]]:
    """Return each segment's candidates, in order, made as they are taken, and the stores to be scanned.

    Raises:
        RequestFailed: `invalid_params` for the path filter.
    """
    chosen = grep.selection.chosen
    found: list[Iterator[_Candidate]] = []
    scanned = [store for _, store in coverage.rest]
    is_valid = 1 <= len(grep.pattern.text) <= LONGEST_PATTERN  # else the stores say what is wrong
    for reader, places, _ in chosen.formats:
        here = [section for section in coverage.sections if section.format == reader.format]
        needles = reader.needles(grep.pattern) if is_valid else ()
        if any(len(needle) >= _SHORTEST for needle in needles) and all(
            each.segment.has_texts for each in here
        ):
            matches = path_filter(reader, grep.pattern.within)
            here = [each.within(grep.pattern.within, matches) if matches else each for each in here]
            found += [_candidates(section, needles) for section in here]
        else:
            rest = {store.name for store in scanned}
            here_too = (chosen.stores[place] for place in numbers(places))
            scanned += [store for store in here_too if store.name not in rest]
    return found, scanned


def _candidates(section: Addressed, needles: Sequence[bytes]) -> Iterator[_Candidate]:
    """Return a segment's candidates; the first of them are in order already, for that takes longest."""
    rows = candidates(section.segment.arrays, needles)
    ordered = _in_order(section, np.empty(0, np.uint32) if rows is None else section.shown(rows))
    first = next(ordered, None)
    return ordered if first is None else chain((first,), ordered)


def _in_order(section: Addressed, rows: NDArray[Any]) -> Iterator[_Candidate]:
    """Yield the (id, store) of *rows*, sorting as many at a time as are taken."""
    segment = section.segment
    slots = segment.slots_of(rows)
    keys = segment.arrays["id_ranks"][rows].astype(np.int64) * len(segment.pieces) + section.by_name[slots]
    size = _ORDERED
    while len(rows):
        taken = np.argpartition(keys, size)[:size] if len(keys) > size else np.arange(len(keys))
        for place in taken[np.argsort(keys[taken])].tolist():
            yield segment.id(int(rows[place])), section.names[int(slots[place])] or ""
        left = np.ones(len(rows), np.bool_)
        left[taken] = False
        rows, slots, keys = rows[left], slots[left], keys[left]
        size *= 8


def _grep(reader: Reader, pattern: Pattern, budget: Budget, db: StoreConnection) -> Matches:
    return reader.grep(db, pattern, budget)


def _result(grep: _Grep) -> GrepResult:
    answering = grep.answering()
    merged, has_more = merge_matches({each.store.name: each.matches for each in answering}, grep.limit)
    outcome = grep.selection.outcome()
    return GrepResult(
        matches=[
            protocol.Match(store, m.id, f"{store}:{m.id}", m.doc, m.heading_path, m.line, m.line_number)
            for store, m in merged
        ],
        truncated=has_more or any(each.is_truncated for each in answering),
        complete=not outcome.failed,
        stores=outcome,
    )
