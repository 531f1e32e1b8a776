"""One session over a stream: garbage, the end of the input, an agent that is gone, stores that change."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from collated.mcp.bridge import FAREWELL
from collated.mcp.link import Link
from collated.mcp.serving import LINE_BYTES, serve

if TYPE_CHECKING:
    from tests.daemon.conftest import Until
    from tests.daemon.mcp.conftest import FakeDaemons, MakeStatus

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
TOOLS = "notifications/tools/list_changed"
RESOURCES = "notifications/resources/list_changed"


class Agent:
    """The other end of a session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.told: list[str] = []

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}, **more}
        await self.write(json.dumps(message).encode() + b"\n")

    async def answer(self, request_id: int | None) -> Any:
        """Return the answer to a request; what is told meanwhile is kept."""
        with anyio.fail_after(10):
            while line := await self.reader.readline():
                message = json.loads(line)
                if "method" not in message and message["id"] == request_id:
                    return message
                self.told.append(message["method"])
        raise AssertionError("the session has ended")

    async def hello(self) -> Any:
        await self.send("initialize", HELLO, id=0)
        answer = await self.answer(0)
        await self.send("notifications/initialized")
        return answer["result"]

    async def search(self, request_id: int) -> None:
        await self.send("tools/call", {"name": "search", "arguments": {"query": "x"}}, id=request_id)


@asynccontextmanager
async def session(path: Path) -> AsyncGenerator[Agent]:
    """Serve an agent until the block ends, which it does when the session has ended."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs, limit=LINE_BYTES)
    agent = Agent(*await asyncio.open_connection(sock=ours, limit=LINE_BYTES))

    async def run() -> None:
        async with Link(path) as link:
            await serve(reader, writer, link)
        writer.close()

    async with AsyncExitStack() as ends:
        ends.callback(writer.close)
        ends.callback(agent.writer.close)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(20):
                yield agent
                agent.writer.close()


def found(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    if message["method"] != "search":
        return []
    stores: dict[str, Any] = {"asked": 1, "answered": 1, "skipped": 0, "failed": []}
    result: dict[str, Any] = {
        "hits": [],
        "mode": "lexical",
        "hint": None,
        "complete": True,
        "stores": stores,
    }
    return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the daemon listens."""
    return tmp_path / "s"


async def test_a_session_of_2025_is_told_what_it_may_expect(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    fake_daemon(status("docs", "search"))
    async with session(path) as agent:
        hello = await agent.hello()
    assert hello["protocolVersion"] == "2025-11-25"
    assert hello["capabilities"]["tools"] == {"listChanged": True}
    assert hello["capabilities"]["resources"]["listChanged"] is True


async def test_another_daemon_with_other_stores_is_told_of(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    first = fake_daemon(status("docs", "search"))
    first.script = found
    async with session(path) as agent:
        await agent.hello()
        await agent.search(1)
        await agent.answer(1)
        await anyio.to_thread.run_sync(first.drop)
        second = fake_daemon(status("docs", "search"), status("code", "search", "symbols"))
        second.script = found
        request_id = 2
        while TOOLS not in agent.told or RESOURCES not in agent.told:
            await agent.search(request_id)
            await agent.answer(request_id)
            request_id += 1
    assert agent.told.count(TOOLS) == agent.told.count(RESOURCES) == 1


async def test_a_list_that_is_as_it_was_is_told_to_nobody(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, until: Until
) -> None:
    daemon = fake_daemon(status("docs", "search"))
    daemon.script = found
    async with session(path) as agent:
        await agent.hello()
        read = daemon.asked.count("stores")
        await anyio.to_thread.run_sync(daemon.change, [status("docs", "search", seconds=5)])
        await until(lambda: daemon.asked.count("stores") > read)
        for request_id in (1, 2, 3):
            await agent.search(request_id)
            await agent.answer(request_id)
    assert agent.told == []


async def test_the_end_of_the_input_waits_for_answers_but_not_for_subscriptions(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    fake_daemon(status("docs", "search")).script = found
    async with session(path) as agent:
        await agent.hello()
        for request_id in range(1, 30):
            await agent.search(request_id)
        agent.writer.write_eof()
        with anyio.fail_after(10):
            said = await agent.reader.read()
    assert said.endswith(b"\n" + FAREWELL)
    lines = said.removesuffix(FAREWELL).splitlines()
    assert {json.loads(line)["id"] for line in lines} == set(range(1, 30))


async def test_who_is_gone_is_not_waited_for(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, until: Until
) -> None:
    daemon = fake_daemon(status("docs", "search"))  # which never answers a search
    async with session(path) as agent:
        await agent.hello()
        await agent.search(1)
        await until(lambda: "search" in daemon.asked)
        agent.writer.close()
        await until(lambda: "$/cancelRequest" in daemon.asked)


async def test_a_call_that_is_cancelled_is_not_waited_for_either(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, until: Until
) -> None:
    daemon = fake_daemon(status("docs", "search"))
    async with session(path) as agent:
        await agent.hello()
        await agent.search(1)
        await until(lambda: "search" in daemon.asked)
        await agent.send("notifications/cancelled", {"requestId": 1})
        await until(lambda: "$/cancelRequest" in daemon.asked)
        agent.writer.write_eof()
        with anyio.fail_after(10):
            assert await agent.reader.read() == FAREWELL


@pytest.mark.parametrize(
    ("said", "code"), [(b"hello\n", -32700), (b"7\n", -32600), (b'{"jsonrpc":"1.0","id":1}\n', -32600)]
)
async def test_what_is_no_message_is_refused_and_the_next_is_served(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, said: bytes, code: int
) -> None:
    fake_daemon(status("docs", "search")).script = found
    async with session(path) as agent:
        await agent.write(said)
        assert (await agent.answer(None))["error"]["code"] == code
        await agent.hello()
        await agent.search(1)
        assert "result" in await agent.answer(1)


async def test_a_message_that_is_too_long_ends_the_session_and_says_why(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    fake_daemon(status("docs", "search"))
    async with session(path) as agent, anyio.create_task_group() as tasks:
        tasks.start_soon(flood, agent)
        assert "at most" in (await agent.answer(None))["error"]["message"]
        tasks.cancel_scope.cancel()


async def flood(agent: Agent) -> None:
    try:
        for _ in range(2 * LINE_BYTES // 1_048_576 + 1):
            await agent.write(b"x" * 1_048_576)
    except ConnectionError:
        pass  # it has ended
