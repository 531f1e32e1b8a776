"""What the arrays know of the stores of this moment, and asking them without holding up the loop."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct

from collated_readers import State

from .catalog import Store
from .inventory import Inventory
from .selection import Chosen
from .sidecars.corpus import Addressed, Corpus
from .sidecars.segment import Segment

__all__ = ["Corpora", "Coverage", "Segments"]

T = TypeVar("T")

# A thread's wake-up costs as much as this many postings take.
_AT_ONCE = 60_000
_CHOICES = 64  # sets of stores that are remembered until something changes


class Segments(Protocol):
    """Who keeps the segments; `generation` moves whenever `segments` is replaced."""

    segments: tuple[Segment, ...]
    generation: int


class Coverage(Struct, eq=False):
    """The stores that a request addresses: in which segments they are, and which are in none."""

    sections: list[Addressed]
    rest: list[tuple[int, Store]]


class Corpora:
    """The corpus of the moment, made anew when a store or a segment has changed."""

    def __init__(self, inventory: Inventory, segments: Segments) -> None:
        """Look at the stores of *inventory* and at *segments*."""
        self._inventory = inventory
        self._segments = segments
        self._of: tuple[int, int] = (-1, -1)
        self._corpus = Corpus((), {})
        self._coverages: dict[frozenset[str], Coverage] = {}
        self._threads = anyio.CapacityLimiter(2)

    def corpus(self) -> Corpus:
        """Return the segments as the catalog now has their stores."""
        now = (self._segments.generation, self._inventory.epoch)
        if now != self._of:
            # Where two files are one, the first by name is in the corpus, the other is asked.
            stores = sorted(self._inventory.stores.values(), key=lambda store: store.name, reverse=True)
            names = {s.fingerprint: s.name for s in stores if s.state is State.OPEN and s.fingerprint}
            self._corpus = Corpus(self._segments.segments, names)
            self._coverages = {}
            self._of = now
        return self._corpus

    def coverage(self, chosen: Chosen) -> Coverage:
        """Return which of the *chosen* stores are in segments, and which (with their place) are not."""
        corpus = self.corpus()
        found = self._coverages.get(chosen.names)
        if found is None:
            if len(self._coverages) >= _CHOICES:
                self._coverages.clear()
            sections = corpus.addressed(chosen.names)
            rest = [each for each in enumerate(chosen.stores) if each[1].name not in corpus.names]
            found = self._coverages[chosen.names] = Coverage(sections, rest)
        return found

    async def compute(self, function: Callable[[], T], cost: int) -> T:
        """Return what *function* gives, in a thread if its *cost* (postings) would hold up the loop."""
        if cost <= _AT_ONCE:
            return function()
        return await anyio.to_thread.run_sync(function, limiter=self._threads)
