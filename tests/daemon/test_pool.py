from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from collated.pool import Pool, Question
from collated_readers import Budget, RequestError, StoreError
from collated_readers.opening import Signature, StoreConnection, StoreMoved, take_signature

pytestmark = pytest.mark.anyio

Until = Callable[[Callable[[], object]], Awaitable[None]]
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
LONG_AGO_S = 1_000_000_000


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    """Five small SQLite files, old enough that nobody doubts their time stamps."""
    made = [tmp_path / f"s{number}.sqlite" for number in range(5)]
    for number, path in enumerate(made):
        write(path, number)
    return made


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    return tmp_path / "copies"


@pytest.fixture
async def pool(copies: Path) -> AsyncIterator[Pool]:
    pool = Pool(copies, 1 << 30, max_open=10)
    yield pool
    await pool.close()


@pytest.fixture(autouse=True)
def no_thread_outlives_a_test() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if "_connection_worker_thread" in thread.name:
            thread.join(10)
            assert not thread.is_alive()


def write(path: Path, value: int) -> None:
    db = sqlite3.connect(path)
    with db:
        db.execute("CREATE TABLE IF NOT EXISTS t (x)")
        db.execute("INSERT INTO t VALUES (?)", (value,))
    db.close()
    os.utime(path, (LONG_AGO_S + value, LONG_AGO_S + value))


def values(db: StoreConnection) -> list[int]:
    return [row[0] for row in db.execute("SELECT x FROM t")]


def descriptors_of(path: Path) -> int:
    """Return how many descriptors of this process lead to the file that *path* is, or was."""
    wanted = path.stat()
    count = 0
    for entry in Path("/dev/fd").iterdir():
        try:
            found = os.fstat(int(entry.name))
        except OSError:  # the one that lists the directory
            continue
        count += (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
    return count


class Endless:
    """A reader function that never ends by itself, and says when it runs and when it was stopped."""

    def __init__(self) -> None:
        self.is_running = threading.Event()
        self.has_stopped = threading.Event()

    def __call__(self, db: StoreConnection) -> object:
        self.is_running.set()
        try:
            return db.execute(ENDLESS).fetchone()
        finally:
            self.has_stopped.set()


async def signature_of(path: Path) -> Signature:
    return await anyio.to_thread.run_sync(take_signature, path)


def a_while() -> Budget:
    return Budget.lasting(30)


# --------------------------------------------------------------------------- asking


async def test_a_function_runs_on_the_stores_own_thread_in_one_transaction(
    pool: Pool, stores: list[Path]
) -> None:
    def look(db: StoreConnection) -> tuple[bool, str, list[int]]:
        return db.in_transaction, threading.current_thread().name, values(db)

    is_in_transaction, thread, found = await pool.ask(str(stores[3]), None, look, a_while())

    assert is_in_transaction
    assert thread != threading.current_thread().name
    assert found == [3]


async def test_a_connection_is_kept_and_used_again(pool: Pool, stores: list[Path]) -> None:
    identity: list[int] = []
    for _ in range(3):
        await pool.ask(str(stores[0]), None, lambda db: identity.append(id(db)), a_while())

    assert len(set(identity)) == 1
    assert (len(pool), descriptors_of(stores[0])) == (1, 1)


async def test_askers_that_come_together_open_the_store_once(pool: Pool, stores: list[Path]) -> None:
    identity: list[int] = []

    async def ask() -> None:
        await pool.ask(str(stores[0]), None, lambda db: identity.append(id(db)), a_while())

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(ask)

    assert len(identity) == 8
    assert len(set(identity)) == 1
    assert descriptors_of(stores[0]) == 1


async def test_what_a_function_raises_comes_out_and_the_connection_lives_on(
    pool: Pool, stores: list[Path]
) -> None:
    def refuse(db: StoreConnection) -> None:
        raise RequestError("unknown_id", "no such record")

    def fail(db: StoreConnection) -> None:
        raise ZeroDivisionError

    with pytest.raises(RequestError):
        await pool.ask(str(stores[1]), None, refuse, a_while())
    with pytest.raises(ZeroDivisionError):
        await pool.ask(str(stores[1]), None, fail, a_while())

    assert await pool.ask(str(stores[1]), None, values, a_while()) == [1]
    assert len(pool) == 1


# --------------------------------------------------------------------------- stopping


async def test_the_deadline_stops_the_statement(pool: Pool, stores: list[Path]) -> None:
    endless = Endless()

    with pytest.raises(StoreError) as caught:
        await pool.ask(str(stores[0]), None, endless, Budget.lasting(0.05))

    assert caught.value.code == "deadline_exceeded"
    assert endless.has_stopped.is_set()
    assert await pool.ask(str(stores[0]), None, values, a_while()) == [0]


async def test_a_spent_budget_runs_nothing(pool: Pool, stores: list[Path]) -> None:
    endless = Endless()

    with pytest.raises(StoreError) as caught:
        await pool.ask(str(stores[0]), None, endless, Budget.lasting(-1))

    assert caught.value.code == "deadline_exceeded"
    assert not endless.is_running.is_set()


async def test_cancelling_the_asker_stops_the_statement(pool: Pool, stores: list[Path], until: Until) -> None:
    endless = Endless()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, str(stores[0]), None, endless, a_while())
        await until(endless.is_running.is_set)
        tasks.cancel_scope.cancel()

    await until(endless.has_stopped.is_set)
    assert await pool.ask(str(stores[0]), None, values, a_while()) == [0]


