"""Where the phrases of one query stand in a segment, and which rows have all of several. Pure."""

from collections.abc import Collection
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.contract import Phrase

from .segment import Segment, ranges

__all__ = ["Finder", "Found", "Mask", "Places", "Shared", "begins"]

Mask = NDArray[np.bool_] | None
"""Of a segment's slots or rows: which of them count; None for all."""

Places = slice | NDArray[np.int64]
"""Where some elements of an array are, ascending."""

_SPARSE = 16  # among this many times as many, rows are searched; among fewer, marked


class Found(Struct, eq=False):
    """The postings of one phrase: for each of *slots*, ascending, the *sizes* (never 0) from *firsts* on.

    They are places in *every_row* and *every_freq*: a row, and the phrase's weighted frequency there.
    """

    slots: NDArray[Any]
    firsts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    every_row: NDArray[Any]
    every_freq: NDArray[Any]
    count: int
    _places: Places | None = None
    _rows: NDArray[Any] | None = None

    @property
    def span(self) -> slice:
        """Return from where to where its postings are; those of slots that do not count may lie between."""
        return (
            slice(int(self.firsts[0]), int(self.firsts[-1] + self.sizes[-1])) if self.count else slice(0, 0)
        )

    @property
    def places(self) -> Places:
        """Return where its postings are."""
        if self._places is None:
            span = self.span
            is_whole = span.stop - span.start == self.count
            self._places = span if is_whole else ranges(self.firsts, self.sizes)
        return self._places

    @property
    def rows(self) -> NDArray[Any]:
        """Return the rows that have it, ascending."""
        if self._rows is None:
            self._rows = self.every_row[self.places]
        return self._rows

    @property
    def freqs(self) -> NDArray[Any]:
        """Return its weighted frequency in each of the rows."""
        return self.every_freq[self.places]

    def peaks(self) -> NDArray[Any]:
        """Return its largest weighted frequency in each slot, one or more."""
        edges = np.empty(2 * len(self.firsts), np.int64)
        edges[::2] = self.firsts
        edges[1::2] = self.firsts + self.sizes
        # Every other maximum is of what lies between two slots.
        return np.maximum.reduceat(self.every_freq[self.span], edges[:-1] - edges[0])[::2]


class Shared(Struct, eq=False):
    """The rows that have all of some phrases, ascending, and where each phrase's postings of them are.

    Without any rows, places are of no account.
    """

    rows: NDArray[Any]
    places: dict[Phrase, NDArray[np.int64]]


