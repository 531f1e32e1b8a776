"""Keeps the sidecars: has them made, loads them, throws them away. Nothing that goes wrong here is fatal."""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import structlog
from msgspec import Struct

from collated.catalog import Store
from collated.protocol import CacheEntry, Reason
from collated.settings import Cache
from collated_readers import State

from . import jobs
from .child import WorkerDied, command_of
from .foreman import Foreman
from .ledger import Ledger, backoff_s
from .planning import Build, Combine, Drop, Limits, Plan, Step, plan
from .segment import Segment
from .shelf import Book, Shelf

__all__ = ["Keeper"]

log = structlog.get_logger()

T = TypeVar("T")
Stores = Callable[[], Iterable[Store]]

# What a worker may hold in memory, and the largest file that is combined in it.
_DATA_LIMIT_BYTES = 1 << 30
_FILE_BYTES = 256 << 20
_LEAST_FILE_BYTES = 1 << 20
# How soon a daemon that had the directory first may have gone, and files may have that nobody told us of.
_LOCKED_S = 5.0
_LOOK_S = 60.0
_ENDING_S = 2.0
_NO_ROOM = Reason("over_budget", "the sidecars of other stores fill cache.sidecar_bytes")


class _Failed(Exception):
    """A step came to nothing, through no fault of one store; it is tried again later."""


class _Outlook(Struct, frozen=True):
    """What a look at everything came to: the plan, the stores by state, when a refused one may be tried."""

    plan: Plan
    counts: Mapping[str, int]
    again_in_s: float


