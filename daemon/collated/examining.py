"""What readers find out about stores when nobody waits for it, one store at a time (`Examiner`)."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


class _Found(Struct, frozen=True):
    details: Mapping[str, Any]
    again_at: float


class Examining:
    """Keeps what was found, by fingerprint; for one event loop."""

    def __init__(self, inventory: Inventory, copies: Path) -> None:
        """Examine the stores of *inventory*; private copies of those being written go into *copies*."""
        self.copy_limit_bytes = 0
        self._inventory = inventory
        self._copies = copies
        self._found: dict[str, _Found] = {}
        self._woken = anyio.Event()
        self._threads = anyio.CapacityLimiter(1)

    def details(self, store: Store) -> dict[str, Any]:
        """Return what is known of *store* beside its facts."""
        found = self._found.get(store.fingerprint or "")
        return {**store.details, **(found.details if found else {})}

    async def run(self) -> None:
        """Examine whatever there is, until cancelled."""
        self._inventory.listeners.add(lambda _: self._woken.set())
        await self._inventory.is_ready.wait()
        while True:
            self._woken = anyio.Event()
            store, wait_s = self._next()
            if store is not None:
                await self._examine(store)
                continue
            with anyio.move_on_after(wait_s):
                await self._woken.wait()

    def _next(self) -> tuple[Store | None, float]:
        """Return a store that is due, or None and for how many seconds there will be none."""
        stores = [
            store
            for store in self._inventory.stores.values()
            if store.state is State.OPEN and isinstance(self._inventory.reader(store), Examiner)
        ]
        there = {store.fingerprint for store in stores}
        self._found = {name: found for name, found in self._found.items() if name in there}
        due = {store.path: self._due(store) for store in stores}
        first = min(stores, key=lambda store: (due[store.path], store.name), default=None)
        if first is None:
            return None, math.inf
        wait_s = due[first.path] - time.monotonic()
        return (None, wait_s) if wait_s > 0 else (first, 0.0)

    def _due(self, store: Store) -> float:
        found = self._found.get(store.fingerprint or "")
        return found.again_at if found else 0.0

    async def _examine(self, store: Store) -> None:
        budget = Budget.lasting(_LONGEST_S)
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
        again_s = math.inf if examined.again_s is None else examined.again_s
        self._found[store.fingerprint or ""] = _Found(examined.details, time.monotonic() + again_s)

    def _work(self, store: Store, budget: Budget) -> Examined:
        reader = self._inventory.reader(store)
        assert isinstance(reader, Examiner)  # noqa: S101 - or it would not be due
        db = open_store(
            Path(store.path), copies=self._copies, copy_limit_bytes=self.copy_limit_bytes, budget=budget
        )
        try:
            if db.signature != store.signature:
                raise StoreMoved
            return ask(db, lambda db: reader.examine(db, project_root(store.path), budget), budget)
        finally:
            db.close()
