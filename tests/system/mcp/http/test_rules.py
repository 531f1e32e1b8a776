"""Each rule of the seed's HTTP transport, by its name, over real sockets to a real process."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated import __version__

if TYPE_CHECKING:
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon
    from tests.system.mcp.http.conftest import Answer, Http, MakeHttp

    Take = Callable[[http.client.HTTPConnection], Answer]
    SendSlow = Callable[[Http], http.client.HTTPConnection]

pytestmark = pytest.mark.slow


def is_busy(answer: Answer) -> bool:
    return answer.status == 503 and answer.headers["Retry-After"] == "1"


def is_turned_away(port: int) -> bool:
    """Tell whether a connection that sends nothing is answered as one too many."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    return answer.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in answer


def in_flight(server: Http) -> int:
    """Return how many questions the daemon is at."""
    return int(server.daemon.ask("status")["in_flight"])


@pytest.fixture
def slow(
    start_daemon: StartDaemon,
    make_slow_store: MakeSlowStore,
    make_store: Callable[..., Path],
    make_http: MakeHttp,
) -> Http:
    """A server, not started, of a store that keeps one question busy for many seconds."""
    daemon = start_daemon("[search]\ndeadline_s = 50\nranking = 'contract'\n")
    make_slow_store(daemon.stores / "slow.sqlite")
    make_store(daemon.stores / "docs.sqlite", {"guide.md": "# Guide\n\nIt is quick.\n"})
    for name in ("slow", "docs"):
        daemon.wait_state(name, "open")
    return make_http(daemon)


@pytest.fixture
def send_slow(slow_query: str) -> Callable[[Http], http.client.HTTPConnection]:
    """`send_slow(server)` asks what takes long, and returns once the daemon is at it."""

    def send(server: Http) -> http.client.HTTPConnection:
        before = in_flight(server)
        # Never the same twice, since the daemon answers equal questions at once.
        arguments = {"query": slow_query, "limit": before + 1}
        connection = server.send_message("tools/call", name="search", arguments=arguments)
        server.daemon.wait_for(lambda: in_flight(server) > before, what="the search to begin")
        return connection

    return send


@pytest.mark.rule("network-transport")
def test_network_transport(http_server: Http) -> None:
    answer = http_server.message("tools/list")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Connection"] == "close"
    assert answer.json["id"] == 7
    assert {"search", "read", "grep", "neighbours", "index", "stores"} <= {
        tool["name"] for tool in answer.json["result"]["tools"]
    }
    found = http_server.call("search", query="refund")
    assert [hit["store"] for hit in found["structuredContent"]["hits"]] == ["docs", "secret"]
    batch = json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * 2).encode()
    assert http_server.ask("POST", "/mcp", batch, http_server.headers()).status == 400
    for body in (b"", b"{", b"\xff", b"[" * 100_000, b'{"jsonrpc": "2.0", "id": 1}'):
        assert http_server.ask("POST", "/mcp", body, http_server.headers()).status == 400
    form = {**http_server.headers(), "Content-Type": "text/plain"}
    assert http_server.ask("POST", "/mcp", b"{}", form).status in (400, 415)


@pytest.mark.rule("concurrent-statements")
def test_concurrent_statements(slow: Http, send_slow: Callable[[Http], Any]) -> None:
    slow.start()
    held = send_slow(slow)
    for number in range(1, 20):
        quick = slow.call("search", query="quick", stores=["docs"], limit=number)
        assert [hit["doc"] for hit in quick["structuredContent"]["hits"]] == ["guide.md"]
    assert in_flight(slow) == 1
    held.close()


