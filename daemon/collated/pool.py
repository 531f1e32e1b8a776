"""Open stores: the one place where async meets blocking (DESIGN §2, §8).

Each open store is an aiosqlite connection with a thread of its own; a whole reader function runs on
that thread in one hop. Connections are kept in a least-recently-used set.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar, cast

from msgspec import Struct

from collated_readers import Budget
from collated_readers.opening import Signature, StoreConnection, StoreMoved, ask, open_store

from .connection import Connection
from .mounts import is_below, network_mounts

__all__ = ["Pool", "Question"]

T = TypeVar("T")

# A store that is being written is copied before it is read; a gigabyte takes seconds on a slow disk.
_OPENING_S = 30.0
_CLOSING_S = 2.0

# Stores that lie in memory are asked on the event loop if all of them answer within a few milliseconds: to
# wake a thread and be woken by it takes a good part of that. What nobody asked for some seconds may have
# left memory, and a file has no record larger than itself.
_AT_ONCE_S = 0.003
_IN_MEMORY_S = 5.0
_NEAR_BYTES = 4 * 1024 * 1024
_STOP_S = 0.005  # for each of them, should it take longer after all


class _Connection(Connection):
    """A connection to a store that runs whole functions on its thread."""

    is_near = False
    """Whether asking waits neither for locks nor for another machine, nor long for a record's text."""

    async def hop(self, function: Callable[[StoreConnection], T]) -> T:
        """Run *function* with the open store on the connection's thread."""
        # aiosqlite has no public way to run a function on its thread; the version is bounded for this.
        return cast("T", await self._execute(function, self._conn))  # type: ignore[no-untyped-call]  # as above

    @cached_property
    def store(self) -> StoreConnection:
        """Return the store; other threads may `ask` it too."""
        return cast("StoreConnection", self._conn)  # the connector makes nothing else

    @cached_property
    def signature(self) -> Signature:
        """Return the signature of the bytes that this connection reads."""
        return self.store.signature


class _Slot:
    """A place in the set. The last user of a doomed one closes it."""

    __slots__ = ("connection", "is_doomed", "lock", "took_s", "used_at", "users")

    def __init__(self) -> None:
        self.connection: _Connection | None = None
        self.is_doomed = False
        self.lock = asyncio.Lock()
        self.took_s = math.inf  # to answer `ask_each` the last time
        self.used_at = 0.0
        self.users = 0


class Question(Struct, Generic[T]):
    """What `Pool.ask_each` asks of one store."""

    path: str
    signature: Signature | None
    function: Callable[[StoreConnection], T]


class _Round(Generic[T]):
    """Questions for stores that are open, asked one after the other on one thread."""

    def __init__(
        self, questions: Sequence[Question[T]], ready: Sequence[tuple[int, _Slot, _Connection]]
    ) -> None:
        self.answers: list[T | None] = [None] * len(questions)
        self._questions = questions
        self._ready = ready
        self._budgets = [Budget(math.inf) for _ in ready]

    def is_at_hand(self) -> bool:
        """Tell whether to `run` takes so little that the event loop may, as far as one can know."""
        since = time.monotonic() - _IN_MEMORY_S
        return sum(slot.took_s for _, slot, _ in self._ready) <= _AT_ONCE_S and all(
            slot.used_at >= since and connection.is_near and not connection.store.lock.locked()
            for _, slot, connection in self._ready
        )

    def run(self, slice_s: float) -> None:
        """Ask each store, for *slice_s* seconds at most."""
        for (position, slot, connection), budget in zip(self._ready, self._budgets, strict=True):
            started = time.monotonic()
            budget.deadline = started + slice_s
            with suppress(Exception):  # asked by itself, the store says what is wrong
                self.answers[position] = ask(connection.store, self._questions[position].function, budget)
            slot.took_s = time.monotonic() - started

    def cancel(self) -> None:
        """Have `run` stop, on whatever thread it is."""
        for budget in self._budgets:
            budget.cancelled = True