async def test_a_cancelled_asker_that_still_waits_for_its_turn_never_runs(
    pool: Pool, stores: list[Path], until: Until
) -> None:
    first, second = Endless(), Endless()
    path = str(stores[0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, path, None, first, a_while())
        await until(first.is_running.is_set)
        async with anyio.create_task_group() as queued:
            queued.start_soon(pool.ask, path, None, second, a_while())
            await anyio.wait_all_tasks_blocked()
            queued.cancel_scope.cancel()
        tasks.cancel_scope.cancel()

    assert await pool.ask(path, None, values, a_while()) == [0]
    assert not second.is_running.is_set()


async def test_stores_in_memory_are_asked_on_the_loop_while_all_of_them_together_are_quick(
    pool: Pool, stores: list[Path]
) -> None:
    for path in stores[:2]:
        at_rest_in_wal_mode(path)
    questions = [await question_of(pool, path) for path in stores[:2]]
    loop = threading.get_ident()

    first = await pool.ask_each(questions, 1.0)  # nobody knows yet how long they take
    assert loop not in first and None not in first
    assert await pool.ask_each(questions, 1.0) == [loop, loop]
    slow = [Question(each.path, each.signature, dawdle) for each in questions]
    assert await pool.ask_each(slow, 1.0) == [loop, loop]  # nobody could know
    assert loop not in await pool.ask_each(slow, 1.0)
    assert loop not in await pool.ask_each(questions, 1.0)
    assert await pool.ask_each(questions, 1.0) == [loop, loop]


async def test_a_store_whose_writer_may_lock_it_is_never_asked_on_the_loop(
    pool: Pool, stores: list[Path]
) -> None:
    question = await question_of(pool, stores[0])
    for _ in range(3):
        assert threading.get_ident() not in await pool.ask_each([question], 1.0)


def at_rest_in_wal_mode(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))


async def question_of(pool: Pool, path: Path) -> Question[int]:
    signature = await pool.ask(str(path), None, lambda db: db.signature, Budget.lasting(5))
    return Question(str(path), signature, asker)


def asker(db: StoreConnection) -> int:
    assert values(db)
    return threading.get_ident()


def dawdle(db: StoreConnection) -> int:
    until = time.monotonic() + 0.003
    while time.monotonic() < until:
        values(db)
    return threading.get_ident()


async def test_one_stuck_store_does_not_hold_up_another(pool: Pool, stores: list[Path], until: Until) -> None:
    endless = Endless()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, str(stores[0]), None, endless, a_while())
        await until(endless.is_running.is_set)
        assert await pool.ask(str(stores[1]), None, values, a_while()) == [1]
        assert not endless.has_stopped.is_set()
        tasks.cancel_scope.cancel()


# --------------------------------------------------------------------------- stores that change


async def test_bytes_other_than_the_caller_means_are_not_asked(pool: Pool, stores: list[Path]) -> None:
    other, same = await signature_of(stores[1]), await signature_of(stores[0])

    with pytest.raises(StoreMoved):
        await pool.ask(str(stores[0]), other, values, a_while())

    assert len(pool) == 0
    assert await pool.ask(str(stores[0]), same, values, a_while()) == [0]


