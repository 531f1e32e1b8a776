"""A service over a real socket, with an application that waits until it is told to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Self, cast

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from starlette.types import Message, Receive, Scope, Send

from collated.mcp.http.serving import Limits, Service

DEADLINE_S = 20.0
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Held:
    """An application that answers each request with its body once `released` is set."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.released = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        try:
            body: bytes = (await receive())["body"]
            await self.released.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        headers = [(b"content-length", str(len(body)).encode())]
        start: Message = {"type": "http.response.start", "status": 200, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": body})


class Listened:
    """An application that leaves its visit, then answers as long as it is not `ended`."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.ended = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["visit"].leave()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        self.begun += 1
        try:
            await self.ended.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        await send({"type": "http.response.body", "body": b"ended"})


class Client:
    """A connection that sends bytes and takes what comes until the end."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stream.aclose()

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def rest(self) -> bytes:
        """Return everything until the server closes its end."""
        data = b""
        with anyio.fail_after(DEADLINE_S):
            try:
                while True:
                    data += await self.stream.receive()
            except anyio.EndOfStream:
                return data


class Running:
    """A service that listens at a port of its own; `unanswered` is there once it has ended."""

    def __init__(self, listener: SocketListener, stops: MemoryObjectSendStream[None]) -> None:
        self.port: int = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django
        self.unanswered: int | None = None
        self.ended = anyio.Event()
        self._stops = stops

    async def client(self) -> Client:
        return Client(await anyio.connect_tcp("127.0.0.1", self.port))

    async def ask(self, request: bytes) -> bytes:
        """Return the whole answer to *request* on a connection of its own."""
        async with await self.client() as client:
            await client.send(request)
            return await client.rest()

    def stop(self) -> None:
        """Do what a signal does."""
        self._stops.send_nowait(None)

    async def end(self) -> int:
        """Wait until the service ended by itself, and return how many it left unanswered."""
        with anyio.fail_after(DEADLINE_S):
            await self.ended.wait()
        assert self.unanswered is not None
        return self.unanswered


Serve = Callable[..., Awaitable[Running]]


@pytest.fixture
async def held() -> Held:
    return Held()


@pytest.fixture
async def listened() -> Listened:
    return Listened()


@pytest.fixture
async def serve(held: Held) -> AsyncIterator[Serve]:
    """`await serve(limits, app, at_stop)` starts a service, of `held` where no other *app* is given."""
    async with AsyncExitStack() as stack:
        tasks: TaskGroup = await stack.enter_async_context(anyio.create_task_group())

        async def start(
            limits: Limits, app: Application | None = None, at_stop: Callable[[], None] = lambda: None
        ) -> Running:
            listening = await anyio.create_tcp_listener(local_host="127.0.0.1")
            listener = cast("SocketListener", listening.listeners[0])
            sender, stops = anyio.create_memory_object_stream[None](8)
            stack.callback(sender.close)
            stack.callback(stops.close)
            running = Running(listener, sender)

            async def run() -> None:
                running.unanswered = await Service(app or held, limits, at_stop).run(listener, stops)
                running.ended.set()

            tasks.start_soon(run)
            return running

        yield start
        tasks.cancel_scope.cancel()
