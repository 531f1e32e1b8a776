"""The clients: typed results, error answers, progress, cancellation, and what a broken peer does to them."""

import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from collated import protocol
from collated.client import AsyncClient, Client, DaemonUnreachable
from collated.client.conversation import Conversation
from collated.errors import CODES, RequestFailed
from collated.framing import Framer, frame

Message = Mapping[str, Any]
Script = Callable[["Peer", Message], None]
Listen = Callable[[Script], "Listener"]

NO_STORES: dict[str, Any] = {"asked": 0, "answered": 0, "skipped": 0, "failed": []}
FOUND: dict[str, Any] = {"hits": [], "mode": "lexical", "hint": None, "complete": True, "stores": NO_STORES}
FAILURES = {"read": ("unknown_id", "search for it", None), "grep": ("overloaded", None, 200)}
CHANGES: dict[str, Any] = {"added": ["a"], "changed": [], "removed": []}


def _framed(message: Message) -> bytes:
    return frame("msgpack", msgspec.msgpack.encode(message))


class Peer(socketserver.BaseRequestHandler):
    """One connection to the fake daemon: reads requests, lets the script answer them."""

    def handle(self) -> None:
        listener: Any = self.server  # a Listener
        framer = Framer(1 << 20)
        with suppress(ConnectionError):
            while data := self.request.recv(65_536):
                for body in framer.feed(data):
                    message = msgspec.msgpack.decode(body)
                    listener.received.append(message)
                    listener.script(self, message)

    def raw(self, data: bytes) -> None:
        self.request.sendall(data)

    def send(self, **message: Any) -> None:
        self.raw(_framed({"jsonrpc": "2.0", **message}))

    def fail(self, request_id: Any, code: str, suggestion: str | None, retry_after_ms: int | None) -> None:
        details: dict[str, Any] = {
            "code": code,
            "retryable": CODES[code].is_retryable,
            "suggestion": suggestion,
        }
        details["retry_after_ms"] = retry_after_ms
        self.send(
            id=request_id, error={"code": CODES[code].number, "message": f"it is {code}", "data": details}
        )

    def progress(self, token: Any, answered: int) -> None:
        value: dict[str, Any] = {"asked": 2, "answered": answered, "hits": [], "failed": []}
        self.send(method="$/progress", params={"token": token, "value": value})


class Listener(socketserver.ThreadingUnixStreamServer):
    """The fake daemon; `received` is every message that came, `script` answers them."""

    daemon_threads = True
    request_queue_size = 64
    received: list[Message]
    script: Script


def _answer(peer: Peer, message: Message) -> None:
    """Answer as a daemon without stores would; the query `slow` and notifications get no answer."""
    match message:
        case {"method": "search", "params": {"query": "slow"}}:
            pass
        case {"method": "search", "id": request_id, "params": params}:
            if params.get("partialResultToken") is not None:
                peer.progress(params["partialResultToken"], 1)
                peer.progress("of another request", 9)
                peer.progress(params["partialResultToken"], 2)
            peer.send(id=request_id, result={**FOUND, "hint": params["query"]})
        case {"method": "read" | "grep" as method, "id": request_id}:
            peer.fail(request_id, *FAILURES[method])
        case {"method": "rescan", "id": request_id}:
            peer.send(method="stores/changed", params=CHANGES)
            peer.send(id=request_id, result=CHANGES)
        case {"method": "subscribe", "id": request_id}:
            peer.send(id=request_id, result={"topics": ["stores/changed"]})
            peer.send(method="stores/changed", params=CHANGES)
        case _ if "id" in message:
            peer.send(id=message["id"], result={})
        case _:
            pass


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    """`listen(script)` starts a fake daemon at `tmp_path / "s"`."""
    started: list[Listener] = []

    def begin(script: Script) -> Listener:
        listener = Listener(str(tmp_path / "s"), Peer)
        listener.received, listener.script = [], script
        started.append(listener)
        threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        return listener

    yield begin
    for listener in started:
        listener.shutdown()
        listener.server_close()


@pytest.fixture
def path(listen: Listen, tmp_path: Path) -> Path:
    """The socket of a fake daemon that answers by `_answer`."""
    listen(_answer)
    return tmp_path / "s"


# --------------------------------------------------------------------------- blocking


def test_a_call_returns_the_typed_result_of_its_method(path: Path) -> None:
    with Client(path) as client:
        result = client.search("refund window", limit=3, within=["docs/"])
        assert isinstance(result, protocol.SearchResult)
        assert result.hint == "refund window"
        assert client.ping() == protocol.PingResult()


