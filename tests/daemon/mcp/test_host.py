"""The host: who is greeted, sessions that fail alone, and when it leaves its place to another."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.abc import SocketStream

from collated.claim import Claim
from collated.mcp.bridge import GREETING, Wish, host_path
from collated.mcp.host import Host
from collated.mcp.serving import LINE_BYTES

if TYPE_CHECKING:
    from tests.daemon.conftest import Until
    from tests.daemon.mcp.conftest import FakeDaemons, MakeStatus

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}


class Running:
    """A host that runs, and whether it still listens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_released = False
        self.has_ended = False

    async def connect(self) -> SocketStream:
        """Return a connection that was not greeted yet."""
        return await anyio.connect_unix(self.path)

    async def session(self) -> SocketStream:
        """Return a session that has begun."""
        stream = await self.connect()
        await stream.send(Wish(may_spawn=False, budget_tokens=3_000).line())
        with anyio.fail_after(10):
            assert await stream.receive() == GREETING
            await begin(stream)
        return stream


async def begin(stream: SocketStream) -> None:
    await stream.send(json.dumps(INITIALIZE).encode() + b"\n")
    received = b""
    while not received.endswith(b"\n"):
        received += await stream.receive()
    answer: dict[str, Any] = json.loads(received)
    assert answer["result"]["serverInfo"]["name"] == "collated"


def claimed(path: Path, held: ExitStack) -> tuple[Claim, socket.socket]:
    claim = held.enter_context(Claim(path))
    return claim, held.enter_context(claim.listen())


@asynccontextmanager
async def host(daemon: Path, idle_exit_s: float = 60) -> AsyncGenerator[Running]:
    """Run a host of the daemon at *daemon*; it is cancelled at the end of the block if it still runs."""
    running = Running(host_path(daemon))
    with ExitStack() as held:
        claim, listener = await anyio.to_thread.run_sync(claimed, running.path, held)

        def release() -> None:
            running.has_released = True
            held.close()

        async def run() -> None:
            await Host(daemon, idle_exit_s).run(claim, listener, release)
            running.has_ended = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield running
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(held.close)


@pytest.fixture
def path(tmp_path: Path, fake_daemon: FakeDaemons, status: MakeStatus) -> Path:
    """Where a daemon listens."""
    fake_daemon(status("docs", "search"))
    return tmp_path / "s"


async def test_a_session_that_fails_ends_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with host(path) as running:
        good = await running.session()
        bad = await running.connect()
        with caplog.at_level(logging.ERROR):
            async with bad, anyio.create_task_group() as tasks:
                tasks.start_soon(flood, bad)  # its first line has no end
                with anyio.fail_after(20), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await bad.receive()
                tasks.cancel_scope.cancel()
        assert "a session failed" in caplog.text
        await good.send(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\n')
        assert json.loads(await good.receive())["id"] == 2
        await good.aclose()


async def flood(stream: SocketStream) -> None:
    try:
        for _ in range(2 * LINE_BYTES // 1_048_576 + 1):
            await stream.send(b"x" * 1_048_576)
    except anyio.BrokenResourceError:
        pass  # it has ended


@pytest.mark.slow
async def test_it_stays_while_there_is_a_session_and_leaves_after_the_last(path: Path, until: Until) -> None:
    async with host(path, idle_exit_s=2) as running:
        async with await running.session():
            pass
        await until(lambda: running.has_ended)
        assert not running.path.exists()


async def test_a_host_without_its_socket_goes_on_with_its_sessions(path: Path, until: Until) -> None:
    async with host(path, idle_exit_s=0.05) as first:
        session = await first.session()
        first.path.unlink()
        await until(lambda: first.has_released)
        async with host(path) as second:
            async with await second.session():
                pass
            await session.send(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\n')
            assert json.loads(await session.receive())["id"] == 2
            await session.aclose()
            await until(lambda: first.has_ended)
            assert second.path.exists()
