from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from collated.errors import RequestFailed
from collated.fanout import Fanout
from collated.protocol import Failure
from collated.selection import Asked
from collated_readers import Budget, RequestError, StoreError
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    from tests.daemon.conftest import PutStore, Until
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio

Act = Callable[[StoreConnection], object]
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
async def parts(assemble: Assemble, stores: Path, put_store: PutStore) -> Parts:
    """The parts of a daemon that has found four stores, `a` to `d`."""
    for name in "abcd":
        put_store(stores / f"{name}.sqlite")
    parts = assemble()
    await parts.look()
    return parts


def everybody(parts: Parts) -> list[Asked]:
    return parts.fanout.choosing.select("search", None, None).asked


def names(asked: list[Asked]) -> list[str]:
    return [each.store.name for each in asked]


def endless(db: StoreConnection) -> object:
    return db.execute(ENDLESS).fetchone()


def failures(asked: list[Asked]) -> dict[str, str]:
    return {each.store.name: each.failure.code for each in asked if each.failure}


# --------------------------------------------------------------------------- asking many


async def test_each_store_is_asked_once(parts: Parts) -> None:
    asked, served = everybody(parts), list[str]()

    async def job(each: Asked, hop: Budget) -> None:
        served.append(each.store.name)

    await parts.fanout.each(asked, job, Budget.lasting(10))

    assert sorted(served) == ["a", "b", "c", "d"]
    assert failures(asked) == {}


async def test_one_bad_store_does_not_hide_the_others(parts: Parts, logs: list[Any]) -> None:
    asked, served = everybody(parts), list[str]()

    async def job(each: Asked, hop: Budget) -> None:
        if each.store.name == "a":
            raise StoreError("damaged", "it is broken")
        if each.store.name == "b":
            raise ZeroDivisionError
        served.append(each.store.name)

    await parts.fanout.each(asked, job, Budget.lasting(10))

    assert sorted(served) == ["c", "d"]
    assert asked[0].failure == Failure("a", "damaged", "it is broken")
    assert failures(asked) == {"a": "damaged", "b": "internal"}
    assert [event["store"] for event in logs if event["event"] == "store_failed"] == ["b"]


async def test_a_store_that_has_failed_is_not_asked_again(parts: Parts) -> None:
    asked, served = everybody(parts), list[str]()
    asked[1].fail("damaged", "it is broken")

    async def job(each: Asked, hop: Budget) -> None:
        served.append(each.store.name)

    await parts.fanout.each(asked, job, Budget.lasting(10))

    assert sorted(served) == ["a", "c", "d"]


async def test_what_is_wrong_with_the_request_is_said_in_the_words_of_the_first_store_by_name(
    parts: Parts,
) -> None:
    selection = parts.fanout.choosing.select("search", None, None)

    async def job(each: Asked, hop: Budget) -> None:
        if each.store.name in "cb":
            raise RequestError("pattern_rejected", f"{each.store.name} says no", "another")

    await parts.fanout.each(selection.asked, job, Budget.lasting(10))
    with pytest.raises(RequestFailed) as caught:
        selection.raise_fault()

    failed = caught.value
    assert (failed.code, failed.message, failed.suggestion) == ("pattern_rejected", "b says no", "another")


@pytest.mark.parametrize("workers", [1, 2, 16])
async def test_only_so_many_stores_are_asked_at_a_time(parts: Parts, workers: int, until: Until) -> None:
    fanout = Fanout(parts.inventory, parts.pool, workers)
    running, most, go_on = 0, 0, anyio.Event()

    async def job(each: Asked, hop: Budget) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fanout.each, everybody(parts), job, Budget.lasting(10))
        await until(lambda: running == min(workers, 4))
        await anyio.wait_all_tasks_blocked()
        go_on.set()

    assert most == min(workers, 4)


async def test_with_nobody_to_ask_nothing_happens(parts: Parts) -> None:
    async def job(each: Asked, hop: Budget) -> None:
        raise AssertionError

    await parts.fanout.each([], job, Budget.lasting(10))


# --------------------------------------------------------------------------- asking many in one hop


async def quick(fanout: Fanout, asked: list[Asked], act: Act) -> tuple[list[str], list[str]]:
    """Ask in one hop, and return who answered and who is left."""
    answered: list[str] = []

    def question(each: Asked) -> Callable[[StoreConnection], str]:
        def answer(db: StoreConnection) -> str:
            act(db)
            return db.path.stem

        return answer

    async def take(each: Asked, answer: str) -> None:
        assert answer == each.store.name
        answered.append(answer)

    left = await fanout.quick(asked, question, take, Budget.lasting(2))
    return sorted(answered), names(left)


