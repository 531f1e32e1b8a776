"""A keeper at work over real stores, with a real worker."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from collated.catalog import Store, opened
from collated.settings import Cache
from collated.sidecars.keeper import Keeper
from collated.sidecars.layout import segment_names
from collated_readers import Budget
from collated_readers.opening import open_store
from collated_readers.registry import identify

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.daemon.conftest import PutStore, Until

GIB = 1 << 30


class Bench:
    """A keeper at work, and the stores that it is told of."""

    def __init__(
        self, root: Path, put: Callable[[Path, str], Path], tasks: anyio.abc.TaskGroup, until: Until
    ) -> None:
        self.root = root
        self.directory = root / "sidecars"
        self.stores: dict[str, Store] = {}
        self._put = put
        self._tasks = tasks
        self.until = until
        self.keeper = self.another()

    def another(self, **settings: Any) -> Keeper:
        """Return a further keeper over the same directory."""
        return Keeper(self.directory, self.root / "copies", Cache(**settings))

    def start(self, keeper: Keeper | None = None) -> Callable[[], Awaitable[None]]:
        """Have a keeper work, and return what ends it."""
        scope, ended = anyio.CancelScope(), anyio.Event()
        chosen = keeper or self.keeper

        async def run() -> None:
            with scope:
                await chosen.run(lambda: list(self.stores.values()), self._known)
            ended.set()

        async def end() -> None:
            scope.cancel()
            await ended.wait()

        self._tasks.start_soon(run)
        return end

    async def _known(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def put(self, name: str, content: str = "fruit") -> Store:
        """Write a store, and tell the keeper of it."""
        self.stores[name] = store = await anyio.to_thread.run_sync(self._opened, name, content)
        self.keeper.wake()
        return store

    def _opened(self, name: str, content: str) -> Store:
        path = self._put(self.root / "stores" / f"{name}.sqlite", content)
        db = open_store(path, copies=self.root, copy_limit_bytes=GIB, budget=Budget.lasting(10))
        try:
            reader, facts = identify(db)
            return opened(Store(str(path), name, None), reader.format, facts, db.signature)
        finally:
            db.close()

    def is_quiet(self) -> bool:
        """Tell whether nothing is built or waits to be."""
        stats = self.keeper.stats()
        return (stats["building"], stats["waiting"], stats["error"]) == (0, 0, None)

    async def settled(self, ready: int, *, keeper: Keeper | None = None) -> None:
        """Wait until so many stores are ready and no other is to be."""
        chosen = keeper or self.keeper

        def is_settled() -> bool:
            stats = chosen.stats()
            return (stats["ready"], stats["building"], stats["waiting"], stats["error"]) == (
                ready,
                0,
                0,
                None,
            )

        await self.until(is_settled)

    async def names(self) -> set[str]:
        """Return the files that are there."""
        return set(await anyio.to_thread.run_sync(segment_names, self.directory))

    async def left(self, count: int) -> None:
        """Wait until there are so many files: who is settled may still have old ones to remove."""
        with anyio.fail_after(10):
            while len(await self.names()) != count:  # noqa: ASYNC110 - nobody tells of files
                await anyio.sleep(0.002)

    def held(self, keeper: Keeper | None = None) -> list[str]:
        """Return the fingerprints in all segments."""
        segments = (keeper or self.keeper).segments
        return sorted(piece.fingerprint for segment in segments for piece in segment.pieces)

    async def entries(self) -> dict[str, tuple[str, str | None]]:
        """Return each store's state, with the code of its reason."""
        found = await self.keeper.entries(self.stores.values())
        return {each.store: (each.state, each.reason.code if each.reason else None) for each in found}


@pytest.fixture(scope="session")
def long_store(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a hundred sections, in which files are about as large as what their stores say."""
    texts = {
        f"d{number}.md": f"# D{number}\n\n" + " ".join(f"w{number + each}" for each in range(99))
        for number in range(100)
    }
    return make_store(tmp_path_factory.mktemp("long") / "long.sqlite", texts)


@pytest.fixture
async def bench(tmp_path: Path, put_store: PutStore, long_store: Path, until: Until) -> AsyncIterator[Bench]:
    """A keeper that does not work yet, and no stores. `put` takes contents of `put_store`, or `long`."""
    ages = itertools.count(1_000_000_000)

    def put(path: Path, content: str) -> Path:
        if content != "long":
            return put_store(path, content)
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(long_store, path)
        age = next(ages)
        os.utime(path, (age, age))
        return path

    async with anyio.create_task_group() as tasks:
        yield Bench(tmp_path, put, tasks, until)
        tasks.cancel_scope.cancel()
