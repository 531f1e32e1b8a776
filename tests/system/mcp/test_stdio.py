"""`collate mcp` with the official client: every tool, in both protocols, as stores come, change and go."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from mcp import Client
    from tests.conftest import MakeStore
    from tests.system.mcp.conftest import Agent, Call, Home

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

VERSIONS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}
WRONG: list[tuple[Call, str]] = [
    (("serach", {"query": "x"}), "unknown_tool"),
    (("search", {}), "invalid_params"),
    (("search", {"query": "x", "stores": ["nowhere"]}), "unknown_store"),
    (("read", {"id": "docs:guide.md#99"}), "unknown_id"),
    (("grep", {"pattern": "(", "regex": True}), "pattern_rejected"),
]
FIVE = ["index", "search", "read", "grep", "neighbours"]


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for *condition*, asked in a thread since it may ask a daemon."""
    with anyio.fail_after(seconds):
        while not await anyio.to_thread.run_sync(condition):  # noqa: ASYNC110 - nobody tells a process
            await anyio.sleep(0.02)


def text_of(contents: Sequence[Any]) -> str:
    """Return the text of the one content that there is."""
    (only,) = contents
    return str(only.text)


async def names_of(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def test_every_tool_runs(every_kind: Home, agent: Agent, calls: list[Call], mode: str) -> None:
    async with agent(every_kind.daemon, mode=mode) as client:
        assert client.protocol_version == VERSIONS[mode]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name, arguments in calls:
            # The client holds the structured content to the tool's own schema.
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, answer
            assert answer.structured_content
            if name != "index":
                assert json.loads(text_of(answer.content)) == answer.structured_content
    assert {name for name, _ in calls} == set(tools)
    for tool in tools.values():
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.idempotent_hint) == (True, True)
        assert (tool.annotations.destructive_hint, tool.annotations.open_world_hint) == (False, False)


async def test_the_instructions_are_there_when_the_session_begins(
    every_kind: Home, agent: Agent, mode: str
) -> None:
    async with agent(every_kind.daemon, mode=mode) as client:
        assert client.instructions is not None
        assert "cite" in client.instructions
        assert "guide.md" in client.instructions
        index = await client.read_resource("collate://index")
        assert text_of(index.contents) == client.instructions
    async with agent(every_kind.daemon, "--budget", "150", mode=mode) as client:
        assert 0 < len(client.instructions or "") <= 150 * 4


async def test_records_are_resources(every_kind: Home, agent: Agent, mode: str) -> None:
    async with agent(every_kind.daemon, mode=mode) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "collate://{store}/{+id}"
        assert [each.uri for each in (await client.list_resources()).resources] == ["collate://index"]
        record = await client.read_resource("collate://docs/guide.md#1")
        assert "Thirty days" in text_of(record.contents)
        same = await client.read_resource("collate://docs/guide.md%231")
        assert text_of(same.contents) == text_of(record.contents)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("collate://docs/guide.md#99", "no section"),
        ("collate://nowhere/guide.md#1", "nowhere"),
        ("collate://docs", "collate://index"),
        ("file:///etc/passwd", "collate://index"),
    ],
)
async def test_a_resource_that_is_not_there_is_an_error_with_words(
    every_kind: Home, agent: Agent, address: str, words: str
) -> None:
    async with agent(every_kind.daemon) as client:
        with pytest.raises(MCPError, match=words):
            await client.read_resource(address)
        assert await names_of(client)


@pytest.mark.parametrize(("call", "code"), WRONG)
async def test_what_an_agent_gets_wrong_is_answered_and_says_what_to_do(
    every_kind: Home, agent: Agent, mode: str, call: Call, code: str
) -> None:
    async with agent(every_kind.daemon, mode=mode) as client:
        answer = await client.call_tool(*call)
        assert answer.is_error
        assert answer.structured_content is not None
        assert answer.structured_content["code"] == code
        assert answer.structured_content["error"]
        assert answer.structured_content["suggestion"]