class Keeper:
    """The sidecars of one daemon; all methods are for its event loop.

    `segments` is replaced as a whole, and `generation` moves with it. A store may be in two of them for
    a moment; either is right, and the newer comes first.
    """

    def __init__(self, directory: Path, copies: Path, settings: Cache) -> None:
        """Keep files in *directory*, as *settings* say; private copies of stores go into *copies*."""
        self.segments: tuple[Segment, ...] = ()
        self.generation = 0
        self.error: str | None = None
        self.directory = directory
        self.limit_bytes = 0
        self._copies = copies
        self._copy_limit_bytes = 0
        self._shelf = Shelf(directory)
        self._ledger = Ledger()
        self._foreman = Foreman(self._command)
        self._books: dict[str, Book] = {}
        self._building: frozenset[str] = frozenset()
        self._outlook = _Outlook(Plan(None, frozenset()), {}, math.inf)
        self._used: dict[str, float] = {}
        self._used_all = 0.0
        self._failures = 0
        self._again_at = 0.0
        self._file_bytes = _FILE_BYTES
        self._clearings = 0
        self._woken = anyio.Event()
        self._changing = anyio.Lock()
        self._threads = anyio.CapacityLimiter(1)
        self.adopt(settings)

    # ----------------------------------------------------------------- asking and telling

    @property
    def is_on(self) -> bool:
        """Tell whether there are to be any sidecars."""
        return self.limit_bytes > 0

    def adopt(self, settings: Cache) -> None:
        """Take new settings; files stay where they are when it is off."""
        self.limit_bytes = settings.sidecar_bytes if settings.sidecars else 0
        self._copy_limit_bytes = settings.copy_limit_bytes
        self._again_at = 0.0
        self.wake()

    def wake(self) -> None:
        """Have `run` look again: a store has changed."""
        self._woken.set()

    def touch(self, names: Iterable[str] | None) -> None:
        """Note that the stores of these names are used, None for all; they are kept before others."""
        now = time.monotonic()
        if names is None:
            self._used_all = now
            self._used.clear()
        else:
            self._used.update(dict.fromkeys(names, now))

    def stats(self) -> dict[str, Any]:
        """Return for `status`: stores by state, files, bytes, the worker's process, and what is wrong."""
        counts, building = self._outlook.counts, len(self._building)
        return {
            "ready": counts.get("ready", 0),
            "building": building,
            "waiting": max(0, counts.get("waiting", 0) - building),
            "refused": counts.get("refused", 0),
            "segments": len(self._books),
            "bytes": self.size_bytes,
            "limit_bytes": self.limit_bytes,
            "worker": self._foreman.pid,
            "error": self.error,
        }

    @property
    def is_done(self) -> bool:
        """Tell whether there is all that there can be: no store is asked for what an array could say."""
        counts = self._outlook.counts
        return counts.get("ready", 0) > 0 and not (counts["waiting"] or counts["refused"])

    @property
    def size_bytes(self) -> int:
        """Return how many bytes the files take."""
        return sum(book.file.size_bytes for book in self._books.values())

    async def entries(self, stores: Iterable[Store]) -> list[CacheEntry]:
        """Return what there is for each open one of *stores*, by name."""
        if not self.is_on:
            return []
        chosen = sorted(
            (store for store in stores if store.state is State.OPEN), key=lambda store: store.name
        )
        shares = [book.shares for book in self._books.values()]
        return await self._do(lambda: [self._entry(store, shares) for store in chosen])

    def _entry(self, store: Store, shares: Sequence[Mapping[str, float]]) -> CacheEntry:
        fingerprint = store.fingerprint or ""
        size = next((share[fingerprint] for share in shares if fingerprint in share), None)
        state, reason = "ready", None
        if size is None:
            state, reason = self._missing(fingerprint)
        return CacheEntry(store.name, fingerprint, store.records or 0, round(size or 0), state, reason)

    def _missing(self, fingerprint: str) -> tuple[str, Reason | None]:
        if fingerprint in self._building:
            return "building", None
        if fingerprint in self._outlook.plan.left_out:
            return "refused", _NO_ROOM
        reason, is_for_good = self._ledger.reason(fingerprint)
        return ("refused" if is_for_good else "waiting"), reason

    async def clear(self) -> int:
        """Remove every file and return how many bytes they had; they are made anew unless it is off."""
        self._clearings += 1
        async with self._changing:
            try:
                freed_bytes = await self._do(self._cleared)
            except OSError as error:
                self.error = f"{self.directory}: {error.strerror}"
                return 0
            if freed_bytes is None:
                return 0
            self._replace({})
        self._failures, self._again_at, self._file_bytes = 0, 0.0, _FILE_BYTES
        self.wake()
        return freed_bytes

    def _cleared(self) -> int | None:
        if not self._shelf.acquire():
            return None
        self._ledger.forgive()
        freed_bytes = self._shelf.clear()
        if not self.is_on:
            self._shelf.release()
        return freed_bytes

    # ----------------------------------------------------------------- keeping

    async def run(self, stores: Stores, ready: Callable[[], Awaitable[object]]) -> None:
        """Keep sidecars of the open ones of *stores*, until cancelled.

        What is there is loaded at once; nothing is judged before *ready*, when all stores are known.
        """
        try:
            await self._cycle(None)
            await ready()
            while True:
                self._woken = anyio.Event()
                delay_s = await self._cycle(stores)
                with anyio.move_on_after(delay_s):
                    await self._woken.wait()
        finally:
            with anyio.move_on_after(_ENDING_S, shield=True):
                await self._foreman.end()
            self._shelf.release()

    async def _cycle(self, stores: Stores | None) -> float:
        """Do what there is to do, and return in how many seconds to look again at the latest."""
        try:
            if not self.is_on:
                await self._rest()
                return math.inf
            if not await self._do(self._shelf.acquire):
                await self._rest()
                self.error = f"another daemon keeps its sidecars in {self.directory}"
                return _LOCKED_S
            await self._refresh()
            left_s = self._again_at - time.monotonic()
            if stores is None or left_s > 0:
                return max(0.0, left_s)
            while (step := await self._next(stores)) is not None:
                await self._follow(step)
        except (_Failed, OSError) as error:
            return self._fail(error)
        self.error = None
        return min(self._outlook.again_in_s, await self._foreman.rest(), _LOOK_S)

    def _fail(self, error: _Failed | OSError) -> float:
        message = f"{self.directory}: {error.strerror}" if isinstance(error, OSError) else str(error)
        if message != self.error:
            log.warning("sidecars_failed", message=message)
        self.error = message
        self._failures += 1
        delay_s = min(60.0, backoff_s(self._failures))
        self._again_at = time.monotonic() + delay_s
        return delay_s

    async def _rest(self) -> None:
        """Have nothing, and leave the files to whoever wants them."""
        self.error = None
        self._outlook = _Outlook(Plan(None, frozenset()), {}, math.inf)
        async with self._changing:
            self._replace({})
        await self._foreman.end()
        await self._do(self._shelf.release)

    async def _refresh(self) -> None:
        """Make what is loaded what is there: files may have gone, come, or been written to."""
        async with self._changing:
            there = await self._do(self._shelf.names)
            self._replace(
                {name: book for name, book in self._books.items() if there.get(name) == book.file.identity}
            )
            for name in sorted(there.keys() - self._books.keys()):
                if (book := await self._do(self._shelf.take, name)) is not None:
                    self._replace({**self._books, name: book})

    def _replace(self, books: dict[str, Book]) -> None:
        if books == self._books:
            return
        self._books = books
        newest = sorted(books.values(), key=lambda book: (-book.file.serial, book.file.name))
        self.segments = tuple(book.file.segment for book in newest)
        self.generation += 1

    async def _next(self, stores: Stores) -> Step | None:
        known, books, used = list(stores()), list(self._books.values()), dict(self._used)
        outlook = await self._do(self._decide, known, books, used)
        if not self.is_on:  # turned off meanwhile: files stay
            return None
        self._outlook = outlook
        return outlook.plan.step

    def _decide(self, stores: Sequence[Store], books: Sequence[Book], used: Mapping[str, float]) -> _Outlook:
        now = time.monotonic()
        self._ledger.take_stock(stores, [book.shares for book in books])
        wanted = self._ledger.wanted(used, self._used_all)
        refused, again_in_s = self._ledger.refused(now)
        limits = Limits(self.limit_bytes, self._file_bytes, now)
        planned = plan(wanted, [book.present for book in books], refused, limits)
        ready = {name for book in books for name in book.shares} & wanted.keys()
        gone = {name for name in wanted.keys() - ready if self._ledger.reason(name)[1]} | (
            planned.left_out - ready
        )
        counts = {"ready": len(ready), "refused": len(gone), "waiting": len(wanted) - len(ready) - len(gone)}
        return _Outlook(planned, counts, again_in_s)

    # ----------------------------------------------------------------- one step

    async def _follow(self, step: Step) -> None:
        """Do one step.

        Raises:
            _Failed: it came to nothing.
            OSError: as above.
        """
        match step:
            case Drop(names):
                await self._swap(None, names)
            case Build(fingerprints):
                sources = [self._ledger.source(fingerprint) for fingerprint in fingerprints]
                known = [source for source in sources if source is not None]
                await self._have_done(jobs.Build(known, self._serial()), fingerprints, ())
            case Combine(parts):
                chosen = [(name, list(slots)) for name, slots in parts]
                await self._have_done(jobs.Combine(chosen, self._serial()), (), [name for name, _ in parts])

    async def _have_done(self, job: jobs.Job, fingerprints: Sequence[str], instead_of: Sequence[str]) -> None:
        clearings = self._clearings
        done = await self._done(job, fingerprints)
        if clearings != self._clearings:  # what it was made of is gone
            await self._do(self._shelf.remove, [done.file] if done.file else [])
            return
        await self._do(self._ledger.note, done.refusals, time.monotonic())
        if done.damaged:
            await self._swap(None, done.damaged)
        if done.code == "memory":
            await self._bound(fingerprints, instead_of, done.message)
        elif done.code is not None:
            raise _Failed(_told(done))
        elif done.file is not None:
            await self._swap(done.file, instead_of)
            log.info(
                "sidecars_written", stores=len(fingerprints), files=len(instead_of), seconds=done.seconds
            )
        self._failures = 0

    async def _done(self, job: jobs.Job, fingerprints: Sequence[str]) -> jobs.Done:
        self._building = frozenset(fingerprints)
        try:
            lock = self._shelf.lock
            return await self._foreman.do(job, [] if lock is None else [lock])
        except WorkerDied as error:
            await self._do(self._ledger.suspect, fingerprints, str(error), time.monotonic())
            raise _Failed(str(error)) from error
        finally:
            self._building = frozenset()

    async def _bound(self, fingerprints: Sequence[str], names: Sequence[str], message: str) -> None:
        """Never try again what took more memory than there is."""
        code = "too_large" if len(fingerprints) == 1 else "memory"  # by itself each may fit
        refusals = [jobs.Refusal(fingerprint, code, message) for fingerprint in fingerprints]
        await self._do(self._ledger.note, refusals, time.monotonic())
        if names:
            tried = sum(self._books[name].file.size_bytes for name in names if name in self._books)
            self._file_bytes = max(_LEAST_FILE_BYTES, min(self._file_bytes, tried // 2))

    async def _swap(self, name: str | None, instead_of: Sequence[str]) -> None:
        """Take a new file, if there is one, and let go of others, in one go."""
        async with self._changing:
            books = {key: book for key, book in self._books.items() if key not in instead_of}
            if name is not None:
                books[name] = await self._taken(name)
            self._replace(books)
            await self._do(self._shelf.remove, instead_of)

    async def _taken(self, name: str) -> Book:
        try:
            book = await self._do(self._shelf.take, name)
        except OSError:  # no room for the copy that is loaded: then there is none for the file either
            await self._do(self._shelf.remove, [name])
            raise
        if book is None:
            raise _Failed("a file that was just written cannot be read")
        return book

    def _serial(self) -> int:
        return 1 + max((book.file.serial for book in self._books.values()), default=0)

    def _command(self) -> list[str]:
        return command_of(self.directory, self._copies, self._copy_limit_bytes, _DATA_LIMIT_BYTES)

    async def _do(self, function: Callable[..., T], *arguments: Any) -> T:  # of whatever the function takes
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads)


def _told(done: jobs.Done) -> str:
    if done.code == "disk_full":
        return "no room on the disk for sidecars"
    return f"{done.code}: {done.message}"
