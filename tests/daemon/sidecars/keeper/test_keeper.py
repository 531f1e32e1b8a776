"""What the keeper makes, keeps, lets go of, and what it leaves out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from collated.catalog import without
from collated.settings import Cache
from collated_readers import StoreError

if TYPE_CHECKING:
    from tests.daemon.sidecars.keeper.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# --------------------------------------------------------------------------- making and keeping


async def test_stores_get_sidecars_and_all_is_told(bench: Bench) -> None:
    fruit, trees = await bench.put("fruit"), await bench.put("trees", "trees")
    bench.start()
    await bench.settled(2)

    assert bench.held() == sorted(str(store.fingerprint) for store in (fruit, trees))
    assert bench.keeper.generation > 0
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
    assert bench.held(again) == bench.held()


async def test_a_rewritten_store_gets_a_new_sidecar_and_its_old_one_goes(bench: Bench) -> None:
    old = await bench.put("fruit")
    bench.start()
    await bench.settled(1)
    new = await bench.put("fruit", "trees")
    await bench.until(lambda: bench.held() == [new.fingerprint])
    assert old.fingerprint != new.fingerprint
    await bench.settled(1)
    await bench.left(1)


async def test_a_store_that_is_gone_takes_its_sidecar_with_it(bench: Bench) -> None:
    await bench.put("fruit")
    await bench.put("trees", "trees")
    bench.start()
    await bench.settled(2)
    bench.stores.clear()
    bench.keeper.wake()
    await bench.left(0)
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
    assert len(bench.held()) == 20


async def test_two_paths_to_the_same_bytes_share_a_sidecar(bench: Bench) -> None:
    store = await bench.put("fruit")
    bench.stores["twin"] = replace(store, path="/elsewhere", name="twin")
    bench.start()
    await bench.settled(1)
    assert bench.held() == [store.fingerprint]
    assert {state for state, _ in (await bench.entries()).values()} == {"ready"}
    assert bench.keeper.is_done


# --------------------------------------------------------------------------- what cannot be built


async def test_a_store_that_cannot_be_built_is_told_and_holds_up_no_other(bench: Bench) -> None:
    await bench.put("fruit")
    broken = await bench.put("broken")
    await anyio.to_thread.run_sync(os.truncate, broken.path, 100)
    bench.start()
    await bench.until(lambda: bench.keeper.stats()["ready"] == 1)
    assert await bench.entries() == {"broken": ("waiting", "keeps_changing"), "fruit": ("ready", None)}
    assert not bench.keeper.is_done
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
    assert not bench.keeper.is_done
    assert ("refused", "over_budget") in (await bench.entries()).values()


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
    assert len(bench.held()) == 40


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
    assert 0 < len(bench.held()) < 6


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
