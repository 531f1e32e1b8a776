"""Which rows of a segment match a query, tier by tier, and what bm25 gives them (contextpull.md §4). Pure.

Every number is made in the order of operations that FTS5 has, so that ranks are the same to the last bit.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers import Budget, Tier
from collated_readers.contract import Phrase

from .finding import Finder, Found, Mask, begins
from .pruning import Aim, Entries, Field, likely
from .segment import Norms, Segment

__all__ = ["Mask", "Matching", "Scored", "Statistics", "Thrift"]

_SPARSE = 16  # a row of zeros for each record costs less than sorting this part of them
_FLOOR = 1e-6  # of a word that is in most records, which would else count against them
_K1_PLUS_1 = 2.2


class Scored(Struct, eq=False):
    """Rows that match, ascending, and the score of each: higher is better."""

    rows: NDArray[Any]
    scores: NDArray[np.float64]


class Statistics(Struct, eq=False):
    """What is summed over stores: the records of each phrase, of all stores, and a record's mean length."""

    frequencies: dict[Phrase, int]
    total_rows: int
    average: float

    def weight(self, phrase: Phrase) -> float:
        """Return the phrase's inverse document frequency."""
        return _weight(self.total_rows, self.frequencies[phrase])


class Thrift(Struct, frozen=True):
    """From how many postings on it is found out which rows need a score, and in how many rows at first."""

    postings: int = 20_000
    rows: int = 2_000


_THRIFT = Thrift()


