"""Answers that go on, over real sockets: who has left holds no slot and is not waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from collated.mcp.http.serving import Limits

if TYPE_CHECKING:
    from tests.daemon.mcp.http.conftest import Listened, Running

    Serve = Callable[..., Awaitable[Running]]
    Until = Callable[[Callable[[], object]], Awaitable[None]]

pytestmark = pytest.mark.anyio

HELLO = b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"


async def test_who_has_left_holds_no_slot_while_it_is_answered(
    serve: Serve, listened: Listened, until: Until
) -> None:
    service = await serve(Limits(1), listened)
    async with AsyncExitStack() as stack:
        for number in range(1, 4):
            client = await stack.enter_async_context(await service.client())
            await client.send(HELLO)
            await until(lambda: listened.begun == number)  # noqa: B023 - called at once
    await until(lambda: listened.cancelled == 3)


async def test_a_stop_ends_who_has_left_and_waits_for_the_others_alone(
    serve: Serve, listened: Listened, until: Until
) -> None:
    service = await serve(Limits(1), listened, listened.ended.set)
    async with await service.client() as client:
        await client.send(HELLO)
        await until(lambda: listened.begun == 1)
        service.stop()
        assert b"ended" in await client.rest()
    assert await service.end() == 0


async def test_who_has_left_and_does_not_end_is_cut_and_was_not_unanswered(
    serve: Serve, listened: Listened, until: Until
) -> None:
    service = await serve(Limits(1), listened)
    async with await service.client() as client:
        await client.send(HELLO)
        await until(lambda: listened.begun == 1)
        service.stop()
        assert await service.end() == 0
        assert not (await client.rest()).endswith(b"0\r\n\r\n")
    assert listened.cancelled == 1


async def test_two_tasks_may_send_at_once(serve: Serve, logs: list[dict[str, object]]) -> None:
    pieces = [bytes([65 + number]) * 4_000_000 for number in range(3)]

    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

        async def put(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        async with anyio.create_task_group() as tasks:
            for piece in pieces:
                tasks.start_soon(put, piece)
        await send({"type": "http.response.body", "body": b""})

    service = await serve(Limits(1), streaming)
    answer = await service.ask(HELLO.replace(b"1.1", b"1.0", 1))  # which has no chunks
    assert answer.partition(b"\r\n\r\n")[2] == b"".join(pieces)
    assert logs == []


async def test_an_answer_says_that_its_connection_is_closed_whatever_the_application_says(
    serve: Serve,
) -> None:
    async def keeping(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"connection", b"keep-alive"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    service = await serve(Limits(1), keeping)
    lines = (await service.ask(HELLO)).lower().split(b"\r\n")
    assert [line for line in lines if line.startswith(b"connection:")] == [b"connection: close"]
