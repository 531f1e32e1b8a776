"""The keeper over real stores and a real worker: what is there is right, and no failure is fatal."""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest
from msgspec.structs import replace

from collated.catalog import Store, opened, without
from collated.settings import Cache
from collated.sidecars.keeper import Keeper
from collated.sidecars.layout import segment_names
from collated_readers import Budget, StoreError
from collated_readers.opening import open_store
from collated_readers.registry import identify

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.daemon.conftest import PutStore, Until

pytestmark = pytest.mark.anyio

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

    async def entries(self) -> dict[str, tuple[str, str | None]]:
        """Return each store's state, with the code of its reason."""
        found = await self.keeper.entries(self.stores.values())
        return {each.store: (each.state, each.reason.code if each.reason else None) for each in found}


def held(keeper: Keeper) -> list[str]:
    """Return the fingerprints in all segments."""
    return sorted(piece.fingerprint for segment in keeper.segments for piece in segment.pieces)


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


# --------------------------------------------------------------------------- making and keeping


async def test_stores_get_sidecars_and_all_is_told(bench: Bench) -> None:
    changes: list[int] = []
    bench.keeper.on_change = lambda: changes.append(bench.keeper.generation)
    fruit, trees = await bench.put("fruit"), await bench.put("trees", "trees")
    bench.start()
    await bench.settled(2)

    assert held(bench.keeper) == sorted(str(store.fingerprint) for store in (fruit, trees))
    assert changes == list(range(1, bench.keeper.generation + 1))
    stats = bench.keeper.stats()
    assert stats["segments"] == len(bench.keeper.segments) == len(await bench.names())
    assert 0 < stats["bytes"] <= stats["limit_bytes"]
    entries = await bench.keeper.entries(bench.stores.values())
    assert [(each.store, each.state, each.records) for each in entries] == [
        ("fruit", "ready", 3),
        ("trees", "ready", 2),
    ]
    assert sum(each.bytes for each in entries) == pytest.approx(stats["bytes"], abs=2)


async def test_another_start_finds_what_is_there_and_builds_nothing(bench: Bench) -> None:
    for number in range(5):
        await bench.put(f"s{number}")
    end = bench.start()
    await bench.settled(5)
    before = await bench.names()
    await end()
    again = bench.another()
    bench.start(again)
    await bench.settled(5, keeper=again)
    assert await bench.names() == before
    assert again.stats()["worker"] is None
    assert held(again) == held(bench.keeper)


async def test_a_rewritten_store_gets_a_new_sidecar_and_its_old_one_goes(bench: Bench) -> None:
    old = await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    new = await bench.put("fruit", "trees")
    await bench.until(lambda: held(bench.keeper) == [new.fingerprint])
    assert old.fingerprint != new.fingerprint
    await bench.settled(1)
    assert len(await bench.names()) == 1


async def test_a_store_that_is_gone_takes_its_sidecar_with_it(bench: Bench) -> None:
    await bench.put("fruit")
    await bench.put("trees", "trees")
    bench.start()
    await bench.settled(2)
    bench.stores.clear()
    bench.keeper.wake()
    await bench.settled(0)
    assert await bench.names() == set()
    assert bench.keeper.segments == ()


async def test_a_store_that_is_busy_for_a_while_keeps_its_sidecar(bench: Bench) -> None:
    store = await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    before = await bench.names()
    bench.stores["fruit"] = without(store, StoreError("locked", "locked"), store.signature)
    await bench.put("trees", "trees")
    await bench.settled(2)
    assert before <= await bench.names()
    bench.stores["fruit"] = store
    bench.keeper.wake()
    await bench.settled(2)
    assert before <= await bench.names()


@pytest.mark.slow
async def test_many_small_changes_leave_a_few_files(bench: Bench) -> None:
    bench.start()
    for number in range(20):
        await bench.put(f"s{number}")
        await bench.settled(number + 1)
    assert len(await bench.names()) <= 8
    assert len(held(bench.keeper)) == 20


async def test_two_paths_to_the_same_bytes_share_a_sidecar(bench: Bench) -> None:
    store = await bench.put("fruit")
    bench.stores["twin"] = replace(store, path="/elsewhere", name="twin")
    bench.start()
    await bench.settled(1)
    assert held(bench.keeper) == [store.fingerprint]
    assert {state for state, _ in (await bench.entries()).values()} == {"ready"}


