"""Whole sessions over the socket: three framings, ids, half-close, cancelling, progress, notifications."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon

FRAMINGS = ["lines", "headers", "msgpack"]
BOOK = {
    "book.md": "# Title\n\nA preface of whales, long enough to stand alone.\n\n"
    "## Whales\n\nThe blue whale is the largest animal that has ever lived.\n\n"
    "## Ships\n\nThe whale ship Essex was sunk by a sperm whale in 1820.\n"
}


class Speaker:
    """A client that frames and encodes by itself, so that it shares nothing with the daemon's code."""

    def __init__(self, daemon: Daemon, framing: str) -> None:
        self.framing = framing
        self.stream = daemon.raw()
        self.rest = b""

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def framed(self, message: Mapping[str, Any]) -> bytes:
        """Return the bytes of one message."""
        if self.framing == "msgpack":
            body = msgspec.msgpack.encode(message)
            return len(body).to_bytes(4, "big") + body
        body = json.dumps(message, ensure_ascii=False).encode()
        return (
            body + b"\n" if self.framing == "lines" else b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    def send(self, **message: Any) -> None:
        """Send one message with exactly these fields."""
        self.stream.sendall(self.framed(message))

    def receive(self) -> Any:
        """Return the next message."""
        if self.framing == "lines":
            return json.loads(self._until(b"\n"))
        if self.framing == "headers":
            head = self._until(b"\r\n\r\n")
            return json.loads(self._exactly(int(head.partition(b"Content-Length: ")[2])))
        return msgspec.msgpack.decode(self._exactly(int.from_bytes(self._exactly(4), "big")))

    def ask(self, method: str, params: Any = None, request_id: Any = 1) -> Any:
        """Return the whole answer to one request."""
        self.send(jsonrpc="2.0", id=request_id, method=method, params=params)
        return self.receive()

    def result(self, method: str, params: Any = None) -> Any:
        """Return the result of one request."""
        answer = self.ask(method, params)
        assert "error" not in answer
        return answer["result"]

    def _until(self, mark: bytes) -> bytes:
        while mark not in self.rest:
            self.rest += self._more()
        found, _, self.rest = self.rest.partition(mark)
        return found

    def _exactly(self, length: int) -> bytes:
        while len(self.rest) < length:
            self.rest += self._more()
        found, self.rest = self.rest[:length], self.rest[length:]
        return found

    def _more(self) -> bytes:
        data = self.stream.recv(65_536)
        assert data, "the daemon ended the connection"
        return data


@pytest.fixture(scope="module")
def library(start_shared_daemon: StartDaemon, make_store: MakeStore) -> Daemon:
    """A daemon with three stores."""
    daemon = start_shared_daemon(is_launched=False)
    for name in ("one", "two", "three"):
        make_store(daemon.stores / f"{name}.sqlite", BOOK)
    daemon.start().ask("rescan")
    return daemon


@pytest.fixture
def slow(start_daemon: StartDaemon, make_slow_store: MakeSlowStore) -> Daemon:
    """A daemon with a store that keeps a query busy for many seconds."""
    daemon = start_daemon(is_launched=False)
    make_slow_store(daemon.stores / "slow.sqlite")
    assert daemon.start().found("quick") == ["slow:a.md#0"]
    return daemon


# --------------------------------------------------------------------------- the three framings


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_whole_session_in_each_framing(library: Daemon, framing: str) -> None:
    with Speaker(library, framing) as speaker:
        hello = speaker.result("initialize", {"client": {"name": "test"}, "unknown": {"is": "tolerated"}})
        assert hello["framing"] == framing
        assert hello["protocol"] == 1
        assert hello["formats"]["contextpull"] == "1.x"
        assert sorted(hello["formats"]) == ["book-agent", "codebase-index", "contextful", "contextpull"]
        assert {"search", "read", "$/cancelRequest"} <= set(hello["methods"])
        assert speaker.result("ping") == {}
        assert [store["name"] for store in speaker.result("stores")["stores"]] == ["one", "three", "two"]
        found = speaker.result("search", {"query": "blue whale", "limit": 2, "stores": ["one", "two"]})
        assert [hit["ref"] for hit in found["hits"]] == ["one:book.md#1", "two:book.md#1"]
        assert found["stores"] == {"asked": 2, "answered": 2, "skipped": 0, "failed": []}
        record = speaker.result("read", {"ref": "one:book.md#1", "context": 1})
        assert "blue whale" in record["text"]
        assert [each["id"] for each in record["context"]] == ["book.md#0", "book.md#2"]
        assert (
            speaker.result("grep", {"pattern": "1820", "stores": ["two"]})["matches"][0]["id"] == "book.md#2"
        )
        around = speaker.result("neighbours", {"ref": "two:book.md#1", "before": 0})
        assert [each["id"] for each in around["records"]] == ["book.md#1", "book.md#2"]
        assert "book.md" in speaker.result("index", {"store": "three"})["text"]
        assert speaker.result("status")["stores"] == {"open": 3}
        assert speaker.result("rescan") == {"added": [], "changed": [], "removed": []}
        error = speaker.ask("search", {"query": "ünï", "stores": ["twoo"]})["error"]
        assert error["code"] == -32001
        assert error["data"]["code"] == "unknown_store"
        assert "two" in error["data"]["suggestion"]


def test_all_framings_give_the_same_results(library: Daemon) -> None:
    questions: list[tuple[str, Mapping[str, Any]]] = [
        ("search", {"query": "whale ship"}),
        ("search", {"query": "whale", "ranking": "fused", "limit": 3}),
        ("grep", {"pattern": "WHALE"}),
        ("read", {"ref": "one:book.md#0"}),
        ("index", {}),
        ("stores", {}),
    ]
    answers: list[Any] = []
    for framing in FRAMINGS:
        with Speaker(library, framing) as speaker:
            answers.append([speaker.result(method, params) for method, params in questions])
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("framing", FRAMINGS)
def test_messages_may_arrive_byte_by_byte_or_all_at_once(library: Daemon, framing: str) -> None:
    with Speaker(library, framing) as speaker:
        frames = [speaker.framed({"id": number, "method": "ping"}) for number in range(20)]
        for byte in b"".join(frames[:2]):
            speaker.stream.sendall(bytes([byte]))
        speaker.stream.sendall(b"".join(frames[2:]))
        assert [speaker.receive()["id"] for _ in frames] == list(range(20))


@pytest.mark.parametrize("framing", FRAMINGS)
def test_no_parameters_may_be_written_in_four_ways(library: Daemon, framing: str) -> None:
    with Speaker(library, framing) as speaker:
        answers: list[Any] = []
        ways: list[dict[str, Any]] = [{}, {"params": None}, {"params": {}}, {"params": []}]
        for way in ways:
            speaker.send(id=1, method="stores", **way)
            answers.append(speaker.receive())
        assert answers[0]["result"]["stores"]
        assert all(answer == answers[0] for answer in answers)
        for way in ways:
            speaker.send(id=1, method="search", **way)
            assert speaker.receive()["error"]["data"]["code"] == "invalid_params"


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("request_id", [0, 1, -7, 2**53 - 1, "", "a", "0", "ünï 日本\n"])
def test_an_id_comes_back_as_it_was_sent(library: Daemon, framing: str, request_id: Any) -> None:
    with Speaker(library, framing) as speaker:
        for method, params in (("ping", None), ("search", {"query": f"whale {framing}"}), ("pong", None)):
            answer = speaker.ask(method, params, request_id)
            assert answer["id"] == request_id
            assert type(answer["id"]) is type(request_id)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_notification_is_not_answered(library: Daemon, framing: str) -> None:
    with Speaker(library, framing) as speaker:
        speaker.send(jsonrpc="2.0", method="ping")
        speaker.send(jsonrpc="2.0", method="initialized", params={})
        speaker.send(jsonrpc="2.0", method="search", params={"query": 7})
        speaker.send(jsonrpc="2.0", method="$/cancelRequest", params={"id": 99})
        speaker.send(jsonrpc="2.0", id=8, result={"a reply": "to nothing"})
        assert speaker.ask("ping", request_id=9) == {"jsonrpc": "2.0", "id": 9, "result": {}}


def test_pipelined_requests_are_answered_exactly_once_each(library: Daemon) -> None:
    with library.client() as client:
        sent: dict[int, str] = {}
        for number in range(200):
            method = ("ping", "search", "grep", "read", "stores", "nonsense")[number % 6]
            params = {
                "search": {"query": f"whale number {number}"},
                "grep": {"pattern": f"whale{number}"},
                "read": {"ref": "one:book.md#0"},
            }.get(method, {})
            sent[client.send(method, params)] = method
        client.socket.shutdown(socket.SHUT_WR)
        answers = client.rest()
    assert sorted(answer["id"] for answer in answers) == sorted(sent)
    codes = {
        answer["error"]["data"]["code"]
        for answer in answers
        if "error" in answer and sent[answer["id"]] != "nonsense"
    }
    assert codes <= {"overloaded"}  # more than `max_in_flight` at once
    assert sum("result" in answer for answer in answers) >= 100


def test_an_id_may_not_be_used_twice_at_once_but_again_afterwards(slow: Daemon, slow_query: str) -> None:
    with Speaker(slow, "lines") as speaker:
        speaker.send(id="same", method="search", params={"query": slow_query, "deadline_ms": 60_000})
        answer = speaker.ask("ping", request_id="same")
        assert answer["error"]["data"]["code"] == "invalid_request"
        speaker.send(method="$/cancelRequest", params={"id": "same"})
        assert speaker.receive()["error"]["data"]["code"] == "cancelled"
        assert speaker.ask("ping", request_id="same")["result"] == {}


# --------------------------------------------------------------------------- the end of a connection


@pytest.mark.parametrize("framing", FRAMINGS)
def test_what_was_asked_before_a_half_close_is_answered(library: Daemon, framing: str) -> None:
    with Speaker(library, framing) as speaker:
        speaker.send(id=1, method="search", params={"query": f"half closed whale {framing}"})
        speaker.stream.shutdown(socket.SHUT_WR)
        assert speaker.receive()["result"]["hits"]
        assert speaker.stream.recv(1) == b""


def test_a_last_line_needs_no_line_feed(library: Daemon) -> None:
    with library.raw() as stream:
        stream.sendall(b'{"id":1,"method":"ping"}')
        stream.shutdown(socket.SHUT_WR)
        assert json.loads(stream.recv(65_536)) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_pipe_through_socat_is_answered(library: Daemon) -> None:
    if shutil.which("socat") is None:
        pytest.skip("socat is not installed")
    question = '{"id":1,"method":"search","params":{"query":"socat whale"}}\n'
    asked = subprocess.run(
        ["socat", "-t", "10", "-", f"UNIX-CONNECT:{library.socket}"],
        input=question,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(asked.stdout)["result"]["hits"]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_at_rest(pid: int) -> Callable[[], bool]:
    """Return a condition: the process has used hardly any processor time since it was last asked."""
    last = [time.monotonic(), _cpu_s(pid)]

    def check() -> bool:
        now, used = time.monotonic(), _cpu_s(pid)
        if now - last[0] < 0.3:
            return False
        share = (used - last[1]) / (now - last[0])
        last[:] = [now, used]
        return share < 0.2

    return check


def test_a_client_that_is_gone_costs_nothing_more(slow: Daemon, slow_query: str) -> None:
    with slow.client() as client:
        client.send("search", query=slow_query, deadline_ms=60_000)
        slow.wait_for(lambda: slow.ask("status")["in_flight"] == 1, what="the search to run")
    slow.wait_for(lambda: slow.ask("status")["in_flight"] == 0, 5, what="the search to be given up")
    slow.wait_for(_is_at_rest(slow.pid), 5, what="the statement to stop")


# --------------------------------------------------------------------------- cancelling


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("is_request", [False, True])
def test_a_cancelled_request_answers_so_and_its_statement_stops(
    slow: Daemon, slow_query: str, framing: str, is_request: bool
) -> None:
    with Speaker(slow, framing) as speaker:
        speaker.send(id="long", method="search", params={"query": slow_query, "deadline_ms": 60_000})
        slow.wait_for(lambda: slow.ask("status")["in_flight"] == 1, what="the search to run")
        cancel: dict[str, Any] = {"method": "$/cancelRequest", "params": {"id": "long"}}
        speaker.send(**cancel, **({"id": "cancel"} if is_request else {}))
        answers = {answer["id"]: answer for answer in (speaker.receive() for _ in range(1 + is_request))}
        assert answers["long"]["error"]["code"] == -32800
        assert answers["long"]["error"]["data"] == {"code": "cancelled", "retryable": False}
        if is_request:
            assert answers["cancel"]["result"] == {}
        slow.wait_for(_is_at_rest(slow.pid), 5, what="the statement to stop")
        assert speaker.result("search", {"query": "quick"})["hits"][0]["ref"] == "slow:a.md#0"


def test_cancelling_in_the_same_breath_finds_the_request(slow: Daemon, slow_query: str) -> None:
    with Speaker(slow, "lines") as speaker:
        ask = speaker.framed(
            {"id": 1, "method": "search", "params": {"query": slow_query, "deadline_ms": 60_000}}
        )
        speaker.stream.sendall(ask + speaker.framed({"method": "$/cancelRequest", "params": {"id": 1}}))
        assert speaker.receive()["error"]["data"]["code"] == "cancelled"


def test_cancelling_what_is_not_running_does_nothing(library: Daemon) -> None:
    assert library.ask("$/cancelRequest", id=12) == {}
    assert library.ask("$/cancelRequest", id="x") == {}


# --------------------------------------------------------------------------- progress, subscriptions


@pytest.mark.parametrize("token", ["mine", 17])
@pytest.mark.parametrize("method", ["search", "grep"])
def test_a_token_streams_progress_before_the_whole_answer(
    start_daemon: StartDaemon, make_store: MakeStore, method: str, token: Any
) -> None:
    daemon = start_daemon(is_launched=False)
    for name in ("one", "two", "three"):
        make_store(daemon.stores / f"{name}.sqlite", BOOK)
    daemon.start()
    params = {"query": "whale"} if method == "search" else {"pattern": "whale"}
    with daemon.client() as client:
        request_id = client.send(method, {**params, "partialResultToken": token})
        told: list[Any] = []
        while (message := client.receive()).get("method") == "$/progress":
            assert message["params"]["token"] == token
            told.append(message["params"]["value"])
    assert message["id"] == request_id
    assert [value["asked"] for value in told] == [3] * len(told)
    assert [value["answered"] for value in told] == sorted(value["answered"] for value in told)
    assert told[-1]["answered"] == 3
    if method == "search":
        refs = {hit["ref"] for value in told for hit in value["hits"]}
        assert {hit["ref"] for hit in message["result"]["hits"]} <= refs


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_subscriber_is_told_what_changes_until_it_has_enough(
    daemon: Daemon, make_store: MakeStore, framing: str
) -> None:
    with Speaker(daemon, framing) as speaker:
        assert speaker.result("subscribe", {"topics": ["stores/changed"]}) == {"topics": ["stores/changed"]}
        path = make_store(daemon.stores / "new.sqlite", BOOK)
        daemon.wait_state("new", "open")
        path.unlink()
        told: list[Any] = []
        while not told or "new" not in told[-1]["params"]["removed"]:
            told.append(speaker.receive())
        assert {message["method"] for message in told} == {"stores/changed"}
        assert told[0]["params"]["added"] == ["new"]
        assert speaker.result("subscribe", {"topics": []}) == {"topics": []}
        make_store(daemon.stores / "other.sqlite", BOOK)
        daemon.wait_state("other", "open")
        assert speaker.ask("ping", request_id=5) == {"jsonrpc": "2.0", "id": 5, "result": {}}