def in_place(path: Path, other: Path) -> list[int]:
    write(path, 7)
    return [0, 7]


def by_rename(path: Path, other: Path) -> list[int]:
    other.replace(path)
    return [4]


@pytest.mark.parametrize("rewrite", [in_place, by_rename])
async def test_a_store_that_was_rewritten_is_opened_anew(
    pool: Pool, stores: list[Path], rewrite: Callable[[Path, Path], list[int]]
) -> None:
    path = stores[0]
    assert await pool.ask(str(path), None, values, a_while()) == [0]

    expected = await anyio.to_thread.run_sync(rewrite, path, stores[4])
    with pytest.raises(StoreMoved):
        await pool.ask(str(path), None, values, a_while())

    assert len(pool) == 0
    assert await pool.ask(str(path), None, values, a_while()) == expected


async def test_a_store_that_was_deleted_has_vanished(pool: Pool, stores: list[Path]) -> None:
    await pool.ask(str(stores[0]), None, values, a_while())

    await anyio.to_thread.run_sync(stores[0].unlink)
    with pytest.raises(StoreMoved):
        await pool.ask(str(stores[0]), None, values, a_while())
    with pytest.raises(StoreError) as caught:
        await pool.ask(str(stores[0]), None, values, a_while())

    assert caught.value.code == "vanished"


async def test_an_answer_from_a_store_that_changed_meanwhile_is_not_believed(
    pool: Pool, stores: list[Path]
) -> None:
    def while_it_changes(db: StoreConnection) -> list[int]:
        found = values(db)
        os.utime(stores[0], (5, 5))
        return found

    with pytest.raises(StoreMoved):
        await pool.ask(str(stores[0]), None, while_it_changes, a_while())

    assert len(pool) == 0


# --------------------------------------------------------------------------- opening that fails


@pytest.mark.parametrize(
    ("content", "code"), [(b"no database at all", "not_sqlite"), (b"", "empty_file"), (None, "vanished")]
)
async def test_a_failed_open_leaves_nothing_behind(
    pool: Pool, tmp_path: Path, content: bytes | None, code: str, until: Until
) -> None:
    path = tmp_path / "bad.sqlite"
    if content is not None:
        path.write_bytes(content)
        os.utime(path, (5, 5))
    threads = threading.active_count()

    with pytest.raises(StoreError) as caught:
        await pool.ask(str(path), None, values, a_while())

    assert caught.value.code == code
    assert len(pool) == 0
    assert content is None or descriptors_of(path) == 0
    await until(lambda: threading.active_count() <= threads)


async def test_an_open_that_is_cancelled_leaves_nothing_behind(
    pool: Pool, stores: list[Path], until: Until
) -> None:
    path = stores[0]
    os.utime(path)  # so young that opening waits for the next time stamp
    threads = threading.active_count()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, str(path), None, values, a_while())
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert len(pool) == 0
    await until(lambda: descriptors_of(path) == 0 and threading.active_count() <= threads)
    assert await pool.ask(str(path), None, values, a_while()) == [0]


async def test_an_open_that_its_first_asker_gives_up_is_done_for_the_second(
    pool: Pool, stores: list[Path]
) -> None:
    path = stores[0]
    os.utime(path)
    found: list[list[int]] = []

    async def ask() -> None:
        found.append(await pool.ask(str(path), None, values, a_while()))

    async with anyio.create_task_group() as tasks, anyio.create_task_group() as impatient:
        impatient.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        impatient.cancel_scope.cancel()

    assert found == [[0]]
    assert (len(pool), descriptors_of(path) > 0) == (1, True)
    await pool.close()
    assert descriptors_of(path) == 0


# --------------------------------------------------------------------------- how many are open


async def test_the_least_recently_used_are_closed(copies: Path, stores: list[Path], until: Until) -> None:
    pool = Pool(copies, 1 << 30, max_open=2)
    for number in (0, 1, 0, 2):
        await pool.ask(str(stores[number]), None, values, a_while())
        assert len(pool) <= 2

    await until(lambda: [descriptors_of(path) for path in stores] == [1, 0, 1, 0, 0])
    await pool.close()
    assert len(pool) == 0
    assert [descriptors_of(path) for path in stores] == [0] * 5