class Matching:
    """One query over one segment. Outside of *slots* no row exists, outside of *rows* none is a hit."""

    def __init__(
        self, segment: Segment, slots: Mask = None, rows: Mask = None, thrift: Thrift = _THRIFT
    ) -> None:
        """Score by each store's own statistics, until `use`."""
        self.segment = segment
        self._slots = slots
        self._rows = rows
        self._thrift = thrift
        self._statistics: Statistics | None = None
        self._norms = segment.norms
        self.budget: Budget | None = None
        self._finder = Finder(segment, slots)

    def use(self, statistics: Statistics) -> None:
        """Score by *statistics* from now on."""
        self._statistics = statistics
        self._norms = self.segment.norms_by(statistics.average)

    def cost(self, phrases: Sequence[Phrase]) -> int:
        """Return how many postings *phrases* have, those of slots that do not count among them."""
        segment = self.segment
        places = [self._finder.find(term) for phrase in phrases for term in phrase]
        edges = [(segment.entries[place], segment.entries[place + 1]) for place in places if place >= 0]
        return sum(
            int(segment.entry_firsts[last]) - int(segment.entry_firsts[first]) for first, last in edges
        )

    def totals(self) -> tuple[int, int]:
        """Return the records and the tokens of all stores that count."""
        totals = self.segment.totals if self._slots is None else self.segment.totals[:, self._slots]
        rows, tokens = totals.sum(axis=1).tolist()
        return rows, tokens

    def found(self, phrase: Phrase) -> Found:
        """Return the postings of *phrase*.

        Raises:
            StoreError: `deadline_exceeded` once the budget is spent.
        """
        if self.budget is not None:
            self.budget.check()
        return self._finder.found(phrase)

    def tier(self, tier: Tier, phrases: Sequence[Phrase]) -> Scored:
        """Return the rows that match in *tier*, those of better tiers among them."""
        if tier == "symbol":
            return self._shown(self._named(phrases))
        if tier == "phrase":
            return self._shown(self._any([_joined(phrases)]))
        return self._shown(self._all(phrases) if tier == "all" else self._any(phrases))

    def best(self, tier: Tier, phrases: Sequence[Phrase], limit: int, least: float) -> Scored:
        """Return the best *limit* rows of `tier` and all that tie with the last of them; perhaps more.

        Rows of a score below *least* may be left out.
        """
        if tier == "any" and len(phrases) > 1 and self.cost(phrases) > self._thrift.postings:
            rows = self._likely(phrases, Aim(limit, least, self._thrift.rows))
            if rows is not None:
                return self._scored(rows, phrases)
        return self.tier(tier, phrases)

    # ----------------------------------------------------------------- tiers

    def _shown(self, scored: Scored) -> Scored:
        if self._rows is None:
            return scored
        kept = self._rows[scored.rows]
        return Scored(scored.rows[kept], scored.scores[kept])

    def _each(self, phrases: Sequence[Phrase]) -> list[tuple[Phrase, Found]]:
        """Return what is somewhere of *phrases*, with its postings."""
        each = [(phrase, self.found(phrase)) for phrase in phrases if phrase]
        return [(phrase, found) for phrase, found in each if found.count]

    def _any(self, phrases: Sequence[Phrase]) -> Scored:
        parts = [(found.rows, self._part(phrase, found)) for phrase, found in self._each(phrases)]
        if not parts:
            return _NOTHING
        if len(parts) == 1:
            return Scored(*parts[0])
        total = sum(len(rows) for rows, _ in parts)
        if total * _SPARSE > self.segment.size:
            scores = np.zeros(self.segment.size)
            for rows, part in parts:
                scores[rows] += part
            found = np.flatnonzero(scores)
            return Scored(found, scores[found])
        found = np.unique(np.concatenate([rows for rows, _ in parts]))
        scores = np.zeros(len(found))
        for rows, part in parts:
            scores[np.searchsorted(found, rows)] += part
        return Scored(found, scores)

    def _named(self, phrases: Sequence[Phrase]) -> Scored:
        """Return the rows of names; how much a row has of one is its score, whatever else is in the store."""
        parts = [(found.rows, found.freqs) for _, found in self._each(phrases)]
        return Scored(parts[0][0], parts[0][1].astype(np.float64)) if parts else _NOTHING

    def _part(self, phrase: Phrase, found: Found) -> NDArray[np.float64]:
        """Return what *phrase* adds to the score of its rows."""
        weights: Any
        if self._statistics is None:
            weights = _logarithms(self._ratios(found.slots, found.sizes)).repeat(found.sizes)
        else:
            weights = self._statistics.weight(phrase)
        return _bm25(weights, found.freqs, self._norms.rows[found.rows])

    def _all(self, phrases: Sequence[Phrase]) -> Scored:
        if not phrases or not all(phrases):  # a word that the index knows no letter of is in no record
            return _NOTHING
        each = [(phrase, self.found(phrase)) for phrase in phrases]
        shared = self._finder.shared(phrases)
        if not len(shared.rows):
            return _NOTHING
        some = _Some(self.segment, self._norms, shared.rows)
        scores = np.zeros(len(shared.rows))
        for phrase, found in each:
            scores += self._points(phrase, found, some, found.every_freq[shared.places[phrase]])
        return Scored(shared.rows, scores)

    def _likely(self, phrases: Sequence[Phrase], aim: Aim) -> NDArray[np.int64] | None:
        """Return the rows of the tier `any` that can be among the best; None for all."""
        each = self._each(phrases)
        if len(each) < 2:  # noqa: PLR2004 - one alone is scored at once
            return None
        entries = Entries.of([found for _, found in each])
        if self._statistics is None:
            weights = _floored(np.log(self._ratios(entries.slots, entries.sizes)))
        else:
            of_each = [self._statistics.weight(phrase) for phrase, _ in each]
            weights = np.repeat(of_each, [len(found.slots) for _, found in each])
        field = Field(self.segment, self._norms, self._rows)
        return likely(field, entries, weights * _K1_PLUS_1, aim)

    def _scored(self, rows: NDArray[np.int64], phrases: Sequence[Phrase]) -> Scored:
        """Return *rows* with their scores in the tier `any`."""
        if not len(rows):
            return _NOTHING
        some = _Some(self.segment, self._norms, rows)
        scores = np.zeros(len(rows))
        for phrase, found in self._each(phrases):
            near, freqs = found.every_row[found.span], found.every_freq[found.span]
            at = np.minimum(near.searchsorted(rows.astype(near.dtype)), len(near) - 1)
            points = self._points(phrase, found, some, freqs[at])
            scores += np.where(near[at] == rows, points, 0.0)
        return Scored(rows, scores)

    def _points(
        self, phrase: Phrase, found: Found, some: "_Some", freqs: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Return what *phrase* adds to *some* rows, by its *freqs* there; any number where it is not."""
        weights: Any
        if self._statistics is None:
            at = np.minimum(found.slots.searchsorted(some.slots), len(found.slots) - 1)
            weights = _logarithms(self._ratios(found.slots[at], found.sizes[at])).repeat(some.sizes)
        else:
            weights = self._statistics.weight(phrase)
        return _bm25(weights, freqs, some.norms.copy())

    def _ratios(self, slots: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        ratios = (self.segment.totals[0, slots] - sizes + 0.5) / (sizes + 0.5)
        return np.maximum(ratios, 1.0)  # type: ignore[no-any-return]  # numpy


class _Some:
    """Some rows, ascending: their norms, their slots, and how many rows each slot has."""

    def __init__(self, segment: Segment, norms: Norms, rows: NDArray[Any]) -> None:
        self.norms = norms.rows[rows]
        slots = segment.slots_of(rows)
        firsts, self.sizes = begins(slots)
        self.slots = slots[firsts]


def _bm25(weights: Any, freqs: NDArray[Any], norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bm25's term of one phrase; *norms*, which are made into something else, have its memory."""
    points: NDArray[np.float64] = np.multiply(freqs, _K1_PLUS_1, dtype=np.float64)
    norms += freqs
    points /= norms
    points *= weights
    return points


def _logarithms(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    # The C library's logarithm, as FTS5 takes it: numpy's own may differ in the last bit.
    return _floored(np.array(list(map(math.log, ratios.tolist()))))


def _floored(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    weights[weights <= 0.0] = _FLOOR
    return weights


def _weight(total: int, frequency: int) -> float:
    weight = math.log(max((total - frequency + 0.5) / (frequency + 0.5), 1.0))
    return weight if weight > 0.0 else _FLOOR


def _joined(phrases: Sequence[Phrase]) -> Phrase:
    return tuple(term for phrase in phrases for term in phrase)


_NOTHING = Scored(np.empty(0, np.uint32), np.empty(0))
