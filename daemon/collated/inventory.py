"""Keeps the catalog true: looks, decides with `catalog`, opens, remembers, tells (DESIGN §4)."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import structlog
from msgspec.structs import replace

from collated_readers import Budget, Reader, State, StoreError, StoreFacts
from collated_readers.opening import Signature, StoreConnection, take_signature, translate
from collated_readers.opening.failure import FAILURES
from collated_readers.registry import identify

from . import catalog
from .catalog import Found, Pending, Store
from .filters import Filters, make_filter
from .locate import Listing, listing, pinned_names
from .mounts import network_mounts
from .pool import Pool
from .protocol import Changes, Reason
from .settings import Pinned, Settings, Watched
from .state import Memory
from .watch import Watch

__all__ = ["Inventory"]

log = structlog.get_logger()

_OPENING_S = 30.0
# Opening is mostly work; one more than there are cores, so that a slow disk does not idle them.
_OPENERS = (os.cpu_count() or 1) + 1
# How long a look waits for the stores that it opens; those that take longer go on by themselves.
_PATIENCE_S = 1.0
# How long nobody looks at the most, after a look that took long.
_REST_S = 1.0
# Network file systems report nothing, and a watch that failed reports nothing either.
_POLL_S = 0.5
# How many filters are taken in before the event loop may do something else: a few milliseconds.
_FILTERS_AT_ONCE = 50
_UNSETTLED = (State.BUSY, State.BUILDING, State.UNREADABLE)


class Inventory:
    """The catalog of one daemon; all methods are for its event loop."""

    def __init__(
        self, settings: Settings, stores_dir: Path, pool: Pool, memory: Memory, readers: Sequence[Reader]
    ) -> None:
        """Look where *settings* say, and always in *stores_dir*, where `collate add` makes its links."""
        self._stores_dir = stores_dir
        self._pool = pool
        self._memory = memory
        self._readers = {reader.format: reader for reader in readers}
        self.stores: dict[str, Store] = {}
        self.filters = Filters()
        self.epoch = 0
        self.looks = 0
        self.is_ready = anyio.Event()
        self.listeners: set[Callable[[Changes], None]] = set()
        self._by_name: dict[str, Store] = {}
        self._pinned: dict[str, str] = {}
        self._announced: dict[str, Store] = {}
        self._pending: dict[str, Pending] = {}
        self._retries: dict[str, tuple[int, float]] = {}
        self._opening: dict[str, anyio.Event] = {}
        self._first: list[anyio.Event] = []
        self._tasks: anyio.abc.TaskGroup
        self._must_poll = False
        self._looking_s = 0.0
        self._named: tuple[object, dict[str, str]] = (None, {})
        self._wake = anyio.Event()
        self._looking = anyio.Lock()
        self._openers = anyio.CapacityLimiter(_OPENERS)
        self._scanner = anyio.CapacityLimiter(1)
        self.watch = Watch(self.wake)
        self.adopt(settings)

    # ----------------------------------------------------------------- reading the catalog

    def reader(self, store: Store) -> Reader:
        """Return the reader of an open store."""
        return self._readers[store.format or ""]

    def capabilities(self, store: Store) -> frozenset[str]:
        """Return the wire methods that *store* can answer; none unless it is open."""
        if store.state is not State.OPEN or store.format not in self._readers:
            return frozenset()
        return self._readers[store.format].capabilities

    def named(self, name: str) -> Store | None:
        """Return the store of that name."""
        return self._by_name.get(name)

    def in_order(self) -> list[Store]:
        """Return all stores by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    @property
    def formats(self) -> dict[str, str]:
        """Return the schema versions that are supported, by format."""
        return {name: reader.versions for name, reader in self._readers.items()}

    # ----------------------------------------------------------------- keeping it true

    def adopt(self, settings: Settings) -> None:
        """Take new settings; the next look acts on them."""
        self._settings = settings
        self._watched = (*settings.watch, Watched(str(self._stores_dir)))

    def wake(self) -> None:
        """Make the loop look again soon."""
        self._wake.set()

    def open_in(self, tasks: anyio.abc.TaskGroup) -> None:
        """Open stores in *tasks* from now on; `run` has its own, whoever looks without it must say where."""
        self._tasks = tasks

    async def run(self) -> None:
        """Look, wait for a reason, look again; until cancelled."""
        async with self._looking:  # a client that asks for a look at once gets one after this
            await self._remember()
        async with anyio.create_task_group() as tasks:
            self.open_in(tasks)
            if self._settings.discovery.events:
                tasks.start_soon(self.watch.run)
            while True:
                self._wake = anyio.Event()
                await self.look(now=not self.is_ready.is_set())
                if not self.is_ready.is_set():
                    self._first = list(self._opening.values())
                    self.is_ready.set()
                # However busy the directories are, looking at them takes a fifth of the time at most.
                await anyio.sleep(min(_REST_S, 4 * self._looking_s))
                with anyio.move_on_after(self._delay_s()):
                    await self._wake.wait()

    async def first_opened(self) -> None:
        """Wait for the stores of the first look, those that take long to open included."""
        while self._first:
            done = self._first[-1]
            await done.wait()
            if self._first and self._first[-1] is done:
                self._first.pop()

    @property
    def is_settled(self) -> bool:
        """Tell whether the first look is over, and all stores that it opened are open."""
        return self.is_ready.is_set() and not self._first

    async def all_opened(self) -> None:
        """Wait for the stores that are being opened now."""
        for done in list(self._opening.values()):
            await done.wait()

    async def look(self, *, now: bool) -> Changes:
        """Make the catalog what the disk holds, and return what changed.

        With *now* every changed store is opened at once; else one whose writer is at work is given
        time to rest (`discovery.settle_ms`).
        """
        async with self._looking:
            began = time.monotonic()
            found = await self._scan()
            known = {path: store.signature for path, store in self.stores.items()}
            plan = catalog.plan(known, _signatures(found))
            self._forget(plan.close)
            self._enter(found)
            due = self._due(found, plan.open, now=now)
            self._looking_s = time.monotonic() - began
            await self._open_all(found[path] for path in due)
            self.looks += 1
            return await self._announce()

    async def refresh(self, path: str) -> Store | None:
        """Open the store at *path* anew, whose bytes are not what the catalog says; None if it is gone."""
        try:
            signature = await anyio.to_thread.run_sync(take_signature, Path(path), limiter=self._openers)
        except StoreError as error:
            if path in self.stores:
                self._put(catalog.without(self.stores[path], error, None))
        else:
            await self._open(Found(path, None, signature))
        await self._announce()
        return self.stores.get(path)

    # ----------------------------------------------------------------- the steps of a look

    async def _remember(self) -> None:
        """Take in what the last run knew."""
        known = await self._memory.load()
        stores = {p: s for p, s in known.items() if s.format is None or s.format in self._readers}
        for number, store in enumerate(stores.values()):
            self.filters.put(store.path, store.term_filter)
            if number % _FILTERS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        self.stores, self._announced = stores, dict(stores)

    async def _scan(self) -> dict[str, Found]:
        result, self._pinned = await anyio.to_thread.run_sync(
            _listing, self._watched, self._settings.store, limiter=self._scanner
        )
        self._must_poll = result.must_poll
        self.watch.cover(result.directories)
        return result.found

    def _forget(self, paths: Iterable[str]) -> None:
        gone = [self.stores.pop(path) for path in paths]
        # Before anything is awaited: an answer made meanwhile must not hold what the epoch says is gone.
        self._by_name = {store.name: store for store in self.stores.values()}
        self.epoch += len(gone)
        for store in gone:
            self._pending.pop(store.path, None)
            self._retries.pop(store.path, None)
            self.filters.remove(store.path)
            self._pool.forget(store.path)

    def _enter(self, found: Mapping[str, Found]) -> None:
        """Give every found file its name, the new ones and those that cannot even be looked at a state."""
        asked = ({path: each.wanted for path, each in found.items()}, self._pinned)
        if asked != self._named[0]:
            self._named = (asked, catalog.assign_names(found.values(), self._pinned))
        for path, name in self._named[1].items():
            store, reason = self.stores.get(path), found[path].reason
            if store is not None and store.name == name and reason is None:
                continue
            store = replace(store or Store(path=path, name=name, signature=None), name=name)
            if reason is not None:
                store = catalog.without(store, StoreError(reason.code, reason.message), None)
            self._put(store)
        self._by_name = {store.name: store for store in self.stores.values()}

    def _due(self, found: Mapping[str, Found], changed: Sequence[str], *, now: bool) -> list[str]:
        clock = time.monotonic()
        waiting = (path for path, (_, at) in self._retries.items() if path in found and (now or at <= clock))
        wanted = dict.fromkeys((*changed, *waiting))
        if now:
            self._pending.clear()
            return sorted(wanted)
        discovery = self._settings.discovery
        due, self._pending = catalog.settle(
            self._pending,
            {path: found[path].signature for path in changed},
            clock,
            quiet_s=discovery.settle_ms / 1_000,
            limit_s=discovery.settle_limit_ms / 1_000,
        )
        return sorted({*due, *wanted.keys()} - self._pending.keys())

    async def _open_all(self, found: Iterable[Found]) -> None:
        """Open stores; one that takes long holds up neither the look nor the next one."""
        opening = [self._start(each) for each in found]
        with anyio.move_on_after(_PATIENCE_S):
            for done in opening:
                await done.wait()

    def _start(self, found: Found) -> anyio.Event:
        done = self._opening.get(found.path)
        if done is None:
            self._opening[found.path] = done = anyio.Event()
            self._tasks.start_soon(self._open_by_itself, found, done)
        return done

    async def _open_by_itself(self, found: Found, done: anyio.Event) -> None:
        try:
            await self._open(found)
        finally:
            del self._opening[found.path]
            done.set()
            if not self._looking.locked():  # else that look tells of it
                self.wake()

    async def _open(self, found: Found) -> None:
        async with self._openers:
            store = self.stores.get(found.path)
            outcome = await self._identify(found, store) if store else None
        now = self.stores.get(found.path)  # a look may have found it gone or renamed it meanwhile
        if outcome is None or now is None:
            return
        self._put(replace(outcome, name=now.name))
        attempts, _ = self._retries.pop(found.path, (0, 0.0))
        if outcome.state in _UNSETTLED:
            again = time.monotonic() + catalog.retry_delay_s(attempts)
            self._retries[found.path] = (attempts + 1, again)

    async def _identify(self, found: Found, store: Store) -> Store:
        self._pool.forget(found.path, unless=found.signature)
        try:
            name, facts, signature, term_filter = await self._pool.ask(
                found.path, None, self._look_into, Budget.lasting(_OPENING_S)
            )
        except StoreError as error:
            return catalog.without(store, error, found.signature)
        except Exception:
            log.exception("store_open_failed", store=store.name, path=catalog.shown(found.path))
            return catalog.without(store, StoreError("internal", "see the daemon's log"), found.signature)
        return catalog.opened(store, name, facts, signature, term_filter=term_filter)

    def _look_into(self, db: StoreConnection) -> tuple[str, StoreFacts, Signature, bytes | None]:
        reader, facts = identify(db, tuple(self._readers.values()))
        term_filter = _term_filter(reader, db)
        db.execute("PRAGMA shrink_memory")  # all pages of the index were read, and may never be again
        return reader.format, facts, db.signature, term_filter

    # ----------------------------------------------------------------- small things

    def _put(self, store: Store) -> None:
        before = self.stores.get(store.path)
        self.stores[store.path] = store
        self._by_name[store.name] = store
        if before is None or store.term_filter != before.term_filter:
            self.filters.put(store.path, store.term_filter)
        if store != before:
            self.epoch += 1

    async def _announce(self) -> Changes:
        """Tell what has changed since the last time, what a look that was cancelled has found included."""
        before, after = self._announced, dict(self.stores)
        if after == before:
            return Changes([], [], [])
        self._announced = after
        self._by_name = {store.name: store for store in after.values()}
        changed = [store for path, store in after.items() if before.get(path) != store]
        for store in changed:
            log.info("store", store=store.name, state=store.state.value, reason=_code(store.reason))
        result = catalog.changes(before, after)
        for listener in list(self.listeners):
            listener(result)
        with anyio.CancelScope(shield=True):
            await self._memory.save(changed, before.keys() - after.keys())
        return result

    def _delay_s(self) -> float:
        discovery = self._settings.discovery
        delay = discovery.rescan_s
        if self._must_poll or self.watch.error:
            delay = min(delay, _POLL_S)
        if self._pending:
            delay = min(delay, max(0.02, discovery.settle_ms / 2_000))
        if self._retries:
            soonest = min(at for _, at in self._retries.values())
            delay = min(delay, max(0.02, soonest - time.monotonic()))
        return delay


def _listing(watched: Sequence[Watched], pinned: Sequence[Pinned]) -> tuple[Listing, dict[str, str]]:
    return listing(watched, pinned, network_mounts() or ()), pinned_names(pinned)


def _term_filter(reader: Reader, db: StoreConnection) -> bytes | None:
    """Return the filter of a store's terms; None where they cannot be told, so that it is always asked."""
    try:
        terms = reader.vocabulary(db)
        return None if terms is None else make_filter(terms)
    except FAILURES as error:  # whatever else can be read of it can be answered from
        reason = translate(error, db.path)
        log.warning("terms_not_read", path=catalog.shown(str(db.path)), code=reason.code)
        return None


def _signatures(found: Mapping[str, Found]) -> dict[str, Signature | None]:
    return {path: each.signature for path, each in found.items()}


def _code(reason: Reason | None) -> str | None:
    return reason.code if reason else None
