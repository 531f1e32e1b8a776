"""The server of one session: what it says first, what a caller may see, and errors that are answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from collated.errors import DaemonUnreachable
from collated.mcp.link import Link
from collated.mcp.scope import Scope
from collated.mcp.session import make_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.daemon.conftest import Until
    from tests.daemon.mcp.conftest import FakeDaemons, MakeStatus

    Connect = Callable[..., AbstractAsyncContextManager[Client]]

pytestmark = pytest.mark.anyio

STORES: dict[str, Any] = {"asked": 2, "answered": 2, "skipped": 0, "failed": []}


def answer(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Answer `index` with a text of the store, and `search` with nothing found; `broken` has no index."""
    params: Mapping[str, Any] = message.get("params") or {}
    match message["method"]:
        case "index" if params["store"] == "broken":
            data = {
                "code": "store_unavailable",
                "retryable": True,
                "suggestion": None,
                "retry_after_ms": None,
            }
            error = {"code": -32003, "message": "it is broken", "data": data}
            return [{"jsonrpc": "2.0", "id": message["id"], "error": error}]
        case "index":
            result: dict[str, Any] = {"text": f"contents of {params['store']}\n"}
        case "search":
            result = {"hits": [], "mode": "lexical", "hint": None, "complete": True, "stores": STORES}
        case _:
            return []
    return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Any:
    """How the client negotiates."""
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the daemon listens."""
    return tmp_path / "s"


async def instructions(link: Link, mode: Any, scope: Scope = Scope()) -> str:  # noqa: B008 - it is frozen
    """Return what a client is told when it begins."""
    async with Client(make_server(link, scope), mode=mode) as client:
        return client.instructions or ""


async def test_the_instructions_hold_the_contents_of_every_open_store(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, mode: Any
) -> None:
    fake_daemon(status("docs"), status("broken"), status("shut", reason="no")).script = answer
    async with Link(path) as link:
        told = await instructions(link, mode)
    assert "contents of docs" in told
    assert "broken" in told
    assert "shut" in told
    assert "contents of shut" not in told


async def test_the_instructions_keep_to_a_budget(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, mode: Any
) -> None:
    fake_daemon(*(status(f"store-{number}") for number in range(50))).script = answer
    async with Link(path) as link, Client(make_server(link, budget_tokens=300), mode=mode) as client:
        told = client.instructions or ""
    assert len(told) <= 300 * 4
    assert "more; call stores" in told


async def test_the_instructions_are_those_of_what_a_caller_may_see(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, mode: Any
) -> None:
    daemon = fake_daemon(status("docs"), status("secret", "search", "symbols"))
    daemon.script = answer
    scope = Scope(frozenset({"docs"}))
    async with Link(path) as link:
        assert "secret" not in await instructions(link, mode, scope)
        async with Client(make_server(link, scope), mode="legacy") as client:
            assert "symbols" not in [tool.name for tool in (await client.list_tools()).tools]
            await client.call_tool("search", {"query": "x"})
            refused = await client.call_tool("search", {"query": "x", "stores": ["secret"]})
            with pytest.raises(MCPError, match="no store"):
                await client.read_resource("collate://secret/a.md#0")
    assert refused.is_error
    (search,) = (each for each in daemon.received if each["method"] == "search")
    assert search["params"]["stores"] == ["docs"]


async def test_without_a_daemon_the_instructions_say_so_and_the_tools_are_there(path: Path) -> None:
    async with Link(path) as link:
        assert "--no-spawn" in await instructions(link, "legacy")
        async with Client(make_server(link), mode="legacy") as client:
            assert "search" in [tool.name for tool in (await client.list_tools()).tools]
            failed = await client.call_tool("search", {"query": "x"})
    assert failed.is_error
    assert failed.structured_content is not None
    assert failed.structured_content["code"] == "daemon_unreachable"


async def test_what_a_daemon_says_as_it_fails_does_not_reach_a_terminal_raw(path: Path) -> None:
    def start() -> None:
        raise DaemonUnreachable("the daemon did not start:\n  \x1b[31mred")

    async with Link(path, start) as link:
        told = await instructions(link, "legacy")
    assert "did not start" in told
    assert "\x1b" not in told


@pytest.mark.slow
async def test_contents_that_do_not_come_in_time_are_left_out(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, until: Until
) -> None:
    def slowly(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        slow = message["method"] == "index" and message["params"]["store"] == "slow"
        return [] if slow else answer(message)

    daemon = fake_daemon(status("docs"), status("slow"))
    daemon.script = slowly
    async with Link(path) as link:
        with anyio.fail_after(10):
            told = await instructions(link, "legacy")
        await until(lambda: "$/cancelRequest" in daemon.asked)
    assert "contents of docs" in told
    assert "slow" in told


async def test_at_most_a_hundred_stores_are_asked_for_their_contents(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    daemon = fake_daemon(*(status(f"s{number}") for number in range(150)))
    daemon.script = answer
    async with Link(path) as link:
        assert await instructions(link, "legacy")
    assert daemon.asked.count("index") == 100


async def test_a_call_that_goes_wrong_in_any_way_is_an_answer(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, mode: Any
) -> None:
    fake_daemon(status("docs")).script = answer
    async with Link(path) as link, Client(make_server(link), mode=mode) as client:
        for name, arguments in (("nope", {}), ("search", {"query": 7}), ("index", {"stores": ["broken"]})):
            failed = await client.call_tool(name, arguments)
            assert failed.is_error
            assert json.loads(failed.content[0].text) == failed.structured_content  # type: ignore[union-attr]
        assert not (await client.call_tool("search", {"query": "x"})).is_error