def test_the_socket_is_that_of_the_environment_unless_it_is_given(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLATE_SOCKET", str(path))
    with Client() as client:
        assert client.search("refund").hint == "refund"


def test_parameters_go_by_their_names_on_the_wire(listen: Listen, tmp_path: Path) -> None:
    listener = listen(_answer)
    with Client(tmp_path / "s") as client:
        client.search("q", within=["docs/"])
        client.call("search", {"query": "q", "in": ["docs/"]})
    first, second = listener.received
    assert first["params"]["in"] == second["params"]["in"] == ["docs/"]
    assert first["jsonrpc"] == "2.0"
    assert (first["id"], second["id"]) == (1, 2)


def test_a_method_of_a_newer_daemon_gives_plain_values(path: Path) -> None:
    with Client(path) as client:
        assert client.call("of_tomorrow", {"name": "main"}) == {}


def test_a_misspelled_parameter_is_an_error_before_anything_is_sent(path: Path) -> None:
    with Client(path) as client, pytest.raises(TypeError):
        client.search("q", limt=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # the mistake


def test_an_error_answer_raises_with_its_code_and_what_to_do(path: Path) -> None:
    with Client(path) as client:
        with pytest.raises(RequestFailed) as unknown:
            client.read("docs:a.md#0")
        with pytest.raises(RequestFailed) as busy:
            client.grep("x")
        assert client.ping() == protocol.PingResult()
    assert (unknown.value.code, unknown.value.suggestion) == ("unknown_id", "search for it")
    assert (busy.value.code, busy.value.retry_after_ms) == ("overloaded", 200)


def test_progress_is_told_while_an_answer_is_awaited(path: Path) -> None:
    told: list[protocol.Partial | None] = []
    with Client(path) as client:
        client.call("search", protocol.SearchParams("q"), on_wait=told.append)
        client.call("search", {"query": "q"}, on_wait=told.append)
        client.call("ping", on_wait=told.append)  # which has no partial results
    assert {each.answered for each in told if each is not None} <= {1, 2}


def test_the_callback_is_called_though_the_daemon_says_nothing(path: Path) -> None:
    calls = 0

    def count(partial: protocol.Partial | None) -> None:
        nonlocal calls
        calls += 1
        assert partial is None

    with Client(path) as client, pytest.raises(DaemonUnreachable, match=r"did not answer within 0\.5 s"):
        client.call("search", protocol.SearchParams("slow"), timeout_s=0.5, on_wait=count)
    assert calls > 1


def test_a_call_that_timed_out_is_cancelled_and_the_connection_goes_on(
    listen: Listen, tmp_path: Path
) -> None:
    listener = listen(_answer)
    with Client(tmp_path / "s", timeout_s=0.05) as client:
        with pytest.raises(DaemonUnreachable, match="did not answer"):
            client.search("slow")
        assert client.call("ping", timeout_s=30) == protocol.PingResult()
    assert {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}} in listener.received


def test_a_late_reply_is_not_taken_for_the_next_one(listen: Listen, tmp_path: Path) -> None:
    def late(peer: Peer, message: Message) -> None:
        if message["method"] == "$/cancelRequest":
            peer.send(id=1, result={**FOUND, "hint": "late"})
        elif message["id"] != 1:
            peer.send(id=message["id"], result={**FOUND, "hint": "in time"})

    listen(late)
    with Client(tmp_path / "s") as client:
        with pytest.raises(DaemonUnreachable):
            client.call("search", protocol.SearchParams("a"), timeout_s=0.02)
        assert client.search("b").hint == "in time"


def test_changes_are_followed_and_none_is_lost_to_a_call_in_between(path: Path) -> None:
    with Client(path) as client:
        changes = client.subscribe()
        client.rescan()
        assert next(changes) == next(changes) == protocol.Changes(["a"], [], [])


def test_nobody_listening_is_told_apart_from_everything_else(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="no daemon listens at") as absent:
        Client(tmp_path / "s")
    assert absent.value.is_absent
    with pytest.raises(DaemonUnreachable, match="cannot connect to") as other:
        Client(tmp_path / ("long" * 60))
    assert not other.value.is_absent


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers is not collated"),
        (frame("msgpack", b"\xc1"), "what answers is not collated"),
        (frame("msgpack", b"\x81\xa2id\x01" + b"trailing"), "what answers is not collated"),
        (frame("msgpack", b"\x91" * 5_000), "what answers is not collated"),
        (frame("msgpack", msgspec.msgpack.encode({"id": 1, "error": "no"})), "what answers is not collated"),
        (
            frame("msgpack", msgspec.msgpack.encode({"id": 1, "result": {"hits": 3}})),
            "is it of another version?",
        ),
        (frame("msgpack", msgspec.msgpack.encode({"id": 1})), "is it of another version?"),
    ],
)
def test_a_peer_that_answers_nonsense_is_not_reachable(
    listen: Listen, tmp_path: Path, reply: bytes, said: str
) -> None:
    def nonsense(peer: Peer, _: Message) -> None:
        peer.raw(reply)
        peer.request.shutdown(2)

    listen(nonsense)
    with Client(tmp_path / "s") as client, pytest.raises(DaemonUnreachable, match=said.replace("?", r"\?")):
        client.search("q")


def test_an_error_without_an_id_ends_the_call_that_waits(listen: Listen, tmp_path: Path) -> None:
    listen(lambda peer, _: peer.fail(None, *FAILURES["grep"]))
    with Client(tmp_path / "s") as client, pytest.raises(RequestFailed, match="it is overloaded"):
        client.search("q")


