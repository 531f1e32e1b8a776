"""Sessions and the clients at their other end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import msgspec
import pytest

from collated.framing import Framer, Framing, frame
from collated.session import Session

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld
    from tests.daemon.worlds import Parts, World

    from collated_readers.opening import StoreConnection


class Client:
    """The other end of a session."""

    def __init__(self, stream: anyio.abc.SocketStream, framing: Framing) -> None:
        self.stream = stream
        self.framing: Framing = framing
        self._framer = Framer(1 << 24, framing)
        self._received: list[Any] = []

    def encode(self, message: object) -> bytes:
        is_binary = self.framing == "msgpack"
        body = msgspec.msgpack.encode(message) if is_binary else msgspec.json.encode(message)
        return frame(self.framing, body)

    async def send(self, *messages: object) -> None:
        """Send *messages* in one write."""
        await self.stream.send(b"".join(self.encode(message) for message in messages))

    async def receive(self) -> Any:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the session has ended.
        """
        with anyio.fail_after(10):
            while not self._received:
                bodies = self._framer.feed(await self.stream.receive())
                assert self._framer.error is None
                decode = msgspec.msgpack.decode if self.framing == "msgpack" else json.loads
                self._received += [decode(body) for body in bodies]
        return self._received.pop(0)

    async def ask(self, method: str, request_id: int | str = 1, **params: object) -> Any:
        """Send one request and return the next message."""
        await self.send({"id": request_id, "method": method, "params": params})
        return await self.receive()

    async def rest(self) -> list[Any]:
        """Return everything until the session ends."""
        messages: list[Any] = []
        while True:
            try:
                messages.append(await self.receive())
            except anyio.EndOfStream:
                return messages


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """`await connect(parts)` serves a client; further arguments are those of `Session`, and the framing."""
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())

        async def open_it(
            parts: Parts,
            framing: Framing = "lines",
            *,
            buffer_bytes: int = 0,
            is_draining: Callable[[], bool] = lambda: False,
            is_turned_away: bool = False,
        ) -> Client:
            ours, theirs = socket.socketpair()
            if buffer_bytes:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
            stream = await anyio.abc.UNIXSocketStream.from_socket(theirs)
            stack.push_async_callback(stream.aclose)
            session = Session(parts.methods, is_draining=is_draining, is_turned_away=is_turned_away)
            tasks.start_soon(session.run, ours)
            return Client(stream, framing)

        yield open_it
        tasks.cancel_scope.cancel()


Dial = Callable[[socket.socket], Awaitable[Client]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """`await dial(listener)` connects to a socket that listens."""
    async with AsyncExitStack() as stack:

        async def open_it(listener: socket.socket) -> Client:
            stream = await anyio.connect_unix(listener.getsockname())
            stack.push_async_callback(stream.aclose)
            return Client(stream, "lines")

        yield open_it


class Gate:
    """An act that holds a store until it is opened, or until the request is given up."""

    def __init__(self) -> None:
        self.held = 0
        self.has_stopped = threading.Event()
        self._is_open = threading.Event()

    def open(self) -> None:
        self._is_open.set()

    def __call__(self, db: StoreConnection) -> None:
        self.held += 1
        try:
            while not self._is_open.wait(0.002):
                db.execute(
                    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 9999) "
                    "SELECT count(*) FROM c"
                ).fetchone()  # where the progress handler looks up
        finally:
            self.has_stopped.set()


@pytest.fixture
async def gated(world: OpenWorld) -> AsyncIterator[tuple[World, Gate]]:
    """One store that is held at a gate whenever it is searched."""
    opened, gate = await world({"a": {"all": [("x", -1.0)]}}), Gate()
    opened.reader.acts["a", "phrase"] = gate
    yield opened, gate
    gate.open()
