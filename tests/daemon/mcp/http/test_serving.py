"""Connections over real sockets: the ceiling, draining, what a client does wrong, and what it is answered."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest
from starlette.types import Receive, Scope, Send

from collated.mcp.http.exchange import BODY_LIMIT_BYTES, Patience
from collated.mcp.http.serving import Limits

if TYPE_CHECKING:
    from tests.daemon.mcp.http.conftest import Client, Held, Running

    Serve = Callable[..., Awaitable[Running]]
    Until = Callable[[Callable[[], object]], Awaitable[None]]

pytestmark = pytest.mark.anyio

HELLO = b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer.split(b" ", 2)[1])


def head(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[0].lower()


def is_busy(answer: bytes) -> bool:
    return status(answer) == 503 and b"\r\nretry-after: 1" in head(answer)


async def test_a_request_is_answered_and_its_connection_closed(serve: Serve, held: Held) -> None:
    service = await serve(Limits(1))
    held.released.set()
    for _ in range(3):  # the slot is free again each time
        answer = await service.ask(HELLO + b"GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status(answer) == 200
        assert b"\r\nconnection: close" in head(answer)
        assert answer.endswith(b"\r\n\r\nhello")
    assert held.begun == 3


@pytest.mark.rule("past-ceiling")
async def test_past_ceiling(serve: Serve, held: Held, until: Until) -> None:
    service = await serve(Limits(2))
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await service.client()) for _ in range(2)]
        for client in clients:
            await client.send(HELLO)
        await until(lambda: held.begun == 2)
        assert is_busy(await service.ask(HELLO))
        assert is_busy(await service.ask(HEALTH))
        assert held.begun == 2
        held.released.set()
        assert [status(await client.rest()) for client in clients] == [200, 200]
    assert status(await service.ask(HELLO)) == 200


@pytest.mark.rule("connection-ceiling")
async def test_connection_ceiling(serve: Serve, held: Held, until: Until) -> None:
    service = await serve(Limits(1))
    held.released.set()
    async with await service.client() as silent:
        await _is_full(service)
        async with await service.client() as unparsed:
            assert is_busy(await unparsed.rest())  # it has sent nothing yet
        assert is_busy(await service.ask(b"no HTTP\r\n\r\n"))
        await silent.send(HELLO)
        assert status(await silent.rest()) == 200
    assert status(await service.ask(HELLO)) == 200


async def _is_full(service: Running) -> None:
    """Wait until the connection before has the only slot."""
    with anyio.fail_after(20):
        while not is_busy(await service.ask(HEALTH)):  # noqa: ASYNC110 - another's state
            await anyio.sleep(0.002)


async def test_a_client_that_was_let_in_and_leaves_gives_its_slot_back(
    serve: Serve, held: Held, until: Until
) -> None:
    service = await serve(Limits(1))
    for sent in (b"", HELLO[:20], HELLO[:-1], HELLO):
        async with await service.client() as client:
            await client.send(sent) if sent else None
            await _is_full(service)
    await until(lambda: held.cancelled == 1)
    held.released.set()
    await _is_answered(service)


async def _is_answered(service: Running) -> None:
    with anyio.fail_after(20):
        while status(await service.ask(HELLO)) != 200:  # noqa: ASYNC110 - another's state
            await anyio.sleep(0.002)


async def test_a_client_that_leaves_has_its_answer_cancelled(serve: Serve, held: Held, until: Until) -> None:
    service = await serve(Limits(4))
    async with await service.client() as half, await service.client() as whole:
        for number, client in enumerate((half, whole), start=1):
            await client.send(HELLO)
            await until(lambda: held.begun == number)  # noqa: B023 - called at once
        await half.stream.send_eof()
        await until(lambda: held.cancelled == 1)
        await whole.stream.aclose()
        await until(lambda: held.cancelled == 2)


@pytest.mark.rule("request-body")
@pytest.mark.parametrize("is_declared", [True, False])
async def test_request_body(serve: Serve, held: Held, is_declared: bool) -> None:
    service = await serve(Limits(1))
    held.released.set()
    length = BODY_LIMIT_BYTES + 1
    size = b"Content-Length: %d" % length if is_declared else b"Transfer-Encoding: chunked"
    async with await service.client() as client:
        await client.send(b"POST /mcp HTTP/1.1\r\nHost: x\r\n" + size + b"\r\n\r\n")
        if not is_declared:
            await client.send(b"%x\r\n%s" % (length + 1, bytes(length)))
        # The rest never comes: nobody waits for it.
        assert status(await client.rest()) == 413
    assert held.begun == 0


async def test_a_client_that_goes_on_sending_a_body_over_the_limit_still_gets_its_answer(
    serve: Serve,
) -> None:
    service = await serve(Limits(1))
    body = bytes(4 * BODY_LIMIT_BYTES)
    assert (
        status(
            await service.ask(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
        )
        == 413
    )


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_a_body_at_the_limit_is_taken_whole(serve: Serve, held: Held, is_chunked: bool) -> None:
    service = await serve(Limits(1))
    held.released.set()
    body = b"x" * BODY_LIMIT_BYTES
    if is_chunked:
        sent = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    else:
        sent = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    answer = await service.ask(b"POST / HTTP/1.1\r\nHost: x\r\n" + sent)
    assert answer.partition(b"\r\n\r\n")[2] == body


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on_or_not(
    serve: Serve, held: Held
) -> None:
    service = await serve(Limits(1))
    held.released.set()
    async with await service.client() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert status(await client.stream.receive()) == 100
        await client.send(b"hello")
        assert status(await client.rest()) == 200
    large = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n"
    assert status(await service.ask(large)) == 413


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"\x00\x01\x02\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000, 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400),  # TLS
    ],
)
async def test_what_is_no_request_is_told_so(serve: Serve, held: Held, sent: bytes, expected: int) -> None:
    service = await serve(Limits(1))
    assert status(await service.ask(sent)) == expected
    assert held.begun == 0


async def test_clients_that_break_off_at_any_byte_harm_nobody(
    serve: Serve, held: Held, logs: list[dict[str, object]]
) -> None:
    service = await serve(Limits(64))
    held.released.set()
    expecting = HELLO.replace(b"Host", b"Expect: 100-continue\r\nHost")
    for request in (HELLO, expecting, b"no HTTP\r\n\r\n"):
        for length in range(len(request) + 1):
            await anyio.to_thread.run_sync(_reset_after, service.port, request[:length])
    await _is_answered(service)
    assert logs == []


def _reset_after(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        # With no time to linger, closing resets the connection.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(data)


async def test_random_bytes_harm_nobody(serve: Serve, held: Held, logs: list[dict[str, object]]) -> None:
    service = await serve(Limits(64, patience=Patience(request_s=0.05)))
    held.released.set()
    chance = random.Random(7)  # noqa: S311 - the same each time
    for _ in range(60):
        sent = bytearray(HELLO)
        for _ in range(chance.randrange(1, 8)):
            at = chance.randrange(len(sent))
            sent[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        assert status(await service.ask(bytes(sent))) in (200, 400, 408, 431, 501)
    await _is_answered(service)
    assert logs == []


async def test_a_request_that_does_not_become_whole_gives_its_slot_back(serve: Serve, held: Held) -> None:
    service = await serve(Limits(1, patience=Patience(request_s=0.05)))
    for sent in (b"GET", HELLO[:-1]):
        assert status(await service.ask(sent)) == 408
    held.released.set()
    assert status(await service.ask(HELLO)) == 200


async def test_a_client_that_takes_nothing_in_is_let_go(serve: Serve, until: Until) -> None:
    sent: list[BaseException | None] = []

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        except BaseException as error:
            sent.append(error)
            raise

    service = await serve(Limits(1, patience=Patience(stall_s=0.05)), endless)
    async with await service.client() as client:
        await client.send(HEALTH)
        await until(lambda: sent)
        assert isinstance(sent[0], anyio.get_cancelled_exc_class())


async def test_an_application_that_fails_is_answered_for(serve: Serve, logs: list[dict[str, object]]) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("secret")

    service = await serve(Limits(1), failing)
    for _ in range(2):
        answer = await service.ask(HELLO)
        assert status(answer) == 500
        assert b"secret" not in answer
    assert [event["event"] for event in logs] == ["request_failed", "request_failed"]


async def test_a_question_for_the_head_alone_gets_no_body(serve: Serve, held: Held) -> None:
    held.released.set()
    service = await serve(Limits(1))
    answer = await service.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
    assert status(answer) == 200
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.rule("stop-drain")
async def test_stop_drain(serve: Serve, held: Held, until: Until) -> None:
    assert Limits(1).drain_s <= 20
    service = await serve(Limits(2))
    async with await service.client() as asking, await service.client() as silent:
        await asking.send(HELLO)
        await until(lambda: held.begun == 1)
        await _is_full(service)
        service.stop()
        held.released.set()
        assert (await asking.rest()).endswith(b"hello")
        await silent.send(HELLO)  # its connection was accepted before the signal
        assert (await silent.rest()).endswith(b"hello")
    assert await service.end() == 0
    with pytest.raises(OSError, match="connect"):
        await service.client()


async def test_a_service_that_nobody_asks_stops_at_once(serve: Serve) -> None:
    service = await serve(Limits(1))
    service.stop()
    assert await service.end() == 0


@pytest.mark.rule("drain-unfinished")
@pytest.mark.parametrize("is_impatient", [True, False])
async def test_drain_unfinished(serve: Serve, held: Held, until: Until, is_impatient: bool) -> None:
    service = await serve(Limits(3, drain_s=60 if is_impatient else 0.1))
    async with await service.client() as first, await service.client() as second:
        for number, client in enumerate((first, second), start=1):
            await client.send(HELLO)
            await until(lambda: held.begun == number)  # noqa: B023 - called at once
        service.stop()
        if is_impatient:
            service.stop()
        assert await service.end() == 2
        assert [await _until_closed(client) for client in (first, second)] == [b"", b""]
    assert held.cancelled == 2


async def _until_closed(client: Client) -> bytes:
    try:
        return await client.rest()
    except anyio.BrokenResourceError:
        return b""


@pytest.mark.rule("draining-health")
async def test_draining_health(serve: Serve, held: Held, until: Until) -> None:
    service = await serve(Limits(8))
    async with await service.client() as client:
        await client.send(HELLO)
        await until(lambda: held.begun == 1)
        service.stop()
        async with await service.client() as unparsed:
            assert is_busy(await unparsed.rest())
        assert is_busy(await service.ask(HEALTH))
        assert is_busy(await service.ask(HELLO))
        assert held.begun == 1
        held.released.set()
        assert status(await client.rest()) == 200
    assert await service.end() == 0


async def test_who_is_turned_away_with_a_request_on_the_way_still_gets_the_answer(
    serve: Serve, held: Held, until: Until
) -> None:
    service = await serve(Limits(1))
    async with await service.client() as client:
        await client.send(HELLO)
        await until(lambda: held.begun == 1)
        body = bytes(300_000)
        request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        for _ in range(20):
            assert is_busy(await service.ask(request))
