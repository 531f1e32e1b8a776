"""What readers find out about stores when nobody waits for it, two stores at a time (`Examiner`)."""

import math
import time
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread
import structlog
from msgspec import Struct

from collated_readers import Budget, Examined, Examiner, State, StoreError
from collated_readers.opening import StoreMoved, ask, open_store

from .catalog import Store, project_root
from .inventory import Inventory

__all__ = ["Examining"]

log = structlog.get_logger()

# Validating and indexing a hundred thousand long records takes a minute on a slow disk.
_LONGEST_S = 600.0
_AGAIN_S = 60.0  # after a failure that may pass
_AT_ONCE = 2  # so that one very large store does not hold up all others
# A store that changes all the time is left alone four times as long as it took, so that it costs a fifth of
# a processor at most.
_REST = 4
_LONGEST_REST_S = 60.0


class _Found(Struct, frozen=True):
    details: Mapping[str, Any]
    again_at: float


class _Due(NamedTuple):
    """When a store is to be examined, 0 where it never was; of those due at once the smallest comes first."""

    at: float
    size_bytes: int
    name: str
    path: str


class Examining:
    """Keeps what was found, by fingerprint; for one event loop."""

    def __init__(self, inventory: Inventory, copies: Path) -> None:
        """Examine the stores of *inventory*; private copies of those being written go into *copies*."""
        self.copy_limit_bytes = 0
        self._inventory = inventory
        self._copies = copies
        self._found: dict[str, _Found] = {}
        self._rests_until: dict[str, float] = {}  # by path
        self._due: list[_Due] = []  # a heap, of the catalog's epoch
        self._epoch = -1
        self._examined: set[str] = set()  # right now
        self._examiners: dict[str, bool] = {}
        self._woken = anyio.Event()
        self._threads = anyio.CapacityLimiter(_AT_ONCE)

    def details(self, store: Store) -> dict[str, Any]:
        """Return what is known of *store* beside its facts."""
        found = self._found.get(store.fingerprint or "")
        return {**store.details, **(found.details if found else {})}

    async def run(self) -> None:
        """Examine whatever there is, until cancelled."""
        self._inventory.listeners.add(lambda _: self._wake())
        await self._inventory.is_ready.wait()
        async with anyio.create_task_group() as tasks:
            for _ in range(_AT_ONCE):
                tasks.start_soon(self._serve)

    async def _serve(self) -> None:
        while True:
            woken = self._woken
            store, wait_s = self._next()
            if store is not None:
                await self._examine(store)
                continue
            with anyio.move_on_after(wait_s):
                await woken.wait()

    def _wake(self) -> None:
        self._woken.set()
        self._woken = anyio.Event()

    def _next(self) -> tuple[Store | None, float]:
        """Return a store that is due, or None and for how many seconds there will be none."""
        if self._epoch != self._inventory.epoch:
            self._line_up()
        if self._due:
            wait_s = self._due[0].at - time.monotonic()
            if wait_s > 0:
                return None, wait_s
            return self._inventory.stores[heappop(self._due).path], 0.0
        return None, math.inf

    def _line_up(self) -> None:
        """Have all contents be examined that are not right now, under one of their names."""
        stores = {store.fingerprint or "": store for store in self._examinable()}
        self._found = {name: found for name, found in self._found.items() if name in stores}
        paths = {store.path for store in stores.values()}
        self._rests_until = {path: at for path, at in self._rests_until.items() if path in paths}
        self._due = [self._due_of(stores[name]) for name in stores.keys() - self._examined]
        heapify(self._due)
        self._epoch = self._inventory.epoch

    def _examinable(self) -> Iterator[Store]:
        examiners = self._examiners
        for store in self._inventory.stores.values():
            if store.state is State.OPEN:
                if (name := store.format or "") not in examiners:  # to ask a protocol takes microseconds
                    examiners[name] = isinstance(self._inventory.reader(store), Examiner)
                if examiners[name]:
                    yield store

    def _due_of(self, store: Store) -> _Due:
        found = self._found.get(store.fingerprint or "")
        size = store.signature.size + store.signature.wal_size if store.signature else 0
        at = max(found.again_at if found else 0.0, self._rests_until.get(store.path, 0.0))
        return _Due(at, size, store.name, store.path)

    async def _examine(self, store: Store) -> None:
        budget, started = Budget.lasting(_LONGEST_S), time.monotonic()
        fingerprint, epoch = store.fingerprint or "", self._epoch
        self._examined.add(fingerprint)
        try:
            examined = await anyio.to_thread.run_sync(
                self._work, store, budget, limiter=self._threads, abandon_on_cancel=True
            )
        except StoreMoved:
            examined = Examined({}, _AGAIN_S)  # by then the catalog has noticed
        except StoreError as error:
            examined = Examined({"error": {"code": error.code, "message": error.message}}, _AGAIN_S)
        except Exception:
            log.exception("examination_failed", store=store.name)
            examined = Examined({})
        finally:
            budget.cancelled = True  # a thread cannot be cancelled
            self._examined.discard(fingerprint)
        now, again_s = time.monotonic(), math.inf if examined.again_s is None else examined.again_s
        self._found[fingerprint] = _Found(examined.details, now + again_s)
        self._rests_until[store.path] = now + min(_REST * (now - started), _LONGEST_REST_S)
        if self._epoch == epoch:
            heappush(self._due, self._due_of(store))
        else:  # who knows whether the store is still called so
            self._epoch = -1
        self._wake()

    def _work(self, store: Store, budget: Budget) -> Examined:
        reader = cast("Examiner", self._inventory.reader(store))  # or it would not be due
        db = open_store(
            Path(store.path), copies=self._copies, copy_limit_bytes=self.copy_limit_bytes, budget=budget
        )
        try:
            if db.signature != store.signature:
                raise StoreMoved
            return ask(db, lambda db: reader.examine(db, project_root(store.path), budget), budget)
        finally:
            db.close()
