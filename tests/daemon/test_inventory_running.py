"""The inventory at work: between runs, while stores are written, and while they come and go."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from collated.settings import Discovery, Settings, Watched

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld, PutStore, Until
    from tests.daemon.worlds import Assemble, Parts

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@asynccontextmanager
async def running(parts: Parts) -> AsyncGenerator[Parts]:
    """Let the inventory run until the end of the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.inventory.run)
        with anyio.fail_after(10):
            await parts.inventory.is_ready.wait()
        yield parts
        tasks.cancel_scope.cancel()


def quick(*, events: bool = True, rescan_s: float = 600.0) -> Settings:
    """Settings under which a change shows as soon as an event or a rescan brings it to light."""
    return Settings(discovery=Discovery(events=events, rescan_s=rescan_s, settle_ms=10, settle_limit_ms=100))


def edit(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()
    for suffix in "-wal", "-shm":
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def apart(function: Callable[..., object], *arguments: object) -> None:
    """Do what another program would, outside the event loop."""
    await anyio.to_thread.run_sync(function, *arguments)


# --------------------------------------------------------------------------- memory


async def test_a_warm_start_knows_every_store_and_opens_none(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite", "fruit")
    put_store(stores / "b.sqlite", "trees")
    edit(put_store(stores / "c.sqlite"), "UPDATE meta SET value = '2.0' WHERE key = 'schema_version'")
    async with running(assemble(quick(events=False))) as first:
        known = dict(first.inventory.stores)
    await first.close()

    async with running(assemble(quick(events=False))) as second:
        assert second.inventory.stores == known
        assert second.states == {"a": "open", "b": "open", "c": "unsupported_version"}
        assert len(second.pool) == 0


async def test_a_warm_start_knows_without_opening_them_which_stores_can_match(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    for name in "fruit", "trees":
        put_store(stores / f"{name}.sqlite", name)
    (stores / "text.sqlite").write_text("just text")
    async with running(assemble(quick(events=False))) as first:
        await first.close()

    async with running(assemble(quick(events=False))) as second:
        filters = second.inventory.filters
        by_name = filters.slots_of([store.path for store in second.inventory.in_order()])
        assert [store.name for store in second.inventory.in_order()] == ["fruit", "text", "trees"]
        assert filters.may_match([(b"fig",)])[by_name].tolist() == [True, True, False]
        assert filters.may_match([(b"oak",)])[by_name].tolist() == [False, True, True]
        assert len(second.pool) == 0


async def test_a_warm_start_opens_only_what_has_changed(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    for name in "same", "rewritten", "removed":
        put_store(stores / f"{name}.sqlite")
    async with running(assemble(quick(events=False))) as first:
        await first.close()
    put_store(stores / "rewritten.sqlite", "trees", is_new=True)
    put_store(stores / "new.sqlite")
    (stores / "removed.sqlite").unlink()

    async with running(assemble(quick(events=False))) as second:
        assert second.states == {"new": "open", "rewritten": "open", "same": "open"}
        assert len(second.pool) == 2


async def test_a_store_of_a_format_that_is_no_longer_read_is_not_remembered_as_open(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    async with running(assemble(quick(events=False))) as first:
        await first.close()

    async with running(assemble(quick(events=False), readers=())) as second:
        assert second.states == {"a": "unknown_format"}


async def test_a_damaged_memory_costs_a_cold_start_and_nothing_else(
    assemble: Assemble, tmp_path: Path, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.sqlite").write_bytes(b"damaged" * 1_000)

    async with running(assemble(quick(events=False))) as run:
        assert run.states == {"a": "open"}
        assert len(run.pool) == 1


# --------------------------------------------------------------------------- waiting for a writer


async def test_a_new_store_is_opened_when_its_writer_has_rested(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    run = assemble(Settings(discovery=Discovery(settle_ms=60_000, settle_limit_ms=600_000)))

    await run.inventory.look(now=False)
    assert run.states == {"a": "opening"}
    assert len(run.pool) == 0

    await run.inventory.look(now=True)
    assert run.states == {"a": "open"}


async def test_the_loop_opens_a_store_by_itself_when_its_writer_has_rested(
    assemble: Assemble, stores: Path, put_store: PutStore, until: Until
) -> None:
    async with running(assemble(quick())) as run:
        await apart(put_store, stores / "a.sqlite")
        await until(lambda: run.states == {"a": "open"})


async def test_a_store_that_could_not_be_read_is_tried_again(
    assemble: Assemble, stores: Path, put_store: PutStore, until: Until
) -> None:
    put_store(stores / "a.sqlite")
    journal = stores / "a.sqlite-journal"
    journal.write_bytes(b"\xd9\xd5\x05\xf9 a hot journal")
    async with running(assemble(quick(events=False))) as run:
        assert run.states == {"a": "hot_journal"}

        await apart(journal.unlink)
        await until(lambda: run.states == {"a": "open"})


async def test_a_store_that_was_refused_is_not_tried_again_until_it_changes(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    path = stores / "a.sqlite"
    path.write_text("just text")
    run = assemble(quick())
    await run.inventory.look(now=True)
    epoch = run.inventory.epoch
    await run.inventory.look(now=True)
    assert (run.states, run.inventory.epoch) == ({"a": "not_sqlite"}, epoch)

    await apart(put_store, path)
    await run.inventory.look(now=True)
    assert run.states == {"a": "open"}


# --------------------------------------------------------------------------- the running inventory


@pytest.fixture(params=["by events", "by rescans"])
def settings(request: pytest.FixtureRequest) -> Settings:
    if request.param == "by events":
        return quick()
    return quick(events=False, rescan_s=0.05)


async def test_stores_that_come_change_and_go_are_noticed(
    assemble: Assemble, settings: Settings, stores: Path, put_store: PutStore, until: Until
) -> None:
    def records() -> list[int | None]:
        return [store.records for store in run.inventory.in_order()]

    async with running(assemble(settings)) as run:
        await apart(put_store, stores / "a.sqlite", "fruit")
        await until(lambda: records() == [3])
        await apart(lambda: put_store(stores / "a.sqlite", "trees", is_new=True))
        await until(lambda: records() == [2])
        await apart((stores / "a.sqlite").unlink)
        await until(lambda: records() == [])


async def test_a_directory_that_is_made_later_is_watched_from_then_on(
    assemble: Assemble, settings: Settings, tmp_path: Path, put_store: PutStore, until: Until
) -> None:
    async with running(assemble(settings)) as run:  # `stores` does not exist yet
        await apart(put_store, tmp_path / "stores" / "a.sqlite")
        await until(lambda: run.states == {"a": "open"})
        await apart(put_store, tmp_path / "stores" / "b.sqlite")
        await until(lambda: run.states == {"a": "open", "b": "open"})


async def test_a_directory_that_is_removed_and_made_again_is_still_watched(
    assemble: Assemble, settings: Settings, stores: Path, put_store: PutStore, until: Until
) -> None:
    def again() -> None:
        shutil.rmtree(stores)
        put_store(stores / "b.sqlite")

    put_store(stores / "a.sqlite")
    async with running(assemble(settings)) as run:
        await apart(again)
        await until(lambda: run.states == {"b": "open"})
        await apart(put_store, stores / "c.sqlite")
        await until(lambda: run.states == {"b": "open", "c": "open"})


async def test_the_target_of_a_symlink_is_watched_where_it_lies(
    assemble: Assemble, settings: Settings, stores: Path, put_store: PutStore, until: Until
) -> None:
    target = put_store(stores.parent / "far" / "s.sqlite", "fruit")
    (stores / "a.sqlite").symlink_to(target)
    async with running(assemble(settings)) as run:
        before = run.inventory.named("a")
        await apart(lambda: put_store(target, "trees", is_new=True))
        await until(lambda: run.inventory.named("a") != before and run.states == {"a": "open"})


async def test_a_directory_that_must_be_polled_is_looked_at_without_events(
    assemble: Assemble, stores: Path, put_store: PutStore, until: Until
) -> None:
    polled = Settings(
        discovery=Discovery(events=False, rescan_s=600.0, settle_ms=10),
        watch=(Watched(str(stores), poll=True),),
    )
    async with running(assemble(polled)) as run:
        await apart(put_store, stores / "a.sqlite")
        await until(lambda: run.states == {"a": "open"})


async def test_a_store_that_is_slow_to_open_holds_up_no_other(
    world: OpenWorld, put_store: PutStore, until: Until
) -> None:
    opened = await world({"a": {}})
    inventory, is_over = opened.parts.inventory, threading.Event()
    opened.reader.script |= {"b": {}, "slow": {}}
    opened.reader.acts["slow", "open"] = lambda db: is_over.wait(30)
    put_store(opened.path("slow"))
    try:
        async with running(opened.parts):
            await until(lambda: opened.reader.calls["slow", "open"])
            found = await opened.search()
            assert [failure.code for failure in found.stores.failed] == ["opening"]

            await apart(put_store, opened.path("b"))
            await until(lambda: opened.parts.states == {"a": "open", "b": "open", "slow": "opening"})

            is_over.set()
            await until(lambda: inventory.in_order()[-1].state == "open")
    finally:
        is_over.set()
