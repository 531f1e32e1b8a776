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

from .segment import Segment, norms_of, ranges

__all__ = ["Found", "Matching", "Scored", "Statistics"]

Mask = NDArray[np.bool_] | None
"""Of a segment's slots or rows: which of them count; None for all."""

_SPARSE = 16  # a row of zeros for each record costs less than sorting this part of them
_FLOOR = 1e-6  # of a word that is in most records, which would else count against them
_K1_PLUS_1 = 2.2


class Found(Struct, eq=False):
    """The postings of one phrase: ascending rows, their weighted frequencies, and how many of each slot."""

    rows: NDArray[Any]
    freqs: NDArray[Any]
    slots: NDArray[Any]
    sizes: NDArray[np.int64]


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


class Matching:
    """One query over one segment. Outside of *slots* no row exists, outside of *rows* none is a hit."""

    def __init__(self, segment: Segment, slots: Mask = None, rows: Mask = None) -> None:
        """Score by each store's own statistics, until `use`."""
        self.segment = segment
        self._slots = slots
        self._rows = rows
        self._statistics: Statistics | None = None
        self._norms = segment.norms
        self.budget: Budget | None = None
        self._found: dict[Phrase, Found] = {}
        self._at: dict[bytes, int] = {}

    def use(self, statistics: Statistics) -> None:
        """Score by *statistics* from now on."""
        self._statistics = statistics
        self._norms = _norms(self.segment, statistics.average)

    def cost(self, phrases: Sequence[Phrase]) -> int:
        """Return how many postings *phrases* have, those of slots that do not count among them."""
        segment = self.segment
        places = [self._find(term) for phrase in phrases for term in phrase]
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
        if phrase not in self._found:
            is_one = len(phrase) == 1
            self._found[phrase] = self._term(phrase[0]) if is_one else self._phrase(phrase)
        return self._found[phrase]

    def tier(self, tier: Tier, phrases: Sequence[Phrase]) -> Scored:
        """Return the rows that match in *tier*, those of better tiers among them."""
        if tier == "phrase":
            return self._shown(self._any([_joined(phrases)]))
        return self._shown(self._all(phrases) if tier == "all" else self._any(phrases))

    # ----------------------------------------------------------------- postings

    def _find(self, term: bytes) -> int:
        if term not in self._at:
            self._at[term] = self.segment.find(term)
        return self._at[term]

    def _term(self, term: bytes) -> Found:
        segment = self.segment
        place = self._find(term)
        if place < 0:
            return _NOTHING
        first, last = int(segment.entries[place]), int(segment.entries[place + 1])
        edges = segment.entry_firsts[first : last + 1].astype(np.int64)
        slots, sizes = segment.entry_slots[first:last], np.diff(edges)
        if self._slots is None:
            kept: Any = slice(int(edges[0]), int(edges[-1]))
        else:
            chosen = self._slots[slots]
            slots, sizes = slots[chosen], sizes[chosen]
            kept = ranges(edges[:-1][chosen], sizes)
        return Found(segment.rows[kept], segment.freqs[kept], slots, sizes)

    def _phrase(self, phrase: Phrase) -> Found:
        """Return the rows in which the terms follow each other in one column."""
        rows = _intersection([self.found((term,)).rows for term in set(phrase)])
        starts: NDArray[np.int64] | None = None
        for offset, term in enumerate(phrase):
            if not len(rows):
                return _NOTHING
            places = self._places(term, rows) - offset
            starts = places if starts is None else starts[_contains(places, starts)]
        if starts is None or not len(starts):
            return _NOTHING
        hits, firsts = np.unique(starts >> 32, return_index=True)
        weights = self._weights(rows[hits])[(starts & 0xFFFF_FFFF) >> self._shift, _repeated(firsts, starts)]
        freqs = np.add.reduceat(weights, firsts)
        slots, sizes = np.unique(self.segment.slots_of(rows[hits]), return_counts=True)
        return Found(rows[hits], freqs, slots, sizes.astype(np.int64))

    @property
    def _shift(self) -> int:
        return 15 if self.segment.positions.dtype == np.uint16 else 24

    def _weights(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the weight of each column in each of *rows*, columns first."""
        pieces = self.segment.pieces
        widest = max(len(piece.weights) for piece in pieces)
        table = np.array(
            [[*piece.weights, *[0] * (widest - len(piece.weights))] for piece in pieces], np.int64
        )
        return table[self.segment.slots_of(rows)].T

    def _places(self, term: bytes, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return where *term* stands in *rows*: `number of the row << 32 | position`, ascending."""
        segment = self.segment
        place = self._find(term)
        first = int(segment.entry_firsts[segment.entries[place]])
        last = int(segment.entry_firsts[segment.entries[place + 1]])
        at = np.searchsorted(segment.rows[first:last], rows)
        counts = segment.counts[first:last].astype(np.int64)
        ends = np.cumsum(counts)
        lengths = counts[at]
        taken = ranges(int(segment.position_starts[place]) + ends[at] - lengths, lengths)
        return np.repeat(np.arange(len(rows), dtype=np.int64) << 32, lengths) + segment.positions[taken]

    # ----------------------------------------------------------------- scores

    def _shown(self, scored: Scored) -> Scored:
        if self._rows is None:
            return scored
        kept = self._rows[scored.rows]
        return Scored(scored.rows[kept], scored.scores[kept])

    def _any(self, phrases: Sequence[Phrase]) -> Scored:
        parts = [
            (found, self._part(found, phrase)) for phrase, found in self._each(phrases) if len(found.rows)
        ]
        if not parts:
            return Scored(_NOTHING.rows, np.empty(0))
        if len(parts) == 1:
            found, part = parts[0]
            return Scored(found.rows, part)
        total = sum(len(found.rows) for found, _ in parts)
        if total * _SPARSE > self.segment.size:
            scores = np.zeros(self.segment.size)
            for found, part in parts:
                scores[found.rows] += part
            rows = np.flatnonzero(scores)
            return Scored(rows, scores[rows])
        rows = np.unique(np.concatenate([found.rows for found, _ in parts]))
        scores = np.zeros(len(rows))
        for found, part in parts:
            scores[np.searchsorted(rows, found.rows)] += part
        return Scored(rows, scores)

    def _all(self, phrases: Sequence[Phrase]) -> Scored:
        if not phrases or not all(phrases):  # a word that the index knows no letter of is in no record
            return Scored(_NOTHING.rows, np.empty(0))
        rows = _intersection([self.found(phrase).rows for phrase in set(phrases)])
        scores = np.zeros(len(rows))
        for phrase, found in self._each(phrases):
            if len(rows):
                scores += self._part(found, phrase, np.searchsorted(found.rows, rows))
        return Scored(rows, scores)

    def _each(self, phrases: Sequence[Phrase]) -> list[tuple[Phrase, Found]]:
        return [(phrase, self.found(phrase)) for phrase in phrases if phrase]

    def _part(self, found: Found, phrase: Phrase, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return what *phrase* adds to the score of its rows, or of those at *at*."""
        weights: Any
        if self._statistics is None:
            weights = np.repeat(self._store_weights(found), found.sizes)
            weights = weights if at is None else weights[at]
        else:
            weights = self._statistics.weight(phrase)
        rows, freqs = (found.rows, found.freqs) if at is None else (found.rows[at], found.freqs[at])
        freqs = freqs.astype(np.float64)
        return weights * ((freqs * _K1_PLUS_1) / (freqs + self._norms[rows]))  # type: ignore[no-any-return]  # numpy

    def _store_weights(self, found: Found) -> NDArray[np.float64]:
        ratios = (self.segment.totals[0, found.slots] - found.sizes + 0.5) / (found.sizes + 0.5)
        # The C library's logarithm, as FTS5 takes it: numpy's own may differ in the last bit.
        weights = np.array(list(map(math.log, np.maximum(ratios, 1.0).tolist())))
        weights[weights <= 0.0] = _FLOOR
        return weights


def _weight(total: int, frequency: int) -> float:
    weight = math.log(max((total - frequency + 0.5) / (frequency + 0.5), 1.0))
    return weight if weight > 0.0 else _FLOOR


def _joined(phrases: Sequence[Phrase]) -> Phrase:
    return tuple(term for phrase in phrases for term in phrase)


def _norms(segment: Segment, average: float) -> NDArray[np.float64]:
    kept = segment.other_norms
    if kept is None or kept[0] != average:
        kept = (average, norms_of(segment.arrays["lengths"], average))
        segment.other_norms = kept
    return kept[1]


def _intersection(every: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the values that all of *every*, each ascending, have."""
    rows, *others = sorted(every, key=len)
    for other in others:
        rows = rows[_contains(other, rows)]
    return rows


def _contains(values: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which of *wanted* are among *values*, both ascending."""
    if not len(values):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return values[at] == wanted  # type: ignore[no-any-return]  # numpy's comparison


def _repeated(firsts: NDArray[np.int64], whole: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each element of *whole* the number of the group that begins in *firsts*."""
    return np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(whole))))


_NOTHING = Found(np.empty(0, np.uint32), np.empty(0, np.uint8), np.empty(0, np.uint16), np.empty(0, np.int64))
