"""Asking many stores: how long each may take, and what becomes of a failure (DESIGN §8)."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Generic, TypeVar

import anyio
import structlog

from collated_readers import Budget, RequestError, State, StoreError
from collated_readers.opening import StoreConnection, StoreMoved

from .choosing import Choosing, not_open
from .health import Health
from .inventory import Inventory
from .pool import Pool, Question
from .selection import Asked

__all__ = ["GRACE_S", "SHARES", "WORKERS", "Fanout", "partition"]

log = structlog.get_logger()

T = TypeVar("T")
A = TypeVar("A", bound=Asked)

WORKERS = (os.cpu_count() or 1) + 2
"""More than cores, so that stuck stores do not hold up the rest (ENGINEERING §3)."""

SHARES = (4, 1)
"""A store may use a quarter of what is left before the others are served, then all of it."""

# Stores asked in one hop at most, how many such hops at a time, and how long one store may take in it.
_BATCH = 32
_LANES = os.cpu_count() or 1
_QUICK_S = 0.02
_QUICK_RECORDS = 5_000  # a long question takes longer than that over more
# How long after the deadline a statement is given to stop before its store is no longer waited for.
GRACE_S = 0.1
_ATTEMPTS = 3
# A store that had less than this may just have been asked too late; it does not count against it.
_FAIR_S = 0.25
# Failures that say nothing of the store's health: it is being written, its file went, or it answers other
# questions than this one.
_PASSING = frozenset(
    {
        *("keeps_changing", "vanished", "locked", "hot_journal", "building", "opening"),
        *("indexing", "symbols_missing", "invalid_vector", "memory_budget_exceeded", "engine_memory"),
        "sqlite_snapshot_changed",
    }
)


class Fanout:
    """Runs a job on each store of a request, a few at a time, and turns failures into values."""

    def __init__(self, inventory: Inventory, pool: Pool, workers: int = WORKERS) -> None:
        """Ask the stores of *inventory* through *pool*, *workers* of them at a time in each request."""
        self.inventory = inventory
        self.pool = pool
        self.health = Health()
        self.choosing = Choosing(inventory, self.health)
        self._looking_up = asyncio.Lock()
        self._workers = workers

    @property
    def open_stores(self) -> int:
        """Return how many connections are open."""
        return len(self.pool)

    # ----------------------------------------------------------------- asking one

    async def ask(self, asked: Asked, function: Callable[[StoreConnection], T], budget: Budget) -> T:
        """Return what *function* gives on the store as it now is, asked again while it changes.

        Raises:
            StoreError: the store cannot answer; `keeps_changing` after three attempts.
            RequestError: as *function* raises it.
        """
        while True:
            try:
                return await self.ask_once(asked, function, budget)
            except StoreMoved:
                await self.renew(asked)

    async def ask_once(self, asked: Asked, function: Callable[[StoreConnection], T], budget: Budget) -> T:
        """Return what *function* gives on the very bytes that `asked.store` describes.

        Raises:
            StoreMoved: they have changed; `renew` takes the new ones.
            StoreError, RequestError: as `Pool.ask`.
        """
        return await self.pool.ask(asked.store.path, asked.store.signature, function, budget)

    async def renew(self, asked: Asked) -> None:
        """Take the store's new contents into the request.

        Raises:
            StoreError: the store is gone, cannot be opened or is one of another format, which what was
                asked does not suit; or it has changed too often.
        """
        asked.attempts += 1
        if asked.attempts >= _ATTEMPTS:
            raise StoreError(
                "keeps_changing", "it changed each time it was read; ask again when its writer rests"
            )
        store = await self.inventory.refresh(asked.store.path)
        if store is None:
            raise StoreError("vanished", "the store was removed while it was asked")
        if store.state is not State.OPEN:
            failure = not_open(store)
            raise StoreError(failure.code, failure.message)
        if store.format != asked.store.format:
            raise StoreError("vanished", "it was replaced by a store of another format while it was asked")
        asked.store = store

    # ----------------------------------------------------------------- asking many

    async def each(
        self, asked: Iterable[A], job: Callable[[A, Budget], Awaitable[None]], budget: Budget
    ) -> None:
        """Run *job* on each store that has not failed; what a job raises becomes the store's failure.

        A store that takes over a quarter of the budget is put off until the others are served.
        """
        todo = list(asked)
        for share in SHARES:
            if todo:
                todo = await self.serve(todo, job, budget, share)

    async def quick(
        self,
        asked: Sequence[A],
        function: Callable[[A], Callable[[StoreConnection], T]],
        take: Callable[[A, T], Awaitable[None]],
        budget: Budget,
    ) -> list[A]:
        """Ask the stores that are open and small, many in one hop; *take* each answer, return the others.

        Those returned want to be served by themselves. A hop to another thread costs more than most
        stores take to answer. Where a store stands still, those after it in its hop are returned.
        """
        left = dict.fromkeys(asked)
        small, _ = partition(asked)
        if len(small) <= self._workers:
            return list(left)
        size = min(_BATCH, -(-len(small) // _LANES))
        batches = iter([small[start : start + size] for start in range(0, len(small), size)])

        async def work() -> None:
            for batch in batches:
                await self._hop(batch, function, take, left)

        with anyio.move_on_after(budget.remaining() / SHARES[0]):
            async with anyio.create_task_group() as tasks:
                for _ in range(_LANES):
                    tasks.start_soon(work)
        return list(left)

    async def look_up(
        self,
        asked: Sequence[A],
        function: Callable[[A], Callable[[StoreConnection], T]],
        take: Callable[[A, T], Awaitable[None]],
        budget: Budget,
    ) -> list[A]:
        """Ask stores what each answers at once, in one thread at a time; *take* and return as `quick`."""
        if not asked:
            return []
        left = dict.fromkeys(asked)
        with anyio.move_on_after(budget.remaining() / SHARES[0]):
            async with self._turn():
                for start in range(0, len(asked), _BATCH):
                    await self._hop(asked[start : start + _BATCH], function, take, left)
        return list(left)

    async def _hop(
        self,
        batch: Sequence[A],
        function: Callable[[A], Callable[[StoreConnection], T]],
        take: Callable[[A, T], Awaitable[None]],
        left: dict[A, None],
    ) -> None:
        questions = [Question(each.store.path, each.store.signature, function(each)) for each in batch]
        answers = await self.pool.ask_each(questions, _QUICK_S)
        for each, answer in zip(batch, answers, strict=True):
            if answer is not None:
                del left[each]
                self.health.answered(each.store.path)
                await take(each, answer)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Wait while another request looks records up, unless that takes long: its disk may stand still.

        Threads that do little but hold Python's lock in turn take twice as long as one after the other.
        """
        with anyio.move_on_after(_QUICK_S) if self._looking_up.locked() else nullcontext() as waited:
            await self._looking_up.acquire()
        try:
            yield
        finally:
            if waited is None or not waited.cancelled_caught:
                self._looking_up.release()

    async def serve(
        self, asked: Iterable[A], job: Callable[[A, Budget], Awaitable[None]], budget: Budget, share: int
    ) -> list[A]:
        """Run *job* on each store that has not failed, and return those to be asked again later, by name.

        Each may take the budget's *share*-th part; one that needs more is returned while there is time left.
        """
        round_ = _Round([each for each in asked if each.is_answering], job, budget, share)
        with anyio.move_on_after(budget.remaining() + GRACE_S):
            await self._pull(round_)
        late = sorted((*round_.late, *round_.unfinished), key=lambda each: each.store.name)
        if not budget.is_spent():
            return late
        for each in late:
            self._fail(
                each, StoreError("deadline_exceeded", "the store did not answer in time"), round_.slice_s
            )
        return []

    async def _pull(self, round_: "_Round[A]") -> None:
        workers = min(len(round_.unfinished), self._workers)
        if workers <= 1:
            await self._work(round_)
            return
        async with anyio.create_task_group() as tasks:
            for _ in range(workers):
                tasks.start_soon(self._work, round_)

    async def _work(self, round_: "_Round[A]") -> None:
        for each in round_.waiting:
            try:
                await round_.job(each, round_.hop_budget())
            except StoreError as error:
                if error.code == "deadline_exceeded" and round_.share > 1:
                    round_.late.append(each)
                else:
                    self._fail(each, error, round_.slice_s)
            except RequestError as error:
                each.fault = error
            except Exception:
                log.exception("store_failed", store=each.store.name)
                self._fail(each, StoreError("internal", "see the daemon's log"), round_.slice_s)
            else:
                self.health.answered(each.store.path)
            round_.unfinished.remove(each)

    def _fail(self, each: Asked, error: StoreError, slice_s: float) -> None:
        each.fail(error.code, error.message)
        if error.code not in _PASSING and (error.code != "deadline_exceeded" or slice_s >= _FAIR_S):
            self.health.failed(each.store.path, each.store.fingerprint, error.message, time.monotonic())


def partition(asked: Iterable[A]) -> tuple[list[A], list[A]]:
    """Return the stores that are small enough to rank in a hop with others, and those that are not. Pure."""
    small: list[A] = []
    large: list[A] = []
    for each in asked:
        (small if (each.store.records or 0) <= _QUICK_RECORDS else large).append(each)
    return small, large


class _Round(Generic[A]):
    """One pass over the stores of a request: what waits, what is not finished, what was put off."""

    def __init__(
        self, todo: Sequence[A], job: Callable[[A, Budget], Awaitable[None]], budget: Budget, share: int
    ) -> None:
        self.job = job
        self.share = share
        self.waiting = iter(todo)
        self.unfinished = set(todo)
        self.late: list[A] = []
        self._budget = budget
        self.slice_s = budget.remaining() / share

    def hop_budget(self) -> Budget:
        """Return the budget of one store that is asked now."""
        return Budget(min(self._budget.deadline, time.monotonic() + self.slice_s))
