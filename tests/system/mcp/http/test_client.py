"""The official client over HTTP: every tool, in both protocols, within what its credential opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.system.mcp.conftest import Agent, Call, Home
    from tests.system.mcp.http.conftest import AsyncUntil, Connect, Http, MakeHttp

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def ignore(progress: float, total: float | None, message: str | None) -> None:
    """Want to be told of progress."""


VERSIONS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}


@pytest.fixture(scope="module")
def every_kind_http(every_kind: Home, make_shared_http: MakeHttp) -> Http:
    """A server of the stores of `every_kind`."""
    return make_shared_http(every_kind.daemon).start(in_flight=32)


@pytest.fixture
def slow_http(slow: Home, make_http: MakeHttp) -> Http:
    """A server of `slow`, where nothing but the client ends what takes long."""
    slow.daemon.configure("[search]\ndeadline_s = 50\nranking = 'contract'\n")
    slow.daemon.ask("reload")
    return make_http(slow.daemon).start()


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
        found = client.server_capabilities
        assert found.tools is not None
        assert found.resources is not None
        told = (found.tools.list_changed, found.resources.list_changed, found.resources.subscribe)
        # Of 2025 they would come on a stream of the server's own, which there is not.
        assert {bool(each) for each in told} == {mode != "legacy"}


async def test_who_asks_for_progress_is_told_it_and_then_the_answer(
    every_kind_http: Http, connect: Connect, mode: str
) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with connect(every_kind_http, mode=mode) as client:
        # A pattern that nobody asked before: what is remembered is answered without progress.
        answer = await client.call_tool("grep", {"pattern": f"to{mode}"}, progress_callback=take)
        assert answer.structured_content is not None
        asked = answer.structured_content["stores"]["asked"]
        assert told[-1] == (asked, asked, f"{asked} of {asked} stores answered")
        assert [at for at, _, _ in told] == sorted({at for at, _, _ in told})
        wrong = await client.call_tool("grep", {"pattern": "(", "regex": True}, progress_callback=take)
        assert wrong.structured_content is not None
        assert wrong.structured_content["code"] == "pattern_rejected"


async def test_what_separates_lines_elsewhere_does_not_break_a_stream(
    home: Home, make_store: MakeStore, make_http: MakeHttp, connect: Connect, mode: str
) -> None:
    def start() -> Http:
        home.daemon.start()
        home.daemon.wait_state("odd", "open")
        return make_http(home.daemon).start()

    text = "# Odd\n\nnext\x85line \u2028 paragraph \u2029 unit \x1e\x1c form \x0c end\r\n\r\ndata: {}\n"
    make_store(home.daemon.stores / "odd.sqlite", {"odd.md": text})
    server = await anyio.to_thread.run_sync(start)
    async with connect(server, mode=mode) as client:
        plain = await client.call_tool("read", {"id": "odd:odd.md#0"})
        streamed = await client.call_tool("read", {"id": "odd:odd.md#0"}, progress_callback=ignore)
        assert plain.structured_content is not None
        assert "\u2028 paragraph" in plain.structured_content["text"]
        assert streamed.structured_content is not None
        assert streamed.structured_content["text"] == plain.structured_content["text"]


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


@pytest.mark.parametrize("on_progress", [None, ignore])
async def test_a_call_that_the_client_cancels_is_cancelled_in_the_store(
    slow_http: Http, connect: Connect, until: AsyncUntil, slow_query: str, *, mode: str, on_progress: Any
) -> None:
    def in_flight() -> int:
        return int(slow_http.daemon.ask("status")["in_flight"])

    async with connect(slow_http, mode=mode) as client:

        async def search() -> None:
            await client.call_tool("search", {"query": slow_query}, progress_callback=on_progress)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search)
            await until(lambda: in_flight() == 1)
            tasks.cancel_scope.cancel()
        await until(lambda: in_flight() == 0)
        await client.list_tools()  # the client cannot end while an answer that nobody wants comes in


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
