from __future__ import annotations

import os
import resource
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from collated.watch import Watch

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Until = Callable[[Callable[[], object]], Awaitable[None]]


class Wakes:
    """Counts how often the watch said "look again"."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def wakes() -> Wakes:
    return Wakes()


@pytest.fixture
async def watch(wakes: Wakes, tmp_path: Path, until: Until) -> AsyncIterator[Watch]:
    """A watch that runs and is armed for the test's directory."""
    watch = Watch(wakes)
    watch.cover([str(tmp_path)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)
        await until(lambda: wakes.count)
        yield watch
        tasks.cancel_scope.cancel()


@pytest.fixture
def settled(wakes: Wakes, until: Until) -> Callable[[Callable[[], object]], Awaitable[None]]:
    """`await settled(act)` acts and returns once the watch has said "look again"."""

    async def wait(act: Callable[[], object]) -> None:
        before = wakes.count
        act()
        await until(lambda: wakes.count > before)

    return wait


async def test_who_asks_for_a_watch_looks_again_once_it_is_armed(watch: Watch, wakes: Wakes) -> None:
    assert wakes.count == 1
    assert watch.batches == 0
    assert watch.error is None


async def test_a_file_that_is_made_changed_renamed_or_removed_is_a_reason_to_look_again(
    watch: Watch, tmp_path: Path, settled: Until
) -> None:
    path = tmp_path / "a.db"

    await settled(lambda: path.write_bytes(b"1"))
    await settled(lambda: path.write_bytes(b"2"))
    await settled(lambda: path.rename(tmp_path / "b.db"))
    await settled((tmp_path / "b.db").unlink)

    assert watch.batches >= 4


async def test_a_new_directory_is_a_reason_to_look_again(
    watch: Watch, tmp_path: Path, settled: Until
) -> None:
    await settled(lambda: (tmp_path / "new" / "er").mkdir(parents=True))


async def test_a_name_that_is_not_utf8_does_not_end_the_watch(
    watch: Watch, tmp_path: Path, settled: Until
) -> None:
    for name in b"caf\xe9.db", b"\xff.db", b"plain.db":
        await settled((tmp_path / os.fsdecode(name)).touch)

    assert watch.error is None


def test_only_another_set_of_directories_is_a_change() -> None:
    watch = Watch(Wakes())

    assert watch.cover(["/a", "/b"])
    assert not watch.cover(["/b", "/a", "/a"])
    assert watch.directories == {"/a", "/b"}
    assert watch.cover(["/a"])
    assert watch.cover([])


async def test_a_directory_that_is_added_while_the_watch_runs_is_watched(
    watch: Watch, tmp_path: Path, wakes: Wakes, settled: Until
) -> None:
    added = tmp_path / "added"
    await settled(added.mkdir)
    await settled(lambda: watch.cover([str(tmp_path), str(added)]))  # armed

    await settled((added / "a.db").touch)
    await settled((tmp_path / "b.db").touch)


async def test_a_directory_that_is_not_there_is_passed_over(
    watch: Watch, tmp_path: Path, settled: Until
) -> None:
    await settled(lambda: watch.cover([str(tmp_path), str(tmp_path / "gone")]))

    await settled((tmp_path / "a.db").touch)
    assert watch.error is None


async def test_with_no_directory_at_all_the_watch_waits_for_one(
    watch: Watch, tmp_path: Path, settled: Until
) -> None:
    watch.cover([str(tmp_path / "gone")])
    await anyio.wait_all_tasks_blocked()

    await settled(lambda: watch.cover([str(tmp_path)]))
    await settled((tmp_path / "a.db").touch)


async def test_a_watched_directory_that_is_removed_is_a_reason_to_look_again(
    watch: Watch, tmp_path: Path, settled: Until
) -> None:
    root = tmp_path / "root"
    await settled(root.mkdir)
    await settled(lambda: watch.cover([str(root)]))

    await settled(lambda: shutil.rmtree(root))


@pytest.mark.parametrize("how", ["removed", "renamed"])
async def test_a_watched_directory_that_is_made_again_at_once_is_watched_again(
    watch: Watch, tmp_path: Path, settled: Until, how: str
) -> None:
    def again() -> None:
        if how == "removed":
            shutil.rmtree(root)
        else:
            root.rename(tmp_path / "other")
        root.mkdir()

    root = tmp_path / "root"
    root.mkdir()
    await settled(lambda: watch.cover([str(root)]))
    await settled(again)

    await settled(lambda: watch.cover([str(root)]))
    await settled((root / "a.db").touch)
    assert not watch.cover([str(root)])


async def test_cancelling_ends_the_watch_and_its_thread(wakes: Wakes, tmp_path: Path, until: Until) -> None:
    watch = Watch(wakes)
    watch.cover([str(tmp_path)])
    limiter = anyio.to_thread.current_default_thread_limiter()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.run)
            await until(lambda: wakes.count)
            assert limiter.borrowed_tokens == 1  # exactly one thread for all directories
            tasks.cancel_scope.cancel()

    assert limiter.borrowed_tokens == 0


async def test_a_watch_that_cannot_be_made_says_what_to_do_and_is_made_when_it_can(
    watch: Watch, tmp_path: Path, until: Until, settled: Until
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    other = tmp_path / "other"
    other.mkdir()
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        await settled(lambda: watch.cover([str(other)]))  # or nobody would know that it must be polled now
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert watch.error is not None
    assert watch.error.endswith("raise fs.inotify.max_user_watches or max_user_instances (sysctl)")

    await settled(lambda: watch.cover([str(tmp_path), str(other)]))
    await settled((other / "a.db").touch)
    assert watch.error is None
