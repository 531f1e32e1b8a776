"""Who is asked: the stores that a request names, or all, less those that cannot answer it (DESIGN §8)."""

import difflib
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collated_readers import OwnRanking, Reader, State

from .catalog import Store
from .errors import RequestFailed
from .health import Health
from .inventory import Inventory
from .protocol import Failure
from .selection import Chosen, Selection

__all__ = ["Choosing", "not_open"]

_CHOICES = 64  # sets of stores that are remembered until the catalog changes


class Choosing:
    """Chooses the stores of each request; a choice is made once for each state of the catalog."""

    def __init__(self, inventory: Inventory, health: Health) -> None:
        """Choose from *inventory*, and leave alone what *health* says keeps failing."""
        self._inventory = inventory
        self._health = health
        self._chosen: dict[tuple[object, ...], Chosen] = {}

    def select(self, method: str, names: Sequence[str] | None, formats: Sequence[str] | None) -> Selection:
        """Return the stores that *names* and *formats* address; None addresses all.

        A store that was refused is not asked unless it is named; one that is busy, building or
        unreadable has failed to answer, since nobody knows what it holds.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params` for an unknown format.
        """
        key = (self._inventory.epoch, method, frozenset(names or ()), frozenset(formats or ()))
        if not self._health.is_perfect:  # who is left alone changes with the time
            return Selection(self._choose(method, names, formats), self._inventory.reader)
        if key not in self._chosen:
            if len(self._chosen) >= _CHOICES:
                self._chosen.clear()
            self._chosen[key] = self._choose(method, names, formats)
        return Selection(self._chosen[key], self._inventory.reader)

    def _choose(self, method: str, names: Sequence[str] | None, formats: Sequence[str] | None) -> Chosen:
        self.check_formats(formats)
        stores = [self.known(name) for name in sorted(set(names))] if names else self._inventory.in_order()
        asked: list[Store] = []
        failed: list[Failure] = []
        skipped = 0
        now = time.monotonic()
        for store in stores:
            if formats and store.format is not None and store.format not in formats:
                continue
            if store.state is not State.OPEN:
                if names or store.state is not State.REFUSED:
                    failed.append(not_open(store))
            elif method not in self._inventory.capabilities(store):
                skipped += 1
            elif reason := self._health.backed_off(store.path, store.fingerprint, now):
                failed.append(Failure(store.name, "backed_off", reason))
            else:
                asked.append(store)
        readers = self._readers(asked)
        own = (
            asked[int(place)].name
            for reader, places, _ in readers
            if isinstance(reader, OwnRanking)
            for place in places
        )
        by_name = {store.name: store for store in asked}
        return Chosen(
            tuple(asked), tuple(failed), skipped, frozenset(by_name), by_name, readers, frozenset(own)
        )

    def _readers(
        self, stores: Sequence[Store]
    ) -> tuple[tuple[Reader, NDArray[np.int64], NDArray[np.int64]], ...]:
        """Return the readers of *stores*, each with its places there and its slots in the filters."""
        places: dict[str, list[int]] = {}
        for place, store in enumerate(stores):
            places.setdefault(store.format or "", []).append(place)
        slots = self._inventory.filters.slots_of([store.path for store in stores])
        return tuple(
            (self._inventory.reader(stores[each[0]]), np.array(each), slots[each]) for each in places.values()
        )

    def known(self, name: str) -> Store:
        """Return the store called *name*.

        Raises:
            RequestFailed: `unknown_store`, suggesting the closest names.
        """
        store = self._inventory.named(name)
        if store is None:
            every = [each.name for each in self._inventory.in_order()]
            close = difflib.get_close_matches(name, every, n=3, cutoff=0.4)
            suggestion = f"did you mean {', '.join(close)}?" if close else "`collate stores` lists them"
            raise RequestFailed("unknown_store", f"there is no store {name!r}", suggestion)
        return store

    def check_formats(self, formats: Sequence[str] | None) -> None:
        """Raise `invalid_params` for a format that no reader has."""
        supported = self._inventory.formats
        for each in formats or ():
            if each not in supported:
                raise RequestFailed(
                    "invalid_params", f"there is no format {each!r}", f"one of {', '.join(sorted(supported))}"
                )


def not_open(store: Store) -> Failure:
    """Return why *store*, which is not open, cannot answer."""
    code, message = (store.reason.code, store.reason.message) if store.reason else ("opening", "not open yet")
    return Failure(store.name, code, message)