async def test_progress_is_told_to_who_asks_for_it(every_kind: Home, agent: Agent, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with agent(every_kind.daemon, mode=mode) as client:
        # A pattern that nobody asked before: what is remembered is answered without progress.
        answer = await client.call_tool("grep", {"pattern": f"to{mode}"}, progress_callback=take)
        assert answer.structured_content is not None
        asked = answer.structured_content["stores"]["asked"]
        assert told[-1] == (asked, asked, f"{asked} of {asked} stores answered")
        assert [at for at, _, _ in told] == sorted({at for at, _, _ in told})


async def test_a_cancelled_call_is_cancelled_in_the_store(
    slow: Home, agent: Agent, slow_query: str, mode: str
) -> None:
    # So that it is not answered, or given up, while its end is waited for.
    slow.daemon.configure("[search]\ndeadline_s = 50\nranking = 'contract'\n")
    slow.daemon.ask("reload")
    async with agent(slow.daemon, mode=mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "search", {"query": slow_query})
            await until(lambda: slow.in_flight == 1)
            tasks.cancel_scope.cancel()
        await until(lambda: slow.in_flight == 0)
        assert not (await client.call_tool("search", {"query": "refund", "stores": ["docs"]})).is_error


# --------------------------------------------------------------------------- stores that come and go


async def test_changes_are_told_by_notifications_in_2025(
    home: Home, agent: Agent, make_store: MakeStore, make_code_store: MakeStore
) -> None:
    daemon = home.daemon.start()
    daemon.wait_state("docs", "open")
    told: list[str] = []

    async def take(message: Any) -> None:
        told.append(getattr(message, "method", ""))

    async with agent(daemon, message_handler=take) as client:
        assert "symbols" not in await names_of(client)
        made = make_code_store(daemon.base / "made.sqlite", {"a.py": "def f():\n    return 1\n"})
        made.rename(daemon.stores / "code.sqlite")
        await until(lambda: len(told) >= 2)
        assert set(told) == {"notifications/tools/list_changed", "notifications/resources/list_changed"}
        assert "symbols" in await names_of(client)

        told.clear()
        make_store(daemon.base / "more.sqlite", {"b.md": "# B\n\nbee\n"}).rename(
            daemon.stores / "more.sqlite"
        )
        await until(lambda: told)
        assert set(told) == {"notifications/resources/list_changed"}  # the tools are what they were


async def test_changes_are_told_to_subscribers_in_2026(
    home: Home, agent: Agent, make_code_store: MakeStore
) -> None:
    daemon = home.daemon.start()
    daemon.wait_state("docs", "open")
    async with agent(daemon, mode="2026-07-28") as client:
        assert "symbols" not in await names_of(client)
        wanted = client.listen(
            tools_list_changed=True, resources_list_changed=True, resource_subscriptions=["collate://index"]
        )
        async with wanted as events:
            made = make_code_store(daemon.base / "made.sqlite", {"a.py": "def f():\n    return 1\n"})
            made.rename(daemon.stores / "code.sqlite")
            with anyio.fail_after(20):
                kinds = {type(await anext(aiter(events))).__name__ for _ in range(3)}
        assert kinds == {"ToolsListChanged", "ResourcesListChanged", "ResourceUpdated"}
        assert "symbols" in await names_of(client)
        index = await client.read_resource("collate://index")
        assert "code" in text_of(index.contents)


async def test_a_store_that_vanishes_between_list_and_read_is_a_named_error(
    home: Home, agent: Agent, mode: str
) -> None:
    daemon = home.daemon.start()
    daemon.wait_state("docs", "open")
    async with agent(daemon, mode=mode) as client:
        found = await client.call_tool("search", {"query": "refund"})
        assert found.structured_content is not None
        ref = found.structured_content["hits"][0]["ref"]
        (daemon.stores / "docs.sqlite").unlink()
        await anyio.to_thread.run_sync(daemon.ask, "rescan")
        answer = await client.call_tool("read", {"id": ref})
        assert answer.is_error
        assert answer.structured_content is not None
        assert answer.structured_content["code"] in ("unknown_store", "store_unavailable")


# --------------------------------------------------------------------------- what stores may hold


async def test_a_record_of_10_mb_is_cut_and_says_so(
    home: Home, agent: Agent, make_store: MakeStore, mode: str
) -> None:
    text = "# Long\n\n" + "x" * 10_000_000
    put_long(home.daemon.stores / "long.sqlite", make_store, text)
    daemon = home.daemon.start()
    daemon.wait_state("long", "open")
    async with agent(daemon, mode=mode) as client:
        answer = await client.call_tool("read", {"id": "long:a.md#0"})
        assert not answer.is_error
        assert answer.structured_content is not None
        assert len(answer.structured_content["text"]) == 100_000
        assert "cut" in answer.structured_content["next"]
        whole = await client.read_resource("collate://long/a.md#0")
        assert text_of(whole.contents) == text


async def test_text_with_escapes_is_answered_escaped(
    home: Home, agent: Agent, make_store: MakeStore, mode: str
) -> None:
    hostile = "# Bad\n\nred \x1b[31m and \x9b31m and \u202e reversed\n"
    make_store(home.daemon.stores / "bad.sqlite", {"\x1b[2Jbad.md": hostile})
    daemon = home.daemon.start()
    daemon.wait_state("bad", "open")
    async with agent(daemon, mode=mode) as client:
        answer = await client.call_tool("search", {"query": "reversed", "stores": ["bad"]})
        index = await client.call_tool("index", {"stores": ["bad"]})
        for text in (text_of(answer.content), text_of(index.content), client.instructions or ""):
            assert not set(text) & set("\x1b\x9b\u202e")
        assert answer.structured_content is not None
        read = await client.call_tool("read", {"id": answer.structured_content["hits"][0]["ref"]})
        assert not set(text_of(read.content)) & set("\x1b\x9b\u202e")
        assert read.structured_content is not None
        assert "\x1b[31m" in read.structured_content["text"]  # word for word, as JSON has it


def put_long(path: Path, make_store: MakeStore, text: str) -> None:
    """Write a store whose one section has *text*, of any length."""
    make_store(path, {"a.md": "# Long\n\nshort\n"}, rollback=True)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sections SET text = ?", (text,))
    db.close()


# --------------------------------------------------------------------------- daemons


async def test_the_daemon_is_started_when_nothing_listens(home: Home, agent: Agent, mode: str) -> None:
    async with agent(home.daemon, mode=mode) as client:
        assert "guide.md" in (client.instructions or "")
        assert not (await client.call_tool("search", {"query": "refund"})).is_error
        assert home.daemon_pid is not None


async def test_without_a_daemon_the_session_begins_and_says_what_to_do(
    home: Home, agent: Agent, mode: str
) -> None:
    async with agent(home.daemon, "--no-spawn", mode=mode) as client:
        assert "--no-spawn" in (client.instructions or "")
        assert await names_of(client) == [*FIVE, "stores"]
        answer = await client.call_tool("search", {"query": "refund"})
        assert answer.is_error
        assert answer.structured_content is not None
        assert answer.structured_content["code"] == "daemon_unreachable"
        await anyio.to_thread.run_sync(home.daemon.start)
        await until(lambda: home.daemon.status_of("docs")["state"] == "open")
        assert not (await client.call_tool("search", {"query": "refund"})).is_error


async def test_a_daemon_that_dies_in_the_middle_costs_one_answer(
    slow: Home, agent: Agent, slow_query: str, mode: str
) -> None:
    answers: list[Any] = []
    async with agent(slow.daemon, mode=mode) as client:

        async def ask() -> None:
            answers.append(await client.call_tool("search", {"query": slow_query}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: slow.in_flight == 1)
            slow.kill(slow.daemon_pid)
        assert answers[0].is_error
        assert answers[0].structured_content["code"] == "daemon_unreachable"
        assert "again" in answers[0].structured_content["suggestion"]
        again = await client.call_tool("search", {"query": "refund", "stores": ["docs"]})
        assert not again.is_error
        assert slow.daemon_pid is not None