async def test_a_store_that_nobody_uses_for_long_is_closed_and_one_in_use_is_not(
    pool: Pool, stores: list[Path], until: Until
) -> None:
    used, idle = Endless(), stores[1]
    await pool.ask(str(idle), None, values, a_while())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, str(stores[0]), None, used, a_while())
        await until(used.is_running.is_set)
        pool.close_idle(3_600.0)
        assert len(pool) == 2

        pool.close_idle(0.0)

        assert len(pool) == 1
        await until(lambda: [descriptors_of(path) for path in stores[:2]] == [1, 0])
        tasks.cancel_scope.cancel()
    assert await pool.ask(str(idle), None, values, a_while()) == [1]


async def test_all_but_the_last_used_are_closed(copies: Path, stores: list[Path]) -> None:
    pool = Pool(copies, 1 << 30, max_open=10)
    for number in (0, 1, 2, 0):
        await pool.ask(str(stores[number]), None, values, a_while())

    assert pool.close_idle(0.0, but=2) == 1
    assert len(pool) == 2
    pool.forget(str(stores[1]))
    assert len(pool) == 2  # which was closed already
    await pool.close()


async def test_stores_in_use_are_not_closed_and_the_bound_holds_when_they_rest(
    copies: Path, stores: list[Path], until: Until
) -> None:
    pool = Pool(copies, 1 << 30, max_open=1)
    running = [Endless() for _ in stores]

    async with anyio.create_task_group() as tasks:
        for path, endless in zip(stores, running, strict=True):
            tasks.start_soon(pool.ask, str(path), None, endless, a_while())
        await until(lambda: all(endless.is_running.is_set() for endless in running))
        assert len(pool) == 5
        tasks.cancel_scope.cancel()

    assert len(pool) <= 1
    await until(lambda: sum(descriptors_of(path) for path in stores) <= 1)
    await pool.close()


async def test_closing_a_store_that_is_stuck_holds_nobody_up(
    copies: Path, stores: list[Path], until: Until
) -> None:
    pool = Pool(copies, 1 << 30, max_open=1)
    stuck, is_free = threading.Event(), threading.Event()

    def hang(_: StoreConnection) -> None:  # as on a network file system that is gone
        stuck.set()
        is_free.wait(30)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.ask, str(stores[0]), None, hang, a_while())
            await until(stuck.is_set)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            assert await pool.ask(str(stores[1]), None, values, a_while()) == [1]  # pushes out the first
            pool.forget(str(stores[0]))
        assert len(pool) == 1
    finally:
        is_free.set()
    await pool.close()
    assert [descriptors_of(path) for path in stores[:2]] == [0, 0]


async def test_a_store_that_is_forgotten_while_in_use_is_closed_by_its_last_user(
    pool: Pool, stores: list[Path], until: Until
) -> None:
    path, endless = stores[0], Endless()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, str(path), None, endless, a_while())
        await until(endless.is_running.is_set)
        pool.forget(str(path))
        assert (len(pool), descriptors_of(path)) == (0, 1)
        assert await pool.ask(str(path), None, values, a_while()) == [0]  # through a new connection
        assert not endless.has_stopped.is_set()
        assert (len(pool), descriptors_of(path) > 1) == (1, True)
        tasks.cancel_scope.cancel()

    assert len(pool) == 1
    await pool.close()
    assert descriptors_of(path) == 0


async def test_closing_the_pool_while_a_store_is_in_use_closes_it_in_the_end(
    pool: Pool, stores: list[Path], until: Until
) -> None:
    path, endless = stores[0], Endless()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, str(path), None, endless, a_while())
        await until(endless.is_running.is_set)
        await pool.close()
        assert not endless.has_stopped.is_set()
        tasks.cancel_scope.cancel()

    assert len(pool) == 0
    await until(lambda: descriptors_of(path) == 0)


async def test_a_store_is_forgotten_unless_it_reads_the_very_bytes_that_are_there(
    pool: Pool, stores: list[Path], until: Until
) -> None:
    path = stores[0]
    await pool.ask(str(path), None, values, a_while())

    pool.forget(str(path), unless=await signature_of(path))
    assert len(pool) == 1
    pool.forget(str(path), unless=await signature_of(stores[1]))
    assert len(pool) == 0
    await until(lambda: descriptors_of(path) == 0)
    pool.forget(str(path))  # of one that is not open nothing needs to be forgotten