class Finder:
    """Finds phrases in a segment's *slots*, each once."""

    def __init__(self, segment: Segment, slots: Mask) -> None:
        """Look into *segment*."""
        self._segment = segment
        self._slots = slots
        self._found: dict[Phrase, Found] = {}
        self._shared: dict[frozenset[Phrase], Shared] = {}
        self._at: dict[bytes, int] = {}

    def find(self, term: bytes) -> int:
        """Return the term's place in the segment, -1 where no store has it."""
        if term not in self._at:
            self._at[term] = self._segment.find(term)
        return self._at[term]

    def found(self, phrase: Phrase) -> Found:
        """Return the postings of *phrase*, which has a term or more."""
        if phrase not in self._found:
            self._found[phrase] = self._term(phrase[0]) if len(phrase) == 1 else self._phrase(phrase)
        return self._found[phrase]

    def shared(self, phrases: Collection[Phrase]) -> Shared:
        """Return the rows that have all of *phrases*, one or more."""
        every = frozenset(phrases)
        if every not in self._shared:
            self._shared[every] = self._intersection({each: self.found(each) for each in every})
        return self._shared[every]

    def _term(self, term: bytes) -> Found:
        segment, place = self._segment, self.find(term)
        if place < 0:
            return _NOTHING
        first, last = int(segment.entries[place]), int(segment.entries[place + 1])
        edges = segment.entry_firsts[first : last + 1].astype(np.int64)
        slots, firsts, sizes = segment.entry_slots[first:last], edges[:-1], edges[1:] - edges[:-1]
        count = int(edges[-1] - edges[0])
        if self._slots is not None:
            chosen = self._slots[slots]
            slots, firsts, sizes = slots[chosen], firsts[chosen], sizes[chosen]
            count = int(sizes.sum())
        return Found(slots, firsts, sizes, segment.rows, segment.freqs, count)

    # ----------------------------------------------------------------- all of some phrases

    def _intersection(self, every: dict[Phrase, Found]) -> Shared:
        fewest, *others = sorted(every.values(), key=lambda found: found.count)
        left = fewest.rows
        for found in others:
            if not len(left):
                return Shared(left, {})
            left = left[self._which(left, found.rows)]
        return Shared(left, {phrase: self._taken(found, left) for phrase, found in every.items()})

    def _which(self, rows: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which of *rows* are among *others*, both ascending."""
        if len(others) > _SPARSE * len(rows):
            return _contains(others, rows)
        return self._marked(others)[rows]  # type: ignore[no-any-return]  # numpy's index

    def _taken(self, found: Found, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return where the postings of *rows* are, all of which have it."""
        if found.count > _SPARSE * len(rows):
            at = found.rows.searchsorted(rows)
        else:
            at = self._marked(rows)[found.rows].nonzero()[0]
        places = found.places
        return at + places.start if isinstance(places, slice) else places[at]

    def _marked(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell of each row of the segment whether it is one of *rows*."""
        marks = np.zeros(self._segment.size, np.bool_)
        marks[rows] = True
        return marks

    # ----------------------------------------------------------------- terms that follow each other

    def _phrase(self, phrase: Phrase) -> Found:
        """Return the rows in which the terms follow each other in one column."""
        segment, shared = self._segment, self.shared([(term,) for term in phrase])
        if not len(shared.rows):
            return _NOTHING
        starts: NDArray[np.int64] | None = None
        for offset, term in sorted(enumerate(phrase), key=lambda each: self._instances(each[1])):
            here = self._positions(term, shared) - offset
            starts = here if starts is None else starts[_contains(here, starts)]
        if starts is None or not len(starts):
            return _NOTHING
        numbers = starts >> 32
        firsts, lengths = begins(numbers)
        rows = shared.rows[numbers[firsts]]
        slots = segment.slots_of(rows)
        weights = segment.weights[slots.repeat(lengths), (starts & 0xFFFF_FFFF) >> segment.column_shift]
        freqs = np.add.reduceat(weights, firsts)
        firsts, sizes = begins(slots)
        return Found(slots[firsts], firsts, sizes, rows, freqs, len(rows))

    def _instances(self, term: bytes) -> int:
        """Return how often *term*, which is somewhere, is in the whole segment."""
        place, starts = self.find(term), self._segment.position_starts
        return int(starts[place + 1]) - int(starts[place])

    def _positions(self, term: bytes, shared: Shared) -> NDArray[np.int64]:
        """Return where *term* stands in the shared rows: `number of the row << 32 | position`, ascending."""
        segment, place = self._segment, self.find(term)
        first = int(segment.entry_firsts[segment.entries[place]])
        at = shared.places[(term,)] - first
        counts = segment.counts[first : first + int(at[-1]) + 1]
        lengths = counts[at].astype(np.int64)
        starts = counts.cumsum(dtype=np.int64)[at] - lengths + int(segment.position_starts[place])
        numbers = np.arange(len(at), dtype=np.int64) << 32
        return numbers.repeat(lengths) + segment.positions[ranges(starts, lengths)]


def begins(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where runs of equal *values*, one or more, begin, and how long they are."""
    is_first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    firsts = is_first.nonzero()[0]
    lengths = np.empty(len(firsts), np.int64)
    lengths[:-1] = firsts[1:] - firsts[:-1]
    lengths[-1] = len(values) - firsts[-1]
    return firsts, lengths


def _contains(values: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which of *wanted* are among *values*, both ascending."""
    if not len(values):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(values.searchsorted(wanted), len(values) - 1)
    return values[at] == wanted  # type: ignore[no-any-return]  # numpy's comparison


_NONE = np.empty(0, np.int64)
_NOTHING = Found(np.empty(0, np.uint16), _NONE, _NONE, np.empty(0, np.uint32), np.empty(0, np.uint8), 0)