async def test_stores_that_are_open_are_asked_in_one_hop_where_there_are_more_than_workers(
    parts: Parts,
) -> None:
    few = Fanout(parts.inventory, parts.pool, 3)
    enough = Fanout(parts.inventory, parts.pool, 4)

    assert await quick(few, everybody(parts), lambda db: None) == (["a", "b", "c", "d"], [])
    assert await quick(enough, everybody(parts), lambda db: None) == ([], ["a", "b", "c", "d"])
    assert await quick(few, [], lambda db: None) == ([], [])


async def test_a_store_that_fails_in_a_hop_with_others_is_left_to_be_asked_by_itself(parts: Parts) -> None:
    def act(db: StoreConnection) -> None:
        if db.path.stem == "b":
            raise StoreError("damaged", "it is broken")
        if db.path.stem == "c":
            endless(db)

    assert await quick(Fanout(parts.inventory, parts.pool, 1), everybody(parts), act) == (
        ["a", "d"],
        ["b", "c"],
    )
    assert backed_off(parts) == []


async def test_a_store_of_many_records_is_left_to_be_asked_by_itself(parts: Parts) -> None:
    asked = everybody(parts)
    asked[1].store = msgspec.structs.replace(asked[1].store, records=100_000)

    answered, left = await quick(Fanout(parts.inventory, parts.pool, 1), asked, lambda db: None)

    assert (answered, left) == (["a", "c", "d"], ["b"])


async def test_a_store_that_is_stuck_takes_a_quarter_of_the_time_from_those_in_its_hop(parts: Parts) -> None:
    is_over = threading.Event()

    def act(db: StoreConnection) -> None:
        if db.path.stem == "a":
            is_over.wait(30)

    fanout = Fanout(parts.inventory, parts.pool, 1)
    try:
        answered, left = await quick(fanout, everybody(parts), act)
    finally:
        is_over.set()

    assert "a" in left
    assert sorted([*answered, *left]) == ["a", "b", "c", "d"]


# --------------------------------------------------------------------------- budgets


async def test_a_slow_store_is_put_off_until_the_others_are_served_and_then_gets_the_rest(
    parts: Parts,
) -> None:
    fanout = Fanout(parts.inventory, parts.pool, 1)
    asked, log = everybody(parts), list[tuple[str, str]]()
    slices: list[float] = []

    async def job(each: Asked, hop: Budget) -> None:
        name = each.store.name
        is_slow = name == "a" and not slices
        log.append((name, "asked"))
        if name == "a":
            slices.append(hop.remaining())
        await fanout.ask(each, endless if is_slow else lambda db: None, hop)
        log.append((name, "answered"))

    await fanout.each(asked, job, Budget.lasting(1.2))

    assert log[:2] == [("a", "asked"), ("b", "asked")]
    assert log[-2:] == [("a", "asked"), ("a", "answered")]
    assert len(log) == 9
    assert slices[0] < 0.4 < slices[1]
    assert failures(asked) == {}


async def test_a_store_that_never_ends_has_failed_at_the_deadline(parts: Parts) -> None:
    selection = parts.fanout.choosing.select("search", None, None)

    async def job(each: Asked, hop: Budget) -> None:
        await parts.fanout.ask(each, endless if each.store.name == "b" else lambda db: None, hop)

    await parts.fanout.each(selection.asked, job, Budget.lasting(0.2))

    assert failures(selection.asked) == {"b": "deadline_exceeded"}
    selection.raise_fault()  # others did answer


async def test_when_no_store_answers_in_time_the_request_has_failed(parts: Parts) -> None:
    selection = parts.fanout.choosing.select("search", None, None)

    async def job(each: Asked, hop: Budget) -> None:
        await parts.fanout.ask(each, endless, hop)

    await parts.fanout.each(selection.asked, job, Budget.lasting(0.1))
    with pytest.raises(RequestFailed) as caught:
        selection.raise_fault()

    assert caught.value.code == "deadline_exceeded"
    assert caught.value.message == "none of 4 stores answered in time"


async def test_a_store_that_does_not_keep_its_budget_is_no_longer_waited_for(parts: Parts) -> None:
    asked = everybody(parts)

    async def job(each: Asked, hop: Budget) -> None:
        if each.store.name == "a":
            await anyio.sleep_forever()

    await parts.fanout.each(asked, job, Budget.lasting(0.1))

    assert failures(asked) == {"a": "deadline_exceeded"}


async def test_a_budget_that_is_spent_already_serves_nobody(parts: Parts) -> None:
    asked = everybody(parts)

    async def job(each: Asked, hop: Budget) -> None:
        await parts.fanout.ask(each, lambda db: None, hop)

    await parts.fanout.each(asked, job, Budget.lasting(-1))

    assert failures(asked) == dict.fromkeys("abcd", "deadline_exceeded")


