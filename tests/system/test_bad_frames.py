"""Clients that send nonsense, too much, or nothing: an error with its code, and everybody else unaffected."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon

MAX_FRAME_BYTES = 65_536
CONFIG = f"""
[server]
max_frame_bytes = {MAX_FRAME_BYTES}
send_timeout_s = 0.5
"""
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture(scope="module")
def crowded(start_shared_daemon: StartDaemon, make_store: MakeStore) -> Daemon:
    """A daemon with a store, small frames and little patience."""
    daemon = start_shared_daemon(CONFIG)
    make_store(daemon.stores / "good.sqlite", {"good.md": "# Good\n\nsound words\n"})
    daemon.wait_state("good", "open")
    return daemon


@pytest.fixture(autouse=True)
def _everybody_else_is_unaffected(crowded: Daemon) -> Any:
    with crowded.client() as bystander:
        bystander.ask("ping")
        yield
        assert bystander.ask("search", query="sound")["hits"][0]["ref"] == "good:good.md#0"


def _headers(body: bytes, length: int | None = None) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body) if length is None else length, body)


def _prefixed(body: bytes, length: int | None = None) -> bytes:
    return (len(body) if length is None else length).to_bytes(4, "big") + body


def _line(body: bytes) -> bytes:
    return body + b"\n"


def _read_all(stream: socket.socket) -> bytes:
    """Return all that comes until the daemon ends the stream."""
    data = b""
    try:
        while piece := stream.recv(65_536):
            data += piece
    except ConnectionResetError:  # it was closed with some of ours unread
        pass
    return data


def _messages(data: bytes) -> list[Any]:
    """Return the messages in *data*, whatever their framing."""
    found: list[Any] = []
    while data:
        if data.startswith(b"\0"):
            length, data = int.from_bytes(data[:4], "big"), data[4:]
        elif data.startswith(b"Content-Length: "):
            head, _, data = data.partition(b"\r\n\r\n")
            length = int(head.removeprefix(b"Content-Length: "))
        else:
            length = data.index(b"\n") + 1
        body, data = data[:length], data[length:]
        found.append(json.loads(body) if body.startswith(b"{") else msgspec.msgpack.decode(body))
    return found


# --------------------------------------------------------------------------- the stream itself


BROKEN: dict[str, tuple[bytes, str]] = {
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "parse_error"),
    "a control character": (b"\x01", "parse_error"),
    "MessagePack without a length": (b"\x93\x00\x01\xa4ping", "parse_error"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", "parse_error"),
    "a length over the limit": (_prefixed(b"", MAX_FRAME_BYTES + 1), "frame_too_large"),
    "the largest first length": (b"\x00\xff\xff\xff", "frame_too_large"),
    "a later length of 4 GiB": (
        _prefixed(msgspec.msgpack.encode({})) + b"\xff\xff\xff\xff",
        "frame_too_large",
    ),
    "a line over the limit": (b'{"x": "' + b"x" * MAX_FRAME_BYTES, "frame_too_large"),
    "a header over the limit": (_headers(b"", MAX_FRAME_BYTES + 1), "frame_too_large"),
    "a header of 5,000 digits": (b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n", "parse_error"),
    "a header of 30 digits": (b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", "frame_too_large"),
    "a negative length": (b"Content-Length: -1\r\n\r\n", "parse_error"),
    "two lengths": (b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "parse_error"),
    "headers without a length": (b"Content-Type: x\r\n\r\n{}", "parse_error"),
    "headers without end": (b"Content-Type: " + b"x" * 5_000, "parse_error"),
    "a header without a colon": (b"Content-Length 2\r\n\r\n{}", "parse_error"),
    "a length that is too short": (_headers(PING, 10) + b"\r\n\r\n", "parse_error"),
}


@pytest.mark.rule("request-body")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_stream_whose_framing_is_broken_is_told_why_and_closed(crowded: Daemon, kind: str) -> None:
    data, code = BROKEN[kind]
    with crowded.raw() as stream:
        stream.sendall(data)
        last = _messages(_read_all(stream))[-1]
    assert last["id"] is None
    assert last["error"]["data"]["code"] == code


HALVES = {
    "half a length": b"\0\0",
    "a length and half a body": _prefixed(msgspec.msgpack.encode({"method": "ping", "id": 1}))[:-3],
    "half a header": b"Content-Len",
    "a header and half a body": _headers(PING)[:-5],
    "half a line": PING[:-5],
}


@pytest.mark.parametrize("kind", HALVES)
def test_half_a_frame_and_silence_costs_nobody_else_anything(crowded: Daemon, kind: str) -> None:
    with crowded.raw() as stream:
        stream.sendall(HALVES[kind])
        assert crowded.ask("ping") == {}
        stream.shutdown(socket.SHUT_WR)
        (answer,) = _messages(_read_all(stream))
    assert answer["error"]["data"]["code"] == "parse_error"


@pytest.mark.parametrize("kind", HALVES)
def test_half_a_frame_and_a_closed_connection_leave_nothing_behind(crowded: Daemon, kind: str) -> None:
    before = crowded.ask("status")["connections"]
    with crowded.raw() as stream:
        stream.sendall(HALVES[kind])
    crowded.wait_for(lambda: crowded.ask("status")["connections"] == before, what="the connection to be gone")


# --------------------------------------------------------------------------- messages


BODIES: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"{nonsense", "parse_error"),
    "not UTF-8": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"\xff\xfe"}}',
        "invalid_params",
    ),
    "a method that is not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', "parse_error"),
    "half a surrogate": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"\\ud800"}}',
        "parse_error",
    ),
    "nested 10,000 deep": (b" " + b"[" * 10_000 + b"]" * 10_000, "invalid_request"),
    "params nested 10,000 deep": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":'
        + b"[" * 10_000
        + b"]" * 10_000
        + b"}}",
        "parse_error",
    ),
    "an array": (b" [1, 2]", "invalid_request"),
    "a batch": (b" [" + PING + b"]", "invalid_request"),
    "a number": (b" 17", "invalid_request"),
    "no method": (b'{"jsonrpc":"2.0","id":1}', "invalid_request"),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":1,"method":7}', "invalid_request"),
    "another version": (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', "invalid_request"),
    "a null id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', "invalid_request"),
    "a fractional id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', "invalid_request"),
    "a Boolean id": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', "invalid_request"),
    "an id of 2^53": (b'{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}', "invalid_request"),
    "an id that is a list": (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', "invalid_request"),
    "an unknown method": (b'{"jsonrpc":"2.0","id":1,"method":"pong"}', "unknown_method"),
    "an unknown parameter": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1}}', "invalid_params"),
    "a missing parameter": (b'{"jsonrpc":"2.0","id":1,"method":"search"}', "invalid_params"),
    "a parameter of another type": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":7}}',
        "invalid_params",
    ),
    "params by position": (b'{"jsonrpc":"2.0","id":1,"method":"search","params":["x"]}', "invalid_params"),
    "params that are text": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', "invalid_params"),
    "a number over all bounds": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","limit":1e400}}',
        "invalid_params",
    ),
    "a number of 400 digits": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","limit":' + b"9" * 400 + b"}}",
        "invalid_params",
    ),
    "no time at all": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","deadline_ms":0}}',
        "invalid_params",
    ),
    "an unknown store": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","stores":["goood"]}}',
        "unknown_store",
    ),
    "an unknown format": (
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","formats":["none"]}}',
        "invalid_params",
    ),
    "a ref without a store": (
        b'{"jsonrpc":"2.0","id":1,"method":"read","params":{"ref":"x"}}',
        "unknown_id",
    ),
    "an unknown id": (b'{"jsonrpc":"2.0","id":1,"method":"read","params":{"ref":"good:x"}}', "unknown_id"),
    "a pattern that does not compile": (
        b'{"jsonrpc":"2.0","id":1,"method":"grep","params":{"pattern":"(","regex":true}}',
        "pattern_rejected",
    ),
}


# Whose answer it is; 1 wherever that could be read.
IDS = {"parse_error": (None,), "invalid_request": (None, 1)}


@pytest.mark.parametrize("framing", ["lines", "headers"])
@pytest.mark.parametrize("kind", BODIES)
def test_a_message_that_is_wrong_is_answered_and_the_connection_lives_on(
    crowded: Daemon, kind: str, framing: str
) -> None:
    body, code = BODIES[kind]
    frame = _headers if framing == "headers" else _line
    with crowded.raw() as stream:
        stream.sendall(frame(body))
        (answer,) = _messages(stream.recv(65_536))
        assert answer["error"]["data"]["code"] == code
        assert answer["id"] in IDS.get(code, (1,))
        stream.sendall(frame(PING))
        assert _messages(stream.recv(65_536)) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def _nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


BINARY: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "parse_error"),
    "nested 10,000 deep": (_nested(10_000), "invalid_request"),
    "an array that lies about its length": (b"\xdd\xff\xff\xff\xff", "invalid_request"),
    "text that lies about its length": (b"\x81\xa6method\xdb\xff\xff\xff\xff", "parse_error"),
    "a map that lies about its length": (b"\xdf\xff\xff\xff\xff", "parse_error"),
    "text that is not UTF-8": (b"\x81\xa6method\xa2\xff\xfe", "parse_error"),
    "two messages in one frame": (msgspec.msgpack.encode({"method": "ping", "id": 1}) * 2, "parse_error"),
    "a reserved byte": (b"\xc1", "parse_error"),
}


@pytest.mark.parametrize("kind", BINARY)
def test_a_binary_message_that_is_wrong_is_answered_and_the_connection_lives_on(
    crowded: Daemon, kind: str
) -> None:
    body, code = BINARY[kind]
    with crowded.raw() as stream:
        stream.sendall(_prefixed(body))
        (answer,) = _messages(stream.recv(65_536))
        assert answer["error"]["data"]["code"] == code
        stream.sendall(_prefixed(msgspec.msgpack.encode({"method": "ping", "id": 1})))
        assert _messages(stream.recv(65_536)) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


# --------------------------------------------------------------------------- what a client may cost


def test_requests_in_flight_are_answered_although_the_stream_breaks_behind_them(
    start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    make_store(daemon.stores / "good.sqlite", {"good.md": "# Good\n\nsound words\n"})
    daemon.start().ask("rescan")
    search = b'{"id":"mine","method":"search","params":{"query":"sound"}}'
    with daemon.raw() as stream:
        stream.sendall(_headers(search) + b"nonsense\r\n")
        broken, answered = sorted(_messages(_read_all(stream)), key=lambda each: each["id"] is not None)
    assert broken["error"]["data"]["code"] == "parse_error"
    assert answered["id"] == "mine"
    assert answered["result"]["hits"][0]["ref"] == "good:good.md#0"


def test_a_client_that_never_reads_is_dropped_and_costs_nobody_else_anything(crowded: Daemon) -> None:
    before = crowded.ask("status")["connections"]
    with crowded.raw() as stream:
        stream.settimeout(0.05)
        with pytest.raises(OSError, match=r"timed out|Broken pipe"):
            while True:
                stream.sendall(PING + b"\n")
        assert crowded.found("sound") == ["good:good.md#0"]
        crowded.wait_for(
            lambda: crowded.ask("status")["connections"] == before, what="the deaf client to be dropped"
        )
    assert '"client_dropped"' in crowded.log


def test_a_client_that_says_nothing_costs_nobody_else_anything(crowded: Daemon) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(crowded.raw())
        assert crowded.found("sound") == ["good:good.md#0"]


@pytest.mark.slow
def test_five_hundred_clients_at_once_are_all_answered(crowded: Daemon) -> None:
    start = threading.Barrier(10)
    faults: list[BaseException] = []

    def fifty() -> None:
        try:
            with ExitStack() as stack:
                start.wait()
                clients = [stack.enter_context(crowded.client()) for _ in range(50)]
                for number, client in enumerate(clients):
                    client.send("search", query="sound", limit=1 + number % 10)
                for client in clients:
                    assert client.receive()["result"]["hits"][0]["ref"] == "good:good.md#0"
                start.wait()  # nobody leaves before all five hundred were answered
        except BaseException as fault:  # noqa: BLE001 - it is shown on the test's own thread
            faults.append(fault)
            start.abort()

    threads = [threading.Thread(target=fifty) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.rule("connection-ceiling")
def test_one_connection_too_many_is_told_so_and_closed(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[server]\nmax_connections = 3\n")
    with ExitStack() as stack:
        clients = [stack.enter_context(daemon.client()) for _ in range(3)]
        for client in clients:
            client.ask("ping")
        with daemon.client() as late:
            late.send("ping")
            error = late.receive()["error"]
            assert error["data"]["code"] == "overloaded"
            assert error["data"]["retryable"] is True
            assert error["data"]["retry_after_ms"] > 0
            assert late.receive() is None
        for client in clients:
            client.ask("ping")
    daemon.wait_for(lambda: _is_admitted(daemon), what="room for another client")


def _is_admitted(daemon: Daemon) -> bool:
    with daemon.client() as client:
        client.send("ping")
        return "result" in client.receive()


@pytest.mark.rule("past-ceiling")
def test_one_request_too_many_on_a_connection_is_overloaded_and_the_others_are_answered(
    start_daemon: StartDaemon, make_slow_store: MakeSlowStore, slow_query: str
) -> None:
    daemon = start_daemon("[server]\nmax_in_flight = 3\n", is_launched=False)
    make_slow_store(daemon.stores / "slow.sqlite")
    daemon.start().ask("rescan")
    with daemon.client() as client:
        running = [client.send("search", query=slow_query, deadline_ms=1_500) for _ in range(3)]
        late = client.send("search", query="quick")
        answer = client.receive()
        assert answer["id"] == late
        assert answer["error"]["data"]["code"] == "overloaded"
        assert answer["error"]["data"]["retry_after_ms"] > 0
        assert client.ask("ping") == {}
        with daemon.client() as other:
            assert other.ask("ping") == {}
        assert sorted(client.receive()["id"] for _ in running) == running
        client.ask("rescan")  # three in a row that took too long: the store is left alone for a second
        assert client.ask("search", query="quick")["hits"]
