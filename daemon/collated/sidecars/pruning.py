"""Which rows can be among the best for some of a query's words, found without scoring all of them. Pure.

An entry, that is a word in a store, adds no more to a score than its largest frequency would in the store's
shortest record. So few stores can hold the best rows, and a word that is in most records of a store
tells none of them from the others.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from .finding import Found, Mask
from .segment import Norms, Segment, ranges

__all__ = ["Aim", "Entries", "Field", "likely"]

_GROWTH = 4  # of the rows that are looked at, from one time to the next
_FAINT = 1e-3  # of the best score there could be: what adds less is not looked at
_LOOSE = 1 - 1e-9  # for sums in another order and logarithms of another library


class Entries(Struct, eq=False):
    """The entries of several phrases, one phrase after the other, each as in its `Found`."""

    slots: NDArray[np.int64]
    firsts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    peaks: NDArray[np.float64]
    every_row: NDArray[Any]
    every_freq: NDArray[Any]

    @classmethod
    def of(cls, founds: Sequence[Found]) -> "Entries":
        """Join *founds*, one or more, none without a posting."""
        every_row, every_freq = founds[0].every_row, founds[0].every_freq
        firsts = np.concatenate([found.firsts for found in founds])
        sizes = np.concatenate([found.sizes for found in founds])
        if any(found.every_row is not every_row for found in founds):
            every_row = np.concatenate([found.rows for found in founds])
            every_freq = np.concatenate([found.freqs for found in founds])
            firsts = sizes.cumsum() - sizes
        slots = np.concatenate([found.slots for found in founds]).astype(np.int64)
        peaks = np.concatenate([found.peaks() for found in founds]).astype(np.float64)
        return cls(slots, firsts, sizes, peaks, every_row, every_freq)


class Field(Struct, frozen=True, eq=False):
    """The rows of a segment with their norms, and those of them that can be hits."""

    segment: Segment
    norms: Norms
    shown: Mask


class Aim(Struct, frozen=True):
    """What is looked for: the best *limit* rows, of a score of *least* or more; at first in some *rows*."""

    limit: int
    least: float
    rows: int


def likely(
    field: Field, entries: Entries, weights: NDArray[np.float64], aim: Aim
) -> NDArray[np.int64] | None:
    """Return the rows, ascending, that are aimed at or tie with the last of them, and perhaps some more.

    A score is the sum of each entry's weight times freq / (freq + norm). None where rows cannot be told
    apart by what weighs most.
    """
    bounds = weights * (entries.peaks / (entries.peaks + field.norms.least[entries.slots]))
    totals = np.bincount(entries.slots, bounds, len(field.norms.least))
    is_faint = bounds < _FAINT * totals.max()
    rest = float(np.bincount(entries.slots, bounds * is_faint).max())
    starts, order = field.segment.row_starts, (-totals).argsort()
    ends = (starts[order + 1] - starts[order]).cumsum()
    rows, sums = np.empty(0, np.int64), np.empty(0)
    edge, first, share = aim.least * _LOOSE, 0, aim.rows
    # The slots that promise most first, few and then more: what is still looked for soon is rare.
    while first < len(order) and totals[order[first]] >= edge:
        last = min(int(ends.searchsorted(share)) + 1, len(order))
        is_here = np.zeros(len(totals), np.bool_)
        is_here[order[first:last]] = True
        is_here &= totals >= edge
        chosen = (is_here[entries.slots] & ~is_faint).nonzero()[0]
        more_rows, more_sums = _summed(field, entries, weights, chosen, edge - rest)
        rows, sums = np.concatenate((rows, more_rows)), np.concatenate((sums, more_sums))
        if len(sums) >= aim.limit:
            edge = max(edge, float(np.partition(sums, -aim.limit)[-aim.limit]) * _LOOSE)
        if edge <= rest:
            return None
        kept = sums >= edge - rest
        rows, sums = rows[kept], sums[kept]
        first, share = last, int(ends[last - 1]) * _GROWTH
    return np.sort(rows)


def _summed(
    field: Field, entries: Entries, weights: NDArray[np.float64], chosen: NDArray[np.int64], least: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows to which the *chosen* entries add *least* or more, and how much that is."""
    starts, slots, sizes = field.segment.row_starts, entries.slots[chosen], entries.sizes[chosen]
    here = np.bincount(slots, minlength=len(starts) - 1).nonzero()[0]
    # The rows of these slots alone, one slot after the other.
    ends = (starts[here + 1] - starts[here]).cumsum()
    shifts = np.zeros(len(starts), np.int64)
    shifts[here] = starts[here + 1] - ends
    places = ranges(entries.firsts[chosen], sizes)
    rows, points = entries.every_row[places], entries.every_freq[places].astype(np.float64)
    points /= points + field.norms.rows[rows]
    points *= weights[chosen].repeat(sizes)
    sums: NDArray[Any] = np.bincount(rows - shifts[slots].repeat(sizes), points)
    at = ((sums >= least) & (sums > 0)).nonzero()[0]
    found = at + shifts[here[ends.searchsorted(at, "right")]]
    if field.shown is not None:
        kept = field.shown[found]
        at, found = at[kept], found[kept]
    return found, sums[at]
