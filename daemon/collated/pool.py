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
from pathlib import Path
from typing import Generic, TypeVar, cast

from msgspec import Struct

from collated_readers import Budget
from collated_readers.opening import Signature, StoreConnection, StoreMoved, ask, open_store

from .connection import Connection

__all__ = ["Pool", "Question"]

T = TypeVar("T")

# A store that is being written is copied before it is read; a gigabyte takes seconds on a slow disk.
_OPENING_S = 30.0
_CLOSING_S = 2.0


class _Connection(Connection):
    """A connection to a store that runs whole functions on its thread."""

    async def hop(self, function: Callable[[StoreConnection], T]) -> T:
        """Run *function* with the open store on the connection's thread."""
        # aiosqlite has no public way to run a function on its thread; the version is bounded for this.
        return cast("T", await self._execute(function, self._conn))  # type: ignore[no-untyped-call]  # as above

    @property
    def store(self) -> StoreConnection:
        """Return the store; other threads may `ask` it too."""
        return cast("StoreConnection", self._conn)  # the connector makes nothing else

    @property
    def signature(self) -> Signature:
        """Return the signature of the bytes that this connection reads."""
        return self.store.signature


class _Slot:
    """A place in the set. The last user of a doomed one closes it."""

    __slots__ = ("connection", "is_doomed", "lock", "used_at", "users")

    def __init__(self) -> None:
        self.connection: _Connection | None = None
        self.is_doomed = False
        self.lock = asyncio.Lock()
        self.used_at = 0.0
        self.users = 0


class Question(Struct, Generic[T]):
    """What `Pool.ask_each` asks of one store."""

    path: str
    signature: Signature | None
    function: Callable[[StoreConnection], T]


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
        """Return what stores that are open and quick answer, all in one hop; None for every other.

        None says only that the store wants an `ask` of its own: it is not open, it moved, it failed or
        took longer than *slice_s* seconds.
        """
        answers: list[T | None] = [None] * len(questions)
        budgets = [Budget(math.inf) for _ in questions]
        slots = [self._slots.get(each.path) for each in questions]
        ready = [
            (position, slot, slot.connection)
            for position, slot in enumerate(slots)
            if slot and slot.connection and slot.connection.signature == questions[position].signature
        ]

        def run(_: StoreConnection) -> None:
            for position, _slot, connection in ready:
                budgets[position].deadline = time.monotonic() + slice_s
                with suppress(Exception):  # asked by itself, the store says what is wrong
                    function = questions[position].function
                    answers[position] = ask(connection.store, function, budgets[position])

        for position, slot, _connection in ready:
            slot.users += 1
            self._slots.move_to_end(questions[position].path)
        try:
            if ready:
                await ready[0][2].hop(run)
        except asyncio.CancelledError:
            for budget in budgets:
                budget.cancelled = True
            raise
        finally:
            for position, slot, _connection in ready:
                self._release(questions[position].path, slot)
        return answers

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
            return open_store(
                Path(path), copies=self._copies, copy_limit_bytes=self.copy_limit_bytes, budget=budget
            )

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