class Pool:
    """Opens stores on demand and closes the least recently used; for one event loop."""

    def __init__(self, copies: Path, copy_limit_bytes: int, max_open: int) -> None:
        """Put private copies into *copies*; keep at most *max_open* idle connections."""
        self._copies = copies
        self.copy_limit_bytes = copy_limit_bytes
        self.max_open = max_open
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._ending: set[asyncio.Future[object]] = set()

    def __len__(self) -> int:
        """Return how many stores are open or being opened."""
        return len(self._slots)

    async def ask(
        self,
        path: str,
        signature: Signature | None,
        function: Callable[[StoreConnection], T],
        budget: Budget,
    ) -> T:
        """Return what *function* gives on the store at *path*, read in one transaction.

        *signature* is that of the bytes the caller means to ask, None for whatever is there. When
        the calling task is cancelled the statement stops with it.

        Raises:
            StoreMoved: the bytes are not, or no longer, those of *signature*.
            StoreError: the store cannot be opened or read, or did not answer within *budget*.
            RequestError: as *function* raises it.
        """
        slot = self._slots.setdefault(path, _Slot())
        self._slots.move_to_end(path)
        slot.users += 1
        try:
            connection = slot.connection or await self._open(path, slot)
            if signature is not None and connection.signature != signature:
                raise StoreMoved  # noqa: TRY301 - one handler for whoever finds it moved
            return await connection.hop(lambda db: ask(db, function, budget))
        except asyncio.CancelledError:
            budget.cancelled = True  # a thread cannot be cancelled: its progress handler reads this
            raise
        except StoreMoved:
            self._doom(path, slot)
            raise
        finally:
            self._release(path, slot)

    async def ask_each(self, questions: Sequence[Question[T]], slice_s: float) -> list[T | None]:
        """Return what stores that are open and quick answer, all in one hop or none; None for every other.

        None says only that the store wants an `ask` of its own: it is not open, it moved, it failed or
        took longer than *slice_s* seconds.
        """
        slots = [self._slots.get(each.path) for each in questions]
        ready = [
            (position, slot, slot.connection)
            for position, slot in enumerate(slots)
            if slot and slot.connection and slot.connection.signature == questions[position].signature
        ]
        round_ = _Round(questions, ready)
        for position, slot, _connection in ready:
            slot.users += 1
            self._slots.move_to_end(questions[position].path)
        try:
            if round_.is_at_hand():
                round_.run(min(slice_s, _STOP_S))
            else:
                await ready[0][2].hop(lambda _: round_.run(slice_s))
        except asyncio.CancelledError:
            round_.cancel()
            raise
        finally:
            for position, slot, _connection in ready:
                self._release(questions[position].path, slot)
        return round_.answers

    def _release(self, path: str, slot: _Slot) -> None:
        slot.users -= 1
        slot.used_at = time.monotonic()
        if slot.connection is None or slot.is_doomed or len(self._slots) > self.max_open:
            self._tidy(path, slot)

    def forget(self, path: str, *, unless: Signature | None = None) -> None:
        """Close the store at *path* once its users are done, but not when it reads the bytes of *unless*."""
        slot = self._slots.get(path)
        if slot is None or (unless and slot.connection and slot.connection.signature == unless):
            return
        self._doom(path, slot)
        self._tidy(path, slot)

    def close_idle(self, idle_s: float, *, but: int = 0) -> int:
        """Close what nobody has used for *idle_s* seconds *but* the last so many stores; return how many."""
        before = time.monotonic() - idle_s
        old = list(self._slots.items())[: max(0, len(self._slots) - but)]
        idle = [path for path, slot in old if not slot.users and slot.used_at <= before]
        for path in idle:
            self.forget(path)
        return len(idle)

    async def close(self) -> None:
        """Close every store, and wait a moment until that is done."""
        for path in list(self._slots):
            self.forget(path)
        if self._ending:
            await asyncio.wait(self._ending, timeout=_CLOSING_S)

    async def _open(self, path: str, slot: _Slot) -> _Connection:
        # Not the request's own budget: the connection outlives the request that wanted it first.
        budget = Budget.lasting(_OPENING_S)

        def connector() -> StoreConnection:
            store = open_store(
                Path(path), copies=self._copies, copy_limit_bytes=self.copy_limit_bytes, budget=budget
            )
            connection.is_near = _is_near(store)
            return store

        async with slot.lock:
            if slot.connection is None:
                connection = _Connection(connector)
                try:
                    slot.connection = cast("_Connection", await connection)
                except BaseException:
                    budget.cancelled = True
                    self._ended(connection.stopped)
                    raise
            return slot.connection

    def _doom(self, path: str, slot: _Slot) -> None:
        slot.is_doomed = True
        if self._slots.get(path) is slot:
            del self._slots[path]

    def _tidy(self, path: str, slot: _Slot) -> None:
        """Close *slot* when nobody uses a doomed one, and the least recently used beyond the limit."""
        if slot.connection is None and not slot.users:
            self._doom(path, slot)
        idle = (each for each in self._slots.items() if not each[1].users)
        over = [each for each, _ in zip(idle, range(len(self._slots) - self.max_open), strict=False)]
        for each, old in over:
            self._doom(each, old)
        for old in (slot, *(old for _, old in over)):
            if old.is_doomed and not old.users and old.connection is not None:
                connection, old.connection = old.connection, None
                self._ended(connection.stop())

    def _ended(self, stopped: "asyncio.Future[object] | None") -> None:
        # Nobody waits for it but `close`: the thread of a store whose disk is gone may never end.
        if stopped is not None:
            self._ending.add(stopped)
            stopped.add_done_callback(self._ending.discard)


def _is_near(store: StoreConnection) -> bool:
    if store.mode in ("rollback", "directory") or store.signature.size > _NEAR_BYTES:
        return False
    mounts = network_mounts()
    return mounts is not None and not is_below(str(store.path), mounts)
