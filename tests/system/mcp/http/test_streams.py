"""Answers that are streams: progress and changes, how many there may be, and how they end."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.system.conftest import Daemon, StartDaemon
    from tests.system.mcp.http.conftest import Connect, Events, Http, MakeHttp

    Take = Callable[[http.client.HTTPConnection], Events]
    AddCode = Callable[[], None]

pytestmark = pytest.mark.slow

TOOLS = "notifications/tools/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
GREP: dict[str, Any] = {"name": "grep", "arguments": {"pattern": "refund"}}


@pytest.fixture
def server(daemon: Daemon, make_store: MakeStore, make_http: MakeHttp) -> Http:
    """A server, not started, of the store `docs`."""
    make_store(daemon.stores / "docs.sqlite", {"guide.md": "# Guide\n\nThe refund window is open.\n"})
    daemon.wait_state("docs", "open")
    return make_http(daemon)


@pytest.fixture
def add_code(daemon: Daemon, make_code_store: MakeStore) -> AddCode:
    """`add_code()` adds a store of code, which brings tools that were not there."""

    def add() -> None:
        made = make_code_store(daemon.base / "made.sqlite", {"a.py": "def f():\n    return 1\n"})
        made.rename(daemon.stores / "code.sqlite")

    return add


def methods(listening: Events, count: int) -> list[str]:
    """Return the methods of the next messages, in order."""
    return [listening.next()["method"] for _ in range(count)]


def begun(listening: Events) -> bool:
    """Tell whether a stream begins as it should."""
    return listening.answer is None and bool(
        listening.next()["method"] == "notifications/subscriptions/acknowledged"
    )


# --------------------------------------------------------------------------- progress


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_progress_comes_before_the_answer_on_one_stream(
    http_server: Http, events: Take, version: str
) -> None:
    token = f"mine-{version}"
    # A question that nobody asked before: what is remembered is answered without progress.
    params: dict[str, Any] = {"name": "search", "arguments": {"query": f"refund window {version}"}}
    if version == "2025-11-25":
        connection = http_server.send_message("tools/call", **params, _meta={"progressToken": token})
    else:
        connection = http_server.send_new("tools/call", meta={"progressToken": token}, **params)
    with events(connection) as stream:
        *told, answer = stream.rest()
    assert told
    assert {(each["method"], each["params"]["progressToken"]) for each in told} == {
        ("notifications/progress", token)
    }
    assert answer["id"] == 7
    assert answer["result"]["structuredContent"]["stores"]["asked"] == 2


@pytest.mark.rule("network-transport")
@pytest.mark.parametrize(
    ("accept", "params"),
    [
        ("application/json", {**GREP, "_meta": {"progressToken": 1}}),
        ("application/json, text/plain", {**GREP, "_meta": {"progressToken": 1}}),
        ("application/json, text/event-stream", GREP),
        ("application/json, text/event-stream", {**GREP, "_meta": {"x/y": "x" * 900_000}}),
    ],
)
def test_all_else_is_one_document_byte_for_byte(
    http_server: Http, accept: str, params: dict[str, Any]
) -> None:
    def answered(accept: str, params: dict[str, Any]) -> tuple[int, bytes, str]:
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()
        found = http_server.ask("POST", "/mcp", body, {**http_server.headers(), "Accept": accept})
        return found.status, found.body, found.headers["Content-Type"]

    status, body, kind = answered(accept, params)
    assert (status, kind) == (200, "application/json")
    assert _timeless(body) == _timeless(answered("application/json", GREP)[1])


def _timeless(body: bytes) -> Any:
    """Return an answer but for how long ago its stores were made."""
    result = json.loads(body)["result"]
    return {**result["structuredContent"], "freshness": None}


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"_meta":{"progressToken":1}}', b"7"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_what_is_no_request_is_refused_as_ever(http_server: Http, body: bytes, version: str) -> None:
    headers = {**http_server.headers(), "MCP-Protocol-Version": version}
    answer = http_server.ask("POST", "/mcp", body, headers)
    assert (answer.status, answer.headers["Content-Type"]) == (400, "application/json")


# --------------------------------------------------------------------------- changes


@pytest.mark.anyio
async def test_changes_are_told_to_the_official_client_that_listens(
    server: Http, add_code: AddCode, connect: Connect
) -> None:
    await anyio.to_thread.run_sync(server.start)
    async with connect(server, mode="2026-07-28") as client:
        assert "symbols" not in [tool.name for tool in (await client.list_tools()).tools]
        wanted = client.listen(
            tools_list_changed=True, resources_list_changed=True, resource_subscriptions=["collate://index"]
        )
        async with wanted as told:
            await anyio.to_thread.run_sync(add_code)
            with anyio.fail_after(20):
                kinds = {type(await anext(aiter(told))).__name__ for _ in range(3)}
        assert kinds == {"ToolsListChanged", "ResourcesListChanged", "ResourceUpdated"}
        assert "symbols" in [tool.name for tool in (await client.list_tools()).tools]


def test_who_listens_is_told_of_no_store_but_its_own(
    server: Http, add_code: AddCode, make_store: MakeStore, events: Take
) -> None:
    server.start()
    narrow = server.new_credential("narrow", "--stores", "docs,code")
    with server.listen() as wide, server.listen(narrow) as listening:
        assert begun(wide)
        assert begun(listening)
        make_store(server.daemon.base / "m.sqlite", {"b.md": "# B\n\nbee\n"}).rename(
            server.daemon.stores / "secret.sqlite"
        )
        assert set(methods(wide, 2)) == {RESOURCES, UPDATED}
        add_code()
        assert set(methods(wide, 3)) == set(methods(listening, 3)) == {TOOLS, RESOURCES, UPDATED}


def test_a_kind_that_was_not_asked_for_is_not_told(server: Http, add_code: AddCode, events: Take) -> None:
    server.start()
    asked = server.send_new("subscriptions/listen", notifications={"toolsListChanged": True})
    with events(asked) as listening:
        acknowledged = listening.next()
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        add_code()
        assert methods(listening, 1) == [TOOLS]
        server.signal()
        assert listening.next()["id"] == 7
    assert server.end() == 0


def test_who_listens_before_there_is_a_daemon_is_told_once_there_is(
    start_daemon: StartDaemon, make_store: Callable[..., Path], make_http: MakeHttp
) -> None:
    daemon = start_daemon(is_launched=False)
    make_store(daemon.stores / "docs.sqlite", {"guide.md": "# Guide\n\nText.\n"})
    server = make_http(daemon).start("--no-spawn")
    with server.listen() as listening:
        assert begun(listening)
        daemon.start()
        assert set(methods(listening, 2)) == {RESOURCES, UPDATED}


# --------------------------------------------------------------------------- how many, and how they end


def test_who_listens_locks_nobody_out_and_one_too_many_is_refused(server: Http, daemon: Daemon) -> None:
    server.start(in_flight=2)
    with server.listen() as first, server.listen() as second:
        assert begun(first)
        assert begun(second)
        held = server.connect()  # accepted, and nothing sent
        for _ in range(10):
            found = server.call("search", query="refund")["structuredContent"]
            assert [hit["store"] for hit in found["hits"]] == ["docs"]
        held.close()
        with server.listen() as refused:
            assert refused.answer is not None
            assert refused.answer.headers["Content-Type"] == "application/json"
            assert "as many streams" in refused.answer.json["error"]["message"]

    def is_begun() -> bool:
        with server.listen() as again:
            return again.answer is None and begun(again)

    daemon.wait_for(is_begun, what="a stream's end to be seen")


def test_a_stop_ends_streams_as_the_protocol_has_it_and_waits_for_none(server: Http, events: Take) -> None:
    server.start(in_flight=2)
    with server.listen() as first, server.listen() as second:
        assert begun(first)
        assert begun(second)
        server.signal()
        for stream in (first, second):
            (last,) = stream.rest()
            assert last["id"] == 7
            assert last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
    assert server.end() == 0
    assert "unanswered" not in server.log


def test_a_stream_that_nobody_reads_does_not_keep_the_server_from_stopping(server: Http) -> None:
    server.start()
    connection = server.send_new("subscriptions/listen", notifications={"toolsListChanged": True})
    server.daemon.wait_for(lambda: connection.sock.recv(1), what="the stream to begin")
    server.signal()
    assert server.end() == 0
    assert "unanswered" not in server.log
    connection.close()


@pytest.mark.parametrize("what", ["revoked", "other stores", "unreadable"])
def test_a_stream_ends_with_its_credential(server: Http, add_code: AddCode, what: str) -> None:
    server.start()
    lost = server.new_credential("lost", "--stores", "docs,code")
    with server.listen(lost) as listening, server.listen() as other:
        assert begun(listening)
        assert begun(other)
        if what == "revoked":
            server.denylist.write_text("lost\n")
        elif what == "unreadable":
            server.denylist.unlink()
        else:
            text = server.credentials.read_text()
            server.credentials.write_text(text.replace('["code", "docs"]', '["code"]'))
        add_code()
        with pytest.raises(http.client.IncompleteRead):
            listening.next()
        if what != "unreadable":
            assert set(methods(other, 3)) == {TOOLS, RESOURCES, UPDATED}
    assert "request_failed" not in server.log
