from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from collated.pool import Pool, Question
from collated_readers import Budget, RequestError, StoreError
from collated_readers.opening import Signature, StoreConnection, take_signature

pytestmark = pytest.mark.anyio

Until = Callable[[Callable[[], object]], Awaitable[None]]
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
SLICE_S = 30.0
LONG_AGO_S = 1_000_000_000


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Pool]:
    pool = Pool(tmp_path / "copies", 1 << 30, max_open=10)
    yield pool
    await pool.close()


@pytest.fixture
async def signatures(pool: Pool, tmp_path: Path) -> dict[str, Signature]:
    """Four stores that are open, each with its own number in it."""
    made: dict[str, Signature] = {}
    for number in range(4):
        path = tmp_path / f"s{number}.sqlite"
        write(path, number)
        made[str(path)] = await anyio.to_thread.run_sync(take_signature, path)
        await pool.ask(str(path), made[str(path)], value, Budget.lasting(30))
    return made


def write(path: Path, number: int) -> None:
    db = sqlite3.connect(path)
    with db:
        db.execute("CREATE TABLE IF NOT EXISTS t (x)")
        db.execute("INSERT INTO t VALUES (?)", (number,))
    db.close()
    os.utime(path, (LONG_AGO_S + number, LONG_AGO_S + number))


def value(db: StoreConnection) -> int:
    return int(db.execute("SELECT max(x) FROM t").fetchone()[0])


def thread(_: StoreConnection) -> int:
    return threading.get_ident()


def endless(db: StoreConnection) -> object:
    return db.execute(ENDLESS).fetchone()


def questions(
    signatures: dict[str, Signature], function: Callable[[StoreConnection], object]
) -> list[Question[object]]:
    return [Question(path, signature, function) for path, signature in signatures.items()]


async def test_all_are_asked_in_one_hop_each_in_a_transaction_of_its_own(
    pool: Pool, signatures: dict[str, Signature]
) -> None:
    assert await pool.ask_each(questions(signatures, value), SLICE_S) == [0, 1, 2, 3]
    assert len(set(await pool.ask_each(questions(signatures, thread), SLICE_S))) == 1
    assert await pool.ask_each(questions(signatures, lambda db: db.in_transaction), SLICE_S) == [True] * 4


async def test_nobody_is_asked_when_nobody_is_named(pool: Pool) -> None:
    assert await pool.ask_each([], SLICE_S) == []


async def test_what_is_not_open_or_has_other_bytes_is_left_to_be_asked_by_itself(
    pool: Pool, signatures: dict[str, Signature]
) -> None:
    closed, other, rewritten, last = signatures
    pool.forget(closed)
    asked = signatures | {other: signatures[last]}
    await anyio.to_thread.run_sync(write, Path(rewritten), 9)
    assert await pool.ask_each(questions(asked, value), SLICE_S) == [None, None, None, 3]
    now = await anyio.to_thread.run_sync(take_signature, Path(rewritten))
    assert now != signatures[rewritten]


@pytest.mark.parametrize(
    "error", [StoreError("damaged", "x"), RequestError("unknown_id", "x"), KeyError("x")]
)
async def test_one_that_fails_takes_none_of_the_others_answers(
    pool: Pool, signatures: dict[str, Signature], error: Exception
) -> None:
    def refuse(db: StoreConnection) -> int:
        if value(db) == 1:
            raise error
        return value(db)

    assert await pool.ask_each(questions(signatures, refuse), SLICE_S) == [0, None, 2, 3]


async def test_one_that_takes_longer_than_its_slice_is_stopped_and_the_next_has_its_own(
    pool: Pool, signatures: dict[str, Signature]
) -> None:
    def slow(db: StoreConnection) -> object:
        return endless(db) if value(db) == 0 else value(db)

    assert await pool.ask_each(questions(signatures, slow), 0.2) == [None, 1, 2, 3]
    assert await pool.ask_each(questions(signatures, value), SLICE_S) == [0, 1, 2, 3]


async def test_cancelling_the_asker_stops_the_statement_and_those_that_would_follow(
    pool: Pool, signatures: dict[str, Signature], until: Until
) -> None:
    is_running = threading.Event()
    asked: list[int] = []

    def run(db: StoreConnection) -> object:
        asked.append(value(db))
        is_running.set()
        return endless(db)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask_each, questions(signatures, run), SLICE_S)
        await until(is_running.is_set)
        tasks.cancel_scope.cancel()
    assert await pool.ask_each(questions(signatures, value), SLICE_S) == [0, 1, 2, 3]
    assert asked == [0]


async def test_a_store_that_somebody_else_asks_is_waited_for_within_the_slice_only(
    pool: Pool, signatures: dict[str, Signature], until: Until
) -> None:
    path = list(signatures)[1]
    is_running, may_end = threading.Event(), threading.Event()

    def hold(_: StoreConnection) -> bool:
        is_running.set()
        return may_end.wait(30)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, path, signatures[path], hold, Budget.lasting(30))
        await until(is_running.is_set)
        assert await pool.ask_each(questions(signatures, value), 0.05) == [0, None, 2, 3]
        may_end.set()
    assert await pool.ask_each(questions(signatures, value), SLICE_S) == [0, 1, 2, 3]


async def test_a_store_that_is_forgotten_meanwhile_is_closed_when_its_answer_is_there(
    pool: Pool, signatures: dict[str, Signature], until: Until
) -> None:
    is_running, may_end = threading.Event(), threading.Event()
    answers: list[object] = []

    def hold(db: StoreConnection) -> int:
        is_running.set()
        may_end.wait(30)
        return value(db)

    async def ask() -> None:
        answers.extend(await pool.ask_each(questions(signatures, hold), SLICE_S))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(is_running.is_set)
        for path in signatures:
            pool.forget(path)
        may_end.set()
    assert answers == [0, 1, 2, 3]
    assert len(pool) == 0
