"""The official client over HTTP: every tool, in both protocols, within what its credential opens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from tests.system.mcp.conftest import Agent, Call, Home
    from tests.system.mcp.http.conftest import Http, MakeHttp

    Connect = Callable[..., AbstractAsyncContextManager[Client]]

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

VERSIONS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}


@pytest.fixture(scope="module")
def every_kind_http(every_kind: Home, make_shared_http: MakeHttp) -> Http:
    """A server of the stores of `every_kind`."""
    return make_shared_http(every_kind.daemon).start(in_flight=32)


@pytest.fixture
def connect() -> Connect:
    """`connect(server, token="", mode="legacy")` is the official client, with a credential."""

    @asynccontextmanager
    async def client(server: Http, token: str = "", *, mode: str = "legacy") -> AsyncGenerator[Client]:
        headers = {"Authorization": f"Bearer {token or server.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http_client:
            transport = streamable_http_client(f"http://127.0.0.1:{server.port}/mcp", http_client=http_client)
            async with Client(transport, mode="auto" if mode != "legacy" else mode) as connected:
                yield connected

    return client


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for *condition*, asked in a thread since it may ask a daemon."""
    with anyio.fail_after(seconds):
        while not await anyio.to_thread.run_sync(condition):  # noqa: ASYNC110 - nobody tells a process
            await anyio.sleep(0.02)


async def test_every_tool_runs_and_answers_as_over_stdio(
    every_kind_http: Http, connect: Connect, agent: Agent, calls: list[Call], mode: str
) -> None:
    daemon = every_kind_http.daemon
    async with connect(every_kind_http, mode=mode) as client, agent(daemon, mode=mode) as stdio:
        assert client.protocol_version == VERSIONS[mode]
        tools = (await client.list_tools()).tools
        assert tools == (await stdio.list_tools()).tools
        assert client.instructions == stdio.instructions
        for name, arguments in calls:
            # The client holds the structured content to the tool's own schema.
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, answer
            expected = await stdio.call_tool(name, arguments)
            if name != "stores":
                assert _timeless(answer.structured_content) == _timeless(expected.structured_content)
    assert {name for name, _ in calls} == {tool.name for tool in tools}


def _timeless(structured: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a tool answered but for how long ago its stores were made."""
    assert structured
    return {key: value for key, value in structured.items() if key != "freshness"}


async def test_resources_are_read(every_kind_http: Http, connect: Connect, mode: str) -> None:
    async with connect(every_kind_http, mode=mode) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == ["collate://index"]
        (index,) = (await client.read_resource("collate://index")).contents
        assert index.model_dump()["text"] == client.instructions
        (record,) = (await client.read_resource("collate://docs/guide.md#1")).contents
        assert "Thirty days" in record.model_dump()["text"]
        with pytest.raises(MCPError, match="nowhere"):
            await client.read_resource("collate://nowhere/guide.md#1")


async def test_no_change_is_promised_that_cannot_be_told(
    every_kind_http: Http, connect: Connect, mode: str
) -> None:
    async with connect(every_kind_http, mode=mode) as client:
        capabilities = client.server_capabilities.model_dump_json(exclude_none=True)
        assert "true" not in capabilities, capabilities


async def test_who_asks_for_progress_gets_the_answer_alone(
    every_kind_http: Http, connect: Connect, mode: str
) -> None:
    told: list[float] = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with connect(every_kind_http, mode=mode) as client:
        answer = await client.call_tool("grep", {"pattern": "total"}, progress_callback=take)
        assert not answer.is_error
    assert told == []


async def test_a_mistake_is_answered_with_what_to_do(
    every_kind_http: Http, connect: Connect, mode: str
) -> None:
    async with connect(every_kind_http, mode=mode) as client:
        answer = await client.call_tool("search", {"query": "x", "stores": ["nowhere"]})
        assert answer.is_error
        assert answer.structured_content is not None
        assert answer.structured_content["code"] == "unknown_store"
        assert answer.structured_content["suggestion"]


async def test_callers_see_their_stores_alone_while_they_ask_at_once(
    every_kind_http: Http, connect: Connect, mode: str
) -> None:
    def new(name: str) -> str:
        return every_kind_http.new_credential(f"{name}-{mode}", "--stores", name)

    tokens = {name: await anyio.to_thread.run_sync(new, name) for name in ("docs", "shop")}
    seen: dict[str, set[str]] = {name: set() for name in tokens}
    tools: dict[str, set[str]] = {}

    async def ask(name: str) -> None:
        async with connect(every_kind_http, tokens[name], mode=mode) as client:
            tools[name] = {tool.name for tool in (await client.list_tools()).tools}
            for _ in range(10):
                listed = await client.call_tool("stores", {})
                assert listed.structured_content is not None
                seen[name] |= {each["name"] for each in listed.structured_content["stores"]}

    async with anyio.create_task_group() as tasks:
        for name in tokens:
            tasks.start_soon(ask, name)
    assert seen == {"docs": {"docs"}, "shop": {"shop"}}
    assert "symbols" in tools["shop"] - tools["docs"]


async def test_without_a_credential_nothing_is_begun(every_kind_http: Http, connect: Connect) -> None:
    with pytest.raises(BaseExceptionGroup) as refused:
        async with connect(every_kind_http, "guess"):
            pytest.fail("a session began")
    assert refused.group_contains(MCPError, match="error response")


async def test_a_call_that_the_client_cancels_is_cancelled_in_the_store(
    slow: Home, make_http: MakeHttp, connect: Connect, slow_query: str, mode: str
) -> None:
    def start() -> Http:
        slow.daemon.configure("[search]\ndeadline_s = 50\n")  # so that nothing but the client ends it
        slow.daemon.ask("reload")
        return make_http(slow.daemon).start()

    server = await anyio.to_thread.run_sync(start)
    async with connect(server, mode=mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "search", {"query": slow_query})
            await until(lambda: slow.in_flight == 1)
            tasks.cancel_scope.cancel()
        await until(lambda: slow.in_flight == 0)


async def test_a_daemon_that_dies_is_told_and_the_next_call_reaches_another(
    home: Home, make_http: MakeHttp, connect: Connect
) -> None:
    home.daemon.start()
    server = await anyio.to_thread.run_sync(lambda: make_http(home.daemon).start())
    async with connect(server) as client:
        assert not (await client.call_tool("search", {"query": "refund"})).is_error
        await anyio.to_thread.run_sync(home.kill, home.daemon_pid)
        answer = await client.call_tool("search", {"query": "refund"})
        if answer.is_error:  # it was asked before the end of the connection was seen
            assert answer.structured_content is not None
            assert answer.structured_content["code"] == "daemon_unreachable"
            answer = await client.call_tool("search", {"query": "refund"})
        assert answer.structured_content is not None
        assert answer.structured_content["hits"][0]["store"] == "docs"
