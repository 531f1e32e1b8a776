"""What the keeper knows of stores beside their files: sizes, last uses, what failed and when to try again."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from collated.catalog import Store
from collated.protocol import Reason
from collated_readers import State

from .jobs import Refusal, Source
from .planning import Wanted

__all__ = ["Ledger", "backoff_s"]

# Nothing but other contents, another release or `collate cache --clear` will help.
_FOR_GOOD = frozenset(
    {"too_large", "not_offered", "damaged", "wrong_schema", "unsupported_version", "internal"}
)
# States in which a store's contents are most likely what they were.
_PASSING = frozenset({State.OPENING, State.BUSY, State.BUILDING, State.UNREADABLE})
# What a sidecar takes of a store's size, until some are there to tell.
_SHARE = 0.4


class _Failed(Struct, frozen=True):
    reason: Reason
    attempts: int
    again_at: float


def backoff_s(attempts: int) -> float:
    """Return how long to wait after so many failures in a row: 1 s doubling to ten minutes."""
    return min(600.0, float(2 ** min(attempts - 1, 10)))


class Ledger:
    """For one thread at a time, but for `reason`, which only looks. Times are of one clock."""

    def __init__(self) -> None:
        """Know nothing."""
        self._stores: dict[str, Store] = {}
        self._last: dict[str, Store] = {}
        self._sizes: dict[str, float] = {}
        self._alone: set[str] = set()
        self._failed: dict[str, _Failed] = {}

    def take_stock(self, stores: Sequence[Store], shares: Iterable[Mapping[str, float]]) -> None:
        """Learn which stores there are, and what each takes in the files that are there.

        A store that cannot be read just now keeps what was made of it.
        """
        last = self._last
        self._last = {}
        self._stores = {}
        for store in stores:
            known = store if _is_open(store) else last.get(store.path) if store.state in _PASSING else None
            if known is not None and known.fingerprint is not None:
                self._last[store.path] = known
                before = self._stores.setdefault(known.fingerprint, store)
                if not _is_open(before):  # of two paths to the same bytes, one that is open
                    self._stores[known.fingerprint] = store
        for share in shares:
            self._sizes |= share
        for fingerprint in (self._sizes.keys() | self._failed.keys()) - self._stores.keys():
            self._sizes.pop(fingerprint, None)
            self._failed.pop(fingerprint, None)
        self._alone &= self._stores.keys()

    def wanted(self, used: Mapping[str, float], used_all: float) -> dict[str, Wanted]:
        """Return the stores of `take_stock` by fingerprint; *used* has the last use of some names."""
        ratio = self._ratio()
        return {
            fingerprint: Wanted(
                format=self._last[store.path].format or "",
                size_bytes=self._sizes.get(fingerprint, ratio * _size_bytes(self._last[store.path])),
                used=max(used_all, used.get(store.name, 0.0)),
                is_alone=fingerprint in self._alone,
            )
            for fingerprint, store in self._stores.items()
        }

    def refused(self, now: float) -> tuple[frozenset[str], float]:
        """Return the stores not to be built now, and in how many seconds the first of them may be."""
        resting = {name: failed.again_at for name, failed in self._failed.items() if failed.again_at > now}
        closed = (name for name, store in self._stores.items() if not _can_be_built(store))
        return frozenset((*resting, *closed)), min((at - now for at in resting.values()), default=math.inf)

    def source(self, fingerprint: str) -> Source | None:
        """Return what a worker needs to know of an open store."""
        store = self._stores.get(fingerprint)
        if store is None or store.signature is None or store.format is None:
            return None
        return Source(os.fsencode(store.path), store.signature, fingerprint, store.format)

    def note(self, refusals: Iterable[Refusal], now: float) -> None:
        """Remember what was not built."""
        for each in refusals:
            before = self._failed.get(each.fingerprint)
            attempts = before.attempts + 1 if before else 1
            again_at = math.inf if each.code in _FOR_GOOD else now + backoff_s(attempts)
            if each.code == "memory":  # it may well fit by itself
                self._alone.add(each.fingerprint)
                again_at = now
            self._failed[each.fingerprint] = _Failed(Reason(each.code, each.message), attempts, again_at)

    def suspect(self, fingerprints: Sequence[str], message: str, now: float) -> None:
        """Remember that the worker died of one of these; by themselves they show of which."""
        self._alone.update(fingerprints)
        if len(fingerprints) == 1:
            self.note([Refusal(fingerprints[0], "worker_died", message)], now)

    def built(self, fingerprints: Iterable[str]) -> None:
        """Forget what failed before."""
        for fingerprint in fingerprints:
            self._failed.pop(fingerprint, None)
            self._alone.discard(fingerprint)

    def reason(self, fingerprint: str) -> tuple[Reason | None, bool]:
        """Return why a store was not built, and whether that is for good."""
        failed = self._failed.get(fingerprint)
        return (failed.reason, failed.again_at == math.inf) if failed else (None, False)

    def forgive(self) -> None:
        """Forget every failure."""
        self._failed.clear()
        self._alone.clear()

    def _ratio(self) -> float:
        known = [
            (self._sizes[name], _size_bytes(store))
            for name, store in self._stores.items()
            if name in self._sizes
        ]
        of_stores = sum(size for _, size in known)
        return sum(size for size, _ in known) / of_stores if of_stores else _SHARE


def _is_open(store: Store) -> bool:
    return store.state is State.OPEN and store.fingerprint is not None


def _can_be_built(store: Store) -> bool:
    # A negative time marks a copy of a store whose writer does not rest: no worker gets the same one.
    return _is_open(store) and store.signature is not None and store.signature.wal_mtime_ns >= 0


def _size_bytes(store: Store) -> int:
    return store.signature.size + store.signature.wal_size if store.signature else 0
