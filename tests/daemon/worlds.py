"""A daemon's parts over a directory of stores, without a daemon."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from tests.daemon.scripted import Coded, Plain, Scripted

from collated.cache import Cache
from collated.corpora import Corpora
from collated.embedding import Embedders
from collated.examining import Examining
from collated.fanout import WORKERS, Fanout
from collated.federation import Federation
from collated.grepping import Grepping
from collated.inventory import Inventory
from collated.methods import Methods
from collated.pool import Pool
from collated.protocol import Changes, GrepParams, GrepResult, ReloadResult, SearchParams, SearchResult
from collated.settings import Settings
from collated.sidecars.keeper import Keeper
from collated.sidecars.segment import Segment
from collated.state import Memory
from collated_readers import Budget, Reader
from collated_readers.contextful.reader import NoEngine

LONG_AGO_S = 1_000_000_000
"""So old that nobody waits for a time stamp to settle."""


class Segments:
    """Segments of a test's own making, in place of a keeper's."""

    def __init__(self) -> None:
        self.segments: tuple[Segment, ...] = ()
        self.generation = 0


class Parts:
    """A daemon's parts over the directory `stores`, put together as `app` does, with nothing running."""

    def __init__(
        self, root: Path, settings: Settings, readers: Sequence[Reader], tasks: anyio.abc.TaskGroup
    ) -> None:
        self.memory = Memory(root / "state" / "state.sqlite")
        self.pool = Pool(root / "copies", settings.cache.copy_limit_bytes, settings.search.max_open_stores)
        self.inventory = Inventory(settings, root / "stores", self.pool, self.memory, readers)
        self.inventory.open_in(tasks)
        self.cache = Cache(settings.cache.answers_bytes)
        self.fanout = Fanout(self.inventory, self.pool)
        self.segments = Segments()
        self.corpora = Corpora(self.inventory, self.segments)
        self.keeper = Keeper(root / "sidecars", root / "copies", settings.cache)
        self.embedders = Embedders(settings.embedding, {})
        self.examining = Examining(self.inventory, root / "copies")
        self.reloads = 0
        self.reload_error: Exception | None = None
        self.methods = Methods(
            settings,
            inventory=self.inventory,
            fanout=self.fanout,
            cache=self.cache,
            memory=self.memory,
            corpora=self.corpora,
            keeper=self.keeper,
            examining=self.examining,
            embedders=self.embedders,
            engine=NoEngine(),
            socket=root / "socket",
            reload=self._reload,
        )

    @property
    def states(self) -> dict[str, str]:
        """Each store's state by name, or where there is one the reason's code."""
        return {s.name: s.reason.code if s.reason else s.state.value for s in self.inventory.in_order()}

    async def look(self) -> Changes:
        """Look as the daemon does first of all, after which it answers."""
        changes = await self.inventory.look(now=True)
        self.inventory.is_ready.set()
        return changes

    async def close(self) -> None:
        await self.pool.close()
        await self.memory.close()

    async def _reload(self) -> ReloadResult:
        self.reloads += 1
        if self.reload_error is not None:
            raise self.reload_error
        return ReloadResult([], await self.look())


Assemble = Callable[..., Parts]


class World:
    """Small real stores, one for each name in a script, and the daemon's parts that ask them."""

    def __init__(
        self, stores: Path, reader: Scripted, assemble: Assemble, workers: int, *others: Reader
    ) -> None:
        self.stores = stores
        self.reader = reader
        self.parts = assemble(readers=[self.reader, *others])
        self.fanout = Fanout(self.parts.inventory, self.parts.pool, workers)
        self._ages = itertools.count(LONG_AGO_S)

    async def open(self) -> None:
        await anyio.to_thread.run_sync(self._write)
        await self.parts.look()

    def path(self, name: str) -> Path:
        return self.stores / f"{name}.sqlite"

    def touch(self, name: str) -> None:
        """Give the store a signature that it never had, and that has long settled."""
        age = next(self._ages)
        os.utime(self.path(name), (age, age))

    def federation(self, *, workers: int = WORKERS, cache: Cache | None = None) -> Federation:
        """Return another one over the same stores; without *cache* nothing is kept."""
        fanout = Fanout(self.parts.inventory, self.parts.pool, workers)
        return Federation(fanout, self.parts.corpora, cache or Cache(0), Embedders({}, {}))

    async def search(self, *, seconds: float = 10.0, **params: object) -> SearchResult:
        """Search for `q`, with the daemon's own cache; *params* by the names of `SearchParams`."""
        asked = msgspec.structs.replace(SearchParams("q"), **params)
        federation = Federation(self.fanout, self.parts.corpora, self.parts.cache, Embedders({}, {}))
        return await federation.search(asked, Budget.lasting(seconds))

    def grepping(self) -> Grepping:
        """Return what greps, with the daemon's own cache."""
        return Grepping(self.fanout, self.parts.corpora, self.parts.cache)

    async def grep(self, *, seconds: float = 10.0, **params: object) -> GrepResult:
        """Grep for `q`, with the daemon's own cache; *params* by the names of `GrepParams`."""
        asked = msgspec.structs.replace(GrepParams("q"), **params)
        return await self.grepping().grep(asked, Budget.lasting(seconds))

    def _write(self) -> None:
        for name in self.reader.script:
            db = sqlite3.connect(self.path(name))
            db.execute("CREATE TABLE t (x)")
            db.close()
            self.touch(name)


class CodeWorld(World):
    """Small real stores that answer as `coded` says."""

    def __init__(self, stores: Path, coded: Coded, assemble: Assemble, workers: int) -> None:
        super().__init__(stores, coded, assemble, workers, Plain({}))
        self.coded = coded