@pytest.mark.rule("serve-declaration")
@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("--audience", ["--max-in-flight", "1", "--credentials", "keys.toml"]),
        ("--max-in-flight", ["--audience", "a", "--credentials", "keys.toml"]),
        ("--max-in-flight", ["--audience", "a", "--credentials", "keys.toml", "--max-in-flight", "0"]),
        ("--max-in-flight", ["--audience", "a", "--credentials", "keys.toml", "--max-in-flight", "-4"]),
        ("--credentials", ["--audience", "a", "--max-in-flight", "1"]),
    ],
)
def test_serve_declaration(daemon: Daemon, flag: str, given: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # to bind it too would be another error
        ran = daemon.collate("mcp", "--http", f"127.0.0.1:{taken.getsockname()[1]}", *given)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith(f"collate: ServeDeclarationMissing: {flag} ")


def test_an_address_beyond_this_machine_is_refused_unless_said_twice(daemon: Daemon) -> None:
    ran = daemon.collate(
        "mcp", "--http", "0.0.0.0:0", "--audience", "a", "--max-in-flight", "1", "--credentials", "k"
    )
    assert ran.returncode == 2
    assert "--public" in ran.stderr


def test_a_port_that_is_taken_is_told(http_server: Http) -> None:
    given = ("--audience", "a", "--max-in-flight", "1", "--credentials", str(http_server.credentials))
    ran = http_server.daemon.collate("mcp", "--http", f"127.0.0.1:{http_server.port}", *given)
    assert ran.returncode == 2
    assert "cannot listen" in ran.stderr


@pytest.mark.rule("past-ceiling")
def test_past_ceiling(slow: Http, send_slow: Callable[[Http], Any]) -> None:
    slow.start(in_flight=2)
    held = [send_slow(slow), send_slow(slow)]
    assert is_busy(slow.message("tools/list"))
    assert in_flight(slow) == 2
    held[0].close()
    slow.daemon.wait_for(lambda: slow.message("tools/list").status == 200, what="a free slot")
    held[1].close()


@pytest.mark.rule("connection-ceiling")
def test_connection_ceiling(daemon: Daemon, make_http: MakeHttp, take: Take) -> None:
    server = make_http(daemon).start(in_flight=1)
    silent = server.connect()  # accepted, and nothing sent
    daemon.wait_for(lambda: is_busy(server.message("tools/list")), what="the slot to be held")
    threads = _threads(server.process.pid)
    assert all(is_turned_away(server.port) for _ in range(20))
    assert _threads(server.process.pid) == threads
    silent.request("GET", "/health")
    assert take(silent).status == 200
    assert server.message("tools/list").status == 200


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@pytest.mark.rule("per-request-admission")
def test_per_request_admission(http_server: Http) -> None:
    one = http_server.new_credential("for-docs", "--stores", "docs")
    for token, expected in ((one, ["docs"]), (http_server.token, ["docs", "secret"]), (one, ["docs"])):
        found = http_server.call("search", token, query="refund")["structuredContent"]
        assert [hit["store"] for hit in found["hits"]] == expected


def test_a_caller_sees_nothing_of_a_store_that_is_not_its_own(http_server: Http) -> None:
    one = http_server.new_credential("narrow", "--stores", "docs")
    refused = http_server.call("read", one, id="secret:plan.md#0")
    assert refused["isError"]
    assert refused["structuredContent"]["code"] == "unknown_store"
    same = http_server.call("read", one, id="nothing:plan.md#0")
    assert json.dumps(same).replace("nothing", "secret") == json.dumps(refused)
    asked: list[tuple[str, dict[str, Any]]] = [
        (
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        ),
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/read", {"uri": "collate://index"}),
        ("resources/read", {"uri": "collate://secre/plan.md%230"}),
        ("tools/call", {"name": "index", "arguments": {}}),
        ("tools/call", {"name": "stores", "arguments": {}}),
        ("tools/call", {"name": "search", "arguments": {"query": "plan closed window"}}),
        ("tools/call", {"name": "search", "arguments": {"query": "refund", "stores": ["secre"]}}),
        ("tools/call", {"name": "grep", "arguments": {"pattern": "window"}}),
        ("tools/call", {"name": "read", "arguments": {"id": "plan.md#0"}}),
        ("tools/call", {"name": "neighbours", "arguments": {"id": "guide.md#0"}}),
    ]
    for method, params in asked:
        whole = http_server.message(method, one, **params).body.decode()
        assert "secret" not in whole, (method, params, whole)
        assert "plan.md" not in whole.replace("plan.md#0", "").replace("plan.md%230", ""), (
            method,
            params,
            whole,
        )


@pytest.mark.rule("credential-missing")
def test_credential_missing(http_server: Http) -> None:
    bare = {name: value for name, value in http_server.headers().items() if name != "Authorization"}
    for headers in (bare, {**bare, "Authorization": ""}, {**bare, "Authorization": "Bearer"}):
        answer = http_server.ask("POST", "/mcp", b"{}", headers)
        assert (answer.status, answer.json["code"]) == (401, "HttpCredentialMissing")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.rule("admission-refused")
def test_admission_refused(http_server: Http) -> None:
    other = http_server.new_credential("other", audience="elsewhere")
    ended = http_server.new_credential("ended")
    http_server.credentials.write_text(_ended(http_server.credentials.read_text()))
    for scheme, token, identifier in (
        ("Bearer", "guess", "CredentialUnknown"),
        ("Bearer", other, "CredentialAudienceMismatch"),
        ("Bearer", ended, "CredentialExpired"),
        ("DPoP", http_server.token, "CredentialSchemeUnsupported"),
        ("Basic", "Zzpi", "CredentialSchemeUnsupported"),
    ):
        headers = {**http_server.headers(), "Authorization": f"{scheme} {token}"}
        answer = http_server.ask("POST", "/mcp", b"{}", headers)
        assert (answer.status, answer.json["code"]) == (401, identifier)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert token.encode() not in answer.body
    assert http_server.message("ping").status == 200


def _ended(text: str) -> str:
    """Return *text* with the last credential's end in the past."""
    before, _, after = text.rpartition("expires = 2")
    return f"{before}expires = 1{after}"


@pytest.mark.rule("per-request-revocation")
def test_per_request_revocation(http_server: Http) -> None:
    one = http_server.new_credential("lost")
    assert http_server.message("ping", one).status == 200
    http_server.denylist.write_text("lost  # on the train\n")
    refused = http_server.message("ping", one)
    assert (refused.status, refused.json["code"]) == (401, "CredentialRevoked")
    assert http_server.message("ping").status == 200
    http_server.denylist.unlink()
    unreadable = http_server.message("ping")
    assert (unreadable.status, unreadable.json["code"]) == (503, "DenylistUnreadable")
    http_server.denylist.write_text("")
    assert http_server.message("ping", one).status == 200


def test_credentials_that_others_may_read_admit_nobody(http_server: Http) -> None:
    http_server.credentials.chmod(0o644)
    refused = http_server.message("ping")
    assert (refused.status, refused.json["code"]) == (503, "CredentialsUnreadable")
    http_server.credentials.chmod(0o600)
    assert http_server.message("ping").status == 200


@pytest.mark.rule("stateless-session")
def test_stateless_session(http_server: Http) -> None:
    notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    for version in ("2025-11-25", "2026-07-28"):
        headers = {**http_server.headers(), "MCP-Protocol-Version": version}
        answer = http_server.ask("POST", "/mcp", notification, headers)
        assert (answer.status, answer.body) == (202, b"")
        assert "Mcp-Session-Id" not in answer.headers
    for method in ("GET", "DELETE", "PUT", "HEAD"):
        refused = http_server.ask(method, "/mcp", headers=http_server.headers())
        assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    for path in ("/", "/mcp/", "/mcp/x", "/MCP", "/health/", "/sse"):
        assert http_server.ask("POST", path, b"{}", http_server.headers()).status == 404
    assert http_server.message("tools/list").status == 200  # without a word before it


@pytest.mark.rule("stateless-session")
def test_no_stream_is_opened_to_a_client_of_2025_that_would_listen(http_server: Http) -> None:
    for accept in ("application/json, text/event-stream", "text/event-stream"):
        refused = http_server.ask("GET", "/mcp", headers={**http_server.headers(), "Accept": accept})
        assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    answer = http_server.message("subscriptions/listen", notifications={"toolsListChanged": True})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["error"]["code"] == -32601


@pytest.mark.rule("request-body")
def test_request_body(http_server: Http, take: Take) -> None:
    padding = "x" * (1_048_576 - 200)
    at_limit = http_server.message("ping", padding=padding)
    assert at_limit.status in (200, 400)  # it was read: the SDK says what it thinks of it
    for headers in (http_server.headers(), {}):  # before anybody is admitted
        connection = http_server.connect()
        connection.putrequest("POST", "/mcp")
        for name, value in {**headers, "Content-Length": "1048577"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert take(connection).status == 413  # of a body of which no byte was sent


def test_a_page_of_another_site_does_not_get_in(http_server: Http) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    port = http_server.port
    for name, value, expected in (
        ("Host", "evil.example", 421),
        ("Host", f"evil.example:{port}", 421),
        ("Host", "127.0.0.1:1", 421),
        ("Host", f"localhost:{port}", 200),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost:3000", 200),
    ):
        headers = {**http_server.headers(), name: value}
        assert http_server.ask("POST", "/mcp", message, headers).status == expected, value


@pytest.mark.rule("health")
def test_health(http_server: Http) -> None:
    answer = http_server.ask("GET", "/health")
    initialized = http_server.daemon.ask("initialize")
    assert answer.status == 200
    assert answer.json == {
        "name": "collated",
        "version": __version__,
        "backends": initialized["backends"],
    }
    assert http_server.ask("POST", "/health", b"").status == 405


@pytest.mark.rule("health-hydrated")
def test_health_hydrated(
    start_daemon: StartDaemon, make_store: Callable[..., Path], make_http: MakeHttp
) -> None:
    daemon = start_daemon(is_launched=False)
    make_store(daemon.stores / "docs.sqlite", {"guide.md": "# Guide\n\nText.\n"})
    server = make_http(daemon).start("--no-spawn")
    assert server.ask("GET", "/health").status == 200
    assert is_busy(server.ask("GET", "/health?ready=hydrated"))
    daemon.start()
    daemon.wait_for(
        lambda: server.ask("GET", "/health?ready=hydrated").status == 200, what="the stores to be open"
    )
    assert server.ask("GET", "/health?ready=hydrated").json == server.ask("GET", "/health").json


@pytest.mark.rule("stop-drain")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_drain(
    slow: Http, send_slow: Callable[[Http], http.client.HTTPConnection], take: Take, number: signal.Signals
) -> None:
    slow.daemon.configure("[search]\ndeadline_s = 3\n")
    slow.daemon.ask("reload")
    slow.start()
    held = send_slow(slow)
    silent = slow.connect()
    assert slow.message("ping").status == 200  # so that the silent one is accepted too
    slow.signal(number)
    slow.daemon.wait_for(lambda: is_busy(slow.ask("GET", "/health")), what="the draining")
    silent.request("GET", "/health")
    assert take(silent).status == 200
    assert take(held).json["result"]["structuredContent"]["code"] == "deadline_exceeded"
    assert slow.end() == 0
    assert "unanswered" not in slow.log


@pytest.mark.rule("drain-unfinished")
def test_drain_unfinished(
    slow: Http, send_slow: Callable[[Http], http.client.HTTPConnection], take: Take
) -> None:
    slow.start()
    held = [send_slow(slow), send_slow(slow)]
    slow.signal()
    slow.daemon.wait_for(lambda: is_busy(slow.ask("GET", "/health")), what="the draining")
    slow.signal()  # as the bound of twenty seconds does, which is no test's to wait for
    assert slow.end() == 1
    assert slow.log.endswith("collate: stopped with 2 connections unanswered\n")
    for connection in held:
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            take(connection)
    slow.daemon.wait_for(lambda: in_flight(slow) == 0, what="the questions' end")


@pytest.mark.rule("draining-health")
def test_draining_health(
    slow: Http, send_slow: Callable[[Http], http.client.HTTPConnection], take: Take
) -> None:
    slow.start()
    held = send_slow(slow)
    slow.signal()
    slow.daemon.wait_for(lambda: is_busy(slow.ask("GET", "/health")), what="the draining")
    assert is_turned_away(slow.port)
    assert is_busy(slow.message("ping"))
    held.close()
    assert slow.end() == 0


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("more", [{}, {"progressToken": 7}])
def test_a_client_that_goes_away_cancels_its_question_in_the_daemon(
    slow: Http, slow_query: str, version: str, more: dict[str, int]
) -> None:
    slow.start()
    params: dict[str, Any] = {"name": "search", "arguments": {"query": slow_query}}
    if version == "2025-11-25":
        connection = slow.send_message("tools/call", **params, _meta=more)
    else:
        connection = slow.send_new("tools/call", meta=more, **params)
    slow.daemon.wait_for(lambda: in_flight(slow) == 1, what="the search to begin")
    connection.close()
    slow.daemon.wait_for(lambda: in_flight(slow) == 0, what="the search to be cancelled")


def test_a_call_that_its_caller_takes_back_is_cancelled(slow: Http, send_slow: SendSlow, take: Take) -> None:
    """As clients of 2025-11-25 do; those of 2026-07-28 close the connection."""
    slow.start()
    other = slow.new_credential("other")
    held = send_slow(slow)

    def take_back(token: str, request: int) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}}
        answer = slow.ask("POST", "/mcp", json.dumps(told).encode(), slow.headers(token))
        assert answer.status == 202

    take_back(other, 7)
    take_back(slow.token, 8)
    assert in_flight(slow) == 1
    take_back(slow.token, 7)
    answer = take(held)
    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (200, 7, -32800)
    slow.daemon.wait_for(lambda: in_flight(slow) == 0, what="the search to be cancelled")


def test_of_two_calls_of_one_id_neither_is_taken_back(slow: Http, send_slow: SendSlow) -> None:
    slow.start()
    held = [send_slow(slow), send_slow(slow)]
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert slow.ask("POST", "/mcp", json.dumps(told).encode(), slow.headers()).status == 202
    assert in_flight(slow) == len(held)
    for each in held:
        each.close()
