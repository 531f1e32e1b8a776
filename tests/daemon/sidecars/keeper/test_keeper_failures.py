"""What goes wrong with files, disk and workers is told, made good, and never fatal."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

if TYPE_CHECKING:
    from tests.daemon.sidecars.keeper.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

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
    assert bench.held() == [store.fingerprint]
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
    assert bench.held(second) == bench.held()