# --------------------------------------------------------------------------- what cannot be built


async def test_a_store_that_cannot_be_built_is_told_and_holds_up_no_other(bench: Bench) -> None:
    await bench.put("fruit")
    broken = await bench.put("broken")
    await anyio.to_thread.run_sync(os.truncate, broken.path, 100)
    bench.start()
    await bench.until(lambda: bench.keeper.stats()["ready"] == 1)
    assert await bench.entries() == {"broken": ("waiting", "keeps_changing"), "fruit": ("ready", None)}
    assert bench.keeper.error is None


@pytest.mark.slow
async def test_a_store_for_which_there_is_no_room_is_left_out(bench: Bench) -> None:
    limit = 400_000
    bench.keeper.adopt(Cache(sidecar_bytes=limit))
    for number in range(8):
        await bench.put(f"s{number}", "long")
    bench.start()
    await bench.until(lambda: bench.keeper.stats()["ready"] and bench.is_quiet())
    stats = bench.keeper.stats()
    assert limit / 2 < stats["bytes"] <= limit
    assert stats["refused"] == 8 - stats["ready"] > 0
    assert ("refused", "over_budget") in (await bench.entries()).values()


# --------------------------------------------------------------------------- damage


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda path: os.truncate(path, 50),
    "overwritten": lambda path: path.write_bytes(b"x" * path.stat().st_size),
    "of another version": lambda path: path.write_bytes(
        path.read_bytes().replace(b"\x93collseg\x01", b"\x93collseg\x02")
    ),
    "emptied": lambda path: os.truncate(path, 0),
    "gone": Path.unlink,
    "a link": linked,
    "unreadable": lambda path: path.chmod(0),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_file_that_is_damaged_while_nobody_looks_is_built_anew(bench: Bench, damage: str) -> None:
    await bench.put("fruit")
    end = bench.start()
    await bench.settled(1)
    await end()
    (name,) = await bench.names()
    await anyio.to_thread.run_sync(DAMAGES[damage], bench.directory / name)
    again = bench.another()
    bench.start(again)
    await bench.settled(1, keeper=again)
    if damage != "unreadable" or os.geteuid() != 0:
        assert name not in await bench.names()


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_file_that_is_damaged_while_it_is_used_is_built_anew_and_until_then_right(
    bench: Bench, damage: str
) -> None:
    store = await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    before = bench.keeper.segments
    words = before[0].terms()
    (name,) = await bench.names()
    await anyio.to_thread.run_sync(DAMAGES[damage], bench.directory / name)
    assert before[0].terms() == words
    bench.keeper.wake()
    is_readable = damage == "unreadable" and os.geteuid() == 0
    await bench.until(lambda: is_readable or bench.keeper.segments not in ((), before))
    await bench.settled(1)
    assert held(bench.keeper) == [store.fingerprint]
    assert bench.keeper.segments[0].terms() == words


async def test_a_cache_directory_that_is_removed_is_made_anew(bench: Bench) -> None:
    await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    await anyio.to_thread.run_sync(shutil.rmtree, bench.directory)
    await bench.put("trees", "trees")
    await bench.settled(2)
    assert await bench.names()


@pytest.mark.slow
async def test_what_nobody_made_is_thrown_away(bench: Bench) -> None:
    bench.directory.mkdir()
    (bench.directory / "x.segment").write_bytes(b"anything")
    (bench.directory / "y.part").write_bytes(b"half")
    bench.start()
    await bench.put("fruit")
    await bench.settled(1)
    left = await anyio.to_thread.run_sync(os.listdir, bench.directory)
    assert sorted(left) == sorted([*(await bench.names()), "lock"])
    assert "x.segment" not in left


# --------------------------------------------------------------------------- failures


