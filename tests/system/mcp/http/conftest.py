"""`collate mcp --http` as a process of its own, and plain requests to it over real sockets."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

if TYPE_CHECKING:
    from tests.system.conftest import Daemon, StartDaemon

DEADLINE_S = 30.0
AUDIENCE = "test"
_PROGRAM = "import sys; from collated.cli import main; sys.exit(main())"
_SERVING = re.compile(r"^collate: serving http://\S+:(\d+)/mcp$", re.MULTILINE)


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Http:
    """A server over HTTP of one daemon's stores; `token` opens all of them."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.credentials = daemon.base / "keys.toml"
        self.denylist = daemon.base / "gone.txt"
        self.denylist.write_text("# nobody\n")
        self.said = daemon.base / "http.log"
        self.token = self.new_credential("all")
        self.process: subprocess.Popen[bytes]
        self.port = 0

    def new_credential(self, name: str, *more: str, audience: str = AUDIENCE) -> str:
        """Return the token of a new credential."""
        made = self.daemon.collate(
            *("mcp", "--new-credential", name, "--credentials", str(self.credentials)),
            *("--audience", audience, *more),
        )
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def start(self, *more: str, in_flight: int = 8) -> Http:
        """Start the process and wait until it listens."""
        command = [
            *(sys.executable, "-c", _PROGRAM, "mcp", "--http", "127.0.0.1:0", "--audience", AUDIENCE),
            *("--max-in-flight", str(in_flight), "--credentials", str(self.credentials)),
            *("--denylist", str(self.denylist), *more),
        ]
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                command, env=self.daemon.environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        self.port = self.daemon.wait_for(self._port, DEADLINE_S, what="the server to listen")
        return self

    def _port(self) -> int:
        assert self.process.poll() is None, self.log
        found = _SERVING.search(self.log)
        return int(found[1]) if found else 0

    @property
    def log(self) -> str:
        return self.said.read_text()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(DEADLINE_S)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        connection.connect()
        return connection

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPConnection:
        """Send a request and return its connection."""
        connection = self.connect()
        connection.request(method, path, body, dict(headers or {}))
        return connection

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return taken(self.send(method, path, body, headers))

    def send_message(self, method: str, token: str = "", /, **params: Any) -> http.client.HTTPConnection:
        """Send a JSON-RPC request of the protocol of 2025-11-25."""
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return self.send("POST", "/mcp", json.dumps(message).encode(), self.headers(token))

    def message(self, method: str, token: str = "", /, **params: Any) -> Answer:
        return taken(self.send_message(method, token, **params))

    def send_new(
        self, method: str, token: str = "", /, *, meta: Mapping[str, Any] | None = None, **params: Any
    ) -> http.client.HTTPConnection:
        """Send a JSON-RPC request of the protocol of 2026-07-28, with *meta* besides what it asks for."""
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            **(meta or {}),
        }
        headers = {**self.headers(token), "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return self.send("POST", "/mcp", json.dumps(message).encode(), headers)

    def listen(self, token: str = "", /) -> Events:
        """Listen for every kind of change."""
        wanted = {
            "toolsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": ["collate://index"],
        }
        return Events(self.send_new("subscriptions/listen", token, notifications=wanted))

    def call(self, name: str, token: str = "", /, **arguments: Any) -> Any:
        """Return the result of a tool."""
        answer = self.message("tools/call", token, name=name, arguments=arguments)
        assert answer.status == 200, answer
        return answer.json["result"]

    def headers(self, token: str = "") -> dict[str, str]:
        return {
            "Authorization": f"Bearer {token or self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }


def taken(connection: http.client.HTTPConnection) -> Answer:
    """Return the answer on *connection*, and close it."""
    try:
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


class Events:
    """The answer to a request as it comes: messages one by one, or `answer` where it was one document."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        self._buffer = b""
        self.answer: Answer | None = None
        if self._response.headers["Content-Type"] != "text/event-stream":
            self.answer = Answer(self._response.status, self._response.headers, self._response.read())

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def next(self) -> Any:
        """Return the next message, None once the stream has ended as it should.

        Raises:
            http.client.IncompleteRead: it was cut.
        """
        while True:
            event, end, rest = self._buffer.partition(b"\r\n\r\n")
            if end:
                self._buffer = rest
                _, is_message, data = event.partition(b"\r\ndata: ")
                if is_message:
                    return json.loads(data)
            elif more := self._response.read1():
                self._buffer += more
            else:
                return None

    def rest(self) -> list[Any]:
        """Return all messages to the end."""
        return list(iter(self.next, None))


MakeHttp = Callable[[Any], Http]
Connect = Callable[..., AbstractAsyncContextManager[Client]]
AsyncUntil = Callable[[Callable[[], object]], Awaitable[None]]


def _factory() -> Iterator[MakeHttp]:
    made: list[Http] = []

    def make(daemon: Daemon) -> Http:
        made.append(Http(daemon))
        return made[-1]

    yield make
    for server in made:
        if hasattr(server, "process") and server.process.poll() is None:
            server.signal()
            assert server.end() == 0, server.log
        assert "Traceback" not in server.log, server.log


@pytest.fixture
def make_http() -> Iterator[MakeHttp]:
    """`make_http(daemon)` is a server that is to be started; it is ended with the test."""
    yield from _factory()


@pytest.fixture(scope="module")
def make_shared_http() -> Iterator[MakeHttp]:
    """As `make_http`, for servers that the tests of a module share."""
    yield from _factory()


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


@pytest.fixture
def until() -> AsyncUntil:
    """`await until(condition)` asks in a thread, since it may ask a daemon, until it holds."""

    async def wait(condition: Callable[[], object]) -> None:
        with anyio.fail_after(DEADLINE_S):
            while not await anyio.to_thread.run_sync(condition):  # noqa: ASYNC110 - nobody tells a process
                await anyio.sleep(0.02)

    return wait


@pytest.fixture
def events() -> Callable[[http.client.HTTPConnection], Events]:
    """`events(connection)` is the answer of a request that was sent, as it comes."""
    return Events


@pytest.fixture
def take() -> Callable[[http.client.HTTPConnection], Answer]:
    """`take(connection)` returns the answer of a request that was sent."""
    return taken


@pytest.fixture(scope="module")
def http_server(
    start_shared_daemon: StartDaemon, make_store: Callable[..., Path], make_shared_http: MakeHttp
) -> Http:
    """A server, started, of the stores `docs` and `secret`; a test leaves its files as they were."""
    daemon = start_shared_daemon()
    make_store(daemon.stores / "docs.sqlite", {"guide.md": "# Guide\n\nThe refund window is thirty days.\n"})
    make_store(daemon.stores / "secret.sqlite", {"plan.md": "# Plan\n\nThe refund window will be closed.\n"})
    for name in ("docs", "secret"):
        daemon.wait_state(name, "open")
    return make_shared_http(daemon).start()