def test_a_daemon_that_is_gone_is_not_reachable(listen: Listen, tmp_path: Path) -> None:
    listen(lambda peer, _: peer.request.shutdown(2))
    with Client(tmp_path / "s") as client:
        for _ in range(3):
            with pytest.raises(DaemonUnreachable):
                client.search("q")


def test_notifications_of_a_newer_daemon_are_ignored() -> None:
    news = {"jsonrpc": "2.0", "method": "stores/renamed", "params": {"from": "a"}}
    assert Conversation().feed(frame("msgpack", msgspec.msgpack.encode(news))) == []


def test_the_blocking_client_imports_neither_anyio_nor_asyncio() -> None:
    program = "import sys, collated.client; print(*{'anyio', 'asyncio', 'sqlite3'} & set(sys.modules))"
    environ = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, check=True, timeout=30
    )
    assert ran.stdout.strip() == b""


# --------------------------------------------------------------------------- async


def run(main: Callable[[], Any]) -> Any:
    """Run an async test body with a time limit."""

    async def limited() -> Any:
        with anyio.fail_after(20):
            return await main()

    return anyio.run(limited)


def test_many_calls_at_once_each_get_their_own_answer(path: Path) -> None:
    async def main() -> None:
        got: dict[int, str | None] = {}

        async def ask(client: AsyncClient, number: int) -> None:
            got[number] = (await client.search(f"question {number}")).hint

        async with AsyncClient(path) as client, anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(ask, client, number)
        assert got == {number: f"question {number}" for number in range(50)}

    run(main)


def test_async_errors_come_as_they_are_and_not_in_a_group(path: Path) -> None:
    async def main() -> None:
        with pytest.raises(RequestFailed) as failed:
            async with AsyncClient(path) as client:
                await client.read("docs:a.md#0")
        assert failed.value.code == "unknown_id"
        with pytest.raises(ZeroDivisionError):
            async with AsyncClient(path):
                raise ZeroDivisionError

    run(main)


def test_cancelling_the_task_that_waits_cancels_its_request(listen: Listen, tmp_path: Path) -> None:
    listener = listen(_answer)

    async def main() -> None:
        async with AsyncClient(tmp_path / "s") as client:
            with anyio.move_on_after(0.05) as scope:
                await client.search("slow")
            assert scope.cancelled_caught
            assert (await client.search("still there")).hint == "still there"

    run(main)
    assert {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}} in listener.received


def test_async_progress_is_told(path: Path) -> None:
    async def main() -> None:
        told: list[int] = []
        async with AsyncClient(path) as client:
            params = protocol.SearchParams("q")
            await client.call("search", params, on_progress=lambda partial: told.append(partial.answered))
        assert told == [1, 2]

    run(main)


def test_every_subscription_gets_every_change(path: Path) -> None:
    async def main() -> None:
        expected = protocol.Changes(["a"], [], [])
        async with AsyncClient(path) as client, client.subscribe() as first:
            assert await first.receive() == expected
            async with client.subscribe() as second:
                assert await second.receive() == await first.receive() == expected
                first.close()
                await client.rescan()
                assert await second.receive() == expected

    run(main)


def test_when_the_daemon_goes_all_calls_and_subscriptions_end(listen: Listen, tmp_path: Path) -> None:
    def leave(peer: Peer, message: Message) -> None:
        if message["method"] == "subscribe":
            peer.send(id=message["id"], result={"topics": []})
        elif message["id"] == 3:
            peer.request.shutdown(2)

    listen(leave)

    async def main() -> None:
        ended = 0

        async def ask(client: AsyncClient) -> None:
            nonlocal ended
            with pytest.raises(DaemonUnreachable, match="closed the connection"):
                await client.search("q")
            ended += 1

        async with AsyncClient(tmp_path / "s") as client, client.subscribe() as changes:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, client)
                tasks.start_soon(ask, client)
            assert [change async for change in changes] == []
            with pytest.raises(DaemonUnreachable):
                await client.ping()
        assert ended == 2

    run(main)


def test_an_async_client_is_used_inside_its_block(path: Path) -> None:
    async def main() -> None:
        client = AsyncClient(path)
        with pytest.raises(DaemonUnreachable, match="inside `async with`"):
            await client.ping()
        with pytest.raises(DaemonUnreachable) as absent:
            async with AsyncClient(path.with_name("nobody")):
                pass
        assert absent.value.is_absent
        async with client:
            await client.ping()
        with pytest.raises(DaemonUnreachable):
            await client.ping()

    run(main)


def test_an_async_peer_that_answers_nonsense_is_not_reachable(listen: Listen, tmp_path: Path) -> None:
    listen(lambda peer, _: peer.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"))

    async def main() -> None:
        async with AsyncClient(tmp_path / "s") as client:
            with pytest.raises(DaemonUnreachable, match="what answers is not collated"):
                await client.ping()

    run(main)


def test_the_two_clients_have_a_method_for_everything_on_the_wire() -> None:
    for method in set(protocol.METHODS) - {"initialize", "$/cancelRequest"}:
        assert hasattr(Client, method.replace(".", "_"))
        assert hasattr(AsyncClient, method.replace(".", "_"))