@contextmanager
def small_files(limit: int) -> Generator[None]:
    """Let no file grow beyond *limit* bytes, as where the disk is full; a worker that starts inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_is_told_and_made_good_by_itself(bench: Bench) -> None:
    await bench.put("fruit")
    with small_files(500):
        bench.start()
        await bench.until(lambda: bench.keeper.error)
        assert bench.keeper.error == "no room on the disk for sidecars"
        assert await bench.entries() == {"fruit": ("waiting", None)}
        assert await bench.names() == set()
        pid = bench.keeper.stats()["worker"]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE))
    await bench.settled(1)


@pytest.mark.slow
async def test_a_worker_that_is_killed_is_replaced(bench: Bench) -> None:
    await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    os.kill(bench.keeper.stats()["worker"], signal.SIGKILL)
    await bench.put("trees", "trees")
    await bench.settled(2)


@pytest.mark.slow
async def test_a_directory_that_cannot_be_made_is_told(bench: Bench) -> None:
    bench.directory.write_text("in the way")
    await bench.put("fruit")
    bench.start()
    await bench.until(lambda: bench.keeper.error)
    assert str(bench.directory) in (bench.keeper.error or "")
    await anyio.to_thread.run_sync(bench.directory.unlink)
    await bench.settled(1)


@pytest.mark.slow
async def test_only_one_daemon_keeps_sidecars_in_a_directory(bench: Bench) -> None:
    await bench.put("fruit")
    end = bench.start()
    await bench.settled(1)
    names = await bench.names()
    second = bench.another()
    bench.start(second)
    await bench.until(lambda: second.error)
    assert second.error == f"another daemon keeps its sidecars in {bench.directory}"
    assert second.segments == ()
    assert await second.clear() == 0
    assert await bench.names() == names
    await end()
    second.wake()
    await bench.settled(1, keeper=second)
    assert held(second) == held(bench.keeper)


# --------------------------------------------------------------------------- turning off, clearing


async def test_what_is_cleared_is_made_anew(bench: Bench) -> None:
    await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    before, size_bytes = await bench.names(), bench.keeper.size_bytes
    assert await bench.keeper.clear() == size_bytes
    await bench.settled(1)
    assert not before & await bench.names()


@pytest.mark.slow
async def test_clearing_while_something_is_built_leaves_what_was_built_after(bench: Bench) -> None:
    for number in range(40):
        await bench.put(f"s{number:02}")
    bench.start()
    for _ in range(3):
        await bench.until(lambda: bench.keeper.stats()["building"])
        await bench.keeper.clear()
    await bench.settled(40)
    assert len(held(bench.keeper)) == 40


@pytest.mark.parametrize("settings", [{"sidecars": False}, {"sidecar_bytes": 0}])
async def test_turned_off_there_is_nothing_and_the_files_stay(bench: Bench, settings: dict[str, Any]) -> None:
    await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    names = await bench.names()
    bench.keeper.adopt(Cache(**settings))
    await bench.until(lambda: bench.keeper.segments == ())
    assert await bench.names() == names
    assert await bench.entries() == {}
    await bench.until(lambda: bench.keeper.stats()["worker"] is None)
    bench.keeper.adopt(Cache())
    await bench.settled(1)
    assert await bench.names() == names


@pytest.mark.slow
async def test_turned_off_files_can_be_cleared_all_the_same(bench: Bench) -> None:
    await bench.put("fruit")
    end = bench.start()
    await bench.settled(1)
    await end()
    off = bench.another(sidecars=False)
    bench.start(off)
    await bench.until(lambda: not Path(f"/proc/{bench.keeper.stats()['worker']}").exists())
    assert await off.clear() > 0
    assert await bench.names() == set()


@pytest.mark.slow
async def test_a_smaller_budget_is_kept_at_once(bench: Bench) -> None:
    for number in range(6):
        await bench.put(f"s{number}", "long")
    bench.start()
    await bench.settled(6)
    limit = bench.keeper.size_bytes // 2
    bench.keeper.adopt(Cache(sidecar_bytes=limit))
    await bench.until(lambda: bench.keeper.size_bytes <= limit and bench.is_quiet())
    assert 0 < len(held(bench.keeper)) < 6


@pytest.mark.slow
async def test_what_is_used_is_kept_before_what_is_not(bench: Bench) -> None:
    for number in range(8):
        await bench.put(f"s{number}", "long")
    bench.start()
    await bench.settled(8)
    bench.keeper.touch(None)
    bench.keeper.touch(["s3", "s5"])
    bench.keeper.adopt(Cache(sidecar_bytes=bench.keeper.size_bytes // 2))
    await bench.until(lambda: bench.keeper.size_bytes <= bench.keeper.limit_bytes and bench.is_quiet())
    entries = await bench.entries()
    assert entries["s3"] == entries["s5"] == ("ready", None)
    assert ("refused", "over_budget") in entries.values()