# --------------------------------------------------------------------------- stores that change


async def test_a_store_that_has_changed_is_asked_as_it_now_is(
    parts: Parts, stores: Path, put_store: PutStore
) -> None:
    (asked, *_) = everybody(parts)
    before = asked.store
    await anyio.to_thread.run_sync(put_store, stores / "a.sqlite", "stars")

    def count(db: StoreConnection) -> object:
        return db.execute("SELECT count(*) FROM documents WHERE path = 'moon.md'").fetchone()[0]

    assert await parts.fanout.ask(asked, count, Budget.lasting(10)) == 1
    assert asked.store.fingerprint != before.fingerprint
    assert asked.store == parts.inventory.named("a")


async def test_a_store_that_changes_each_time_is_given_up(parts: Parts, stores: Path) -> None:
    (asked, *_) = everybody(parts)
    ticks = itertools.count(1_000)

    def while_it_changes(db: StoreConnection) -> None:
        tick = next(ticks)
        os.utime(stores / "a.sqlite", (tick, tick))

    with pytest.raises(StoreError) as caught:
        await parts.fanout.ask(asked, while_it_changes, Budget.lasting(10))

    assert caught.value.code == "keeps_changing"
    assert next(ticks) == 1_003  # three attempts


async def test_a_store_that_is_gone_has_vanished(parts: Parts, stores: Path) -> None:
    (asked, *_) = everybody(parts)
    await anyio.to_thread.run_sync((stores / "a.sqlite").unlink)

    with pytest.raises(StoreError) as caught:
        await parts.fanout.ask(asked, lambda db: None, Budget.lasting(10))

    assert caught.value.code == "vanished"
    await parts.look()
    with pytest.raises(StoreError) as caught:
        await parts.fanout.ask(asked, lambda db: None, Budget.lasting(10))
    assert caught.value.code == "vanished"


async def test_a_store_that_can_no_longer_be_read_says_why(parts: Parts, stores: Path) -> None:
    (asked, *_) = everybody(parts)
    await anyio.to_thread.run_sync((stores / "a.sqlite").write_text, "just text")

    with pytest.raises(StoreError) as caught:
        await parts.fanout.ask(asked, lambda db: None, Budget.lasting(10))

    assert caught.value.code == "not_sqlite"


# --------------------------------------------------------------------------- stores that keep failing


async def fail_each_time(parts: Parts, code: str, times: int, budget_s: float = 10.0) -> None:
    async def job(each: Asked, hop: Budget) -> None:
        if each.store.name == "a":
            raise StoreError(code, "it is broken")

    for _ in range(times):
        await parts.fanout.each(everybody(parts), job, Budget.lasting(budget_s))


def backed_off(parts: Parts) -> list[str]:
    failed = parts.fanout.choosing.select("search", None, None).outcome().failed
    return [failure.store for failure in failed if failure.code == "backed_off"]


async def test_a_store_that_keeps_failing_is_left_alone_until_a_person_asks(parts: Parts) -> None:
    await fail_each_time(parts, "damaged", 3)

    assert backed_off(parts) == ["a"]
    assert names(everybody(parts)) == ["b", "c", "d"]
    parts.fanout.health.forgive()
    assert backed_off(parts) == []


async def test_a_store_that_was_rewritten_is_asked_at_once(
    parts: Parts, stores: Path, put_store: PutStore
) -> None:
    await fail_each_time(parts, "damaged", 3)
    await anyio.to_thread.run_sync(put_store, stores / "a.sqlite", "stars")
    await parts.look()

    assert backed_off(parts) == []


async def test_an_answer_in_between_clears_the_record(parts: Parts) -> None:
    await fail_each_time(parts, "damaged", 2)
    await parts.fanout.each(everybody(parts), succeed, Budget.lasting(10))
    await fail_each_time(parts, "damaged", 2)

    assert backed_off(parts) == []


async def succeed(each: Asked, hop: Budget) -> None:
    pass


@pytest.mark.parametrize("code", ["keeps_changing", "vanished", "locked", "hot_journal", "building"])
async def test_a_store_that_is_only_being_written_is_not_held_to_account(parts: Parts, code: str) -> None:
    await fail_each_time(parts, code, 5)

    assert backed_off(parts) == []


async def test_a_store_that_had_hardly_any_time_is_not_held_to_account(parts: Parts) -> None:
    await fail_each_time(parts, "deadline_exceeded", 5, budget_s=0.2)
    assert backed_off(parts) == []

    await fail_each_time(parts, "deadline_exceeded", 3, budget_s=10.0)
    assert backed_off(parts) == ["a"]
