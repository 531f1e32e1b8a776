"""What the tests of the bridge share."""

from __future__ import annotations

import socket
import socketserver
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collated.framing import Framer, frame
from collated.protocol import Reason, StoreStatus

MakeStatus = Callable[..., StoreStatus]

# These import the SDK, which takes each of the quick loop's processes most of a second.
_OF_THE_SDK = frozenset({"test_host.py", "test_serving.py", "test_session.py"})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the SDK out of the quick loop."""
    return True if collection_path.name in _OF_THE_SDK and config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks it, for whoever names it."""
    for item in items:
        if item.path.name in _OF_THE_SDK and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def status() -> MakeStatus:
    """`status(name, *capabilities, reason=None, **details)` is an open store, or one refused for a reason."""

    def make(name: str, *capabilities: str, reason: str | None = None, **details: Any) -> StoreStatus:
        return StoreStatus(
            name=name,
            path=f"/p/{name}.sqlite",
            root=None,
            format="contextpull",
            schema_version="1.0",
            state="refused" if reason else "open",
            reason=Reason("damaged", reason) if reason else None,
            fingerprint="f",
            documents=None if reason else 2,
            records=None if reason else 7,
            bytes=None if reason else 4096,
            capabilities=[*capabilities] or ["search", "read", "grep", "neighbours", "index"],
            details=details,
        )

    return make


IsPlain = Callable[[str], bool]


@pytest.fixture(scope="session")
def is_plain() -> IsPlain:
    """`is_plain(text)`: there is nothing in it that a terminal would obey, line feeds and tabs included."""
    reordering = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}

    def is_harmless(character: str) -> bool:
        return (
            unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
            and unicodedata.bidirectional(character) not in reordering
            and character not in "\u061c\u200e\u200f"
        )

    return lambda text: all(map(is_harmless, text))


class _Connection(socketserver.BaseRequestHandler):
    """One connection to the fake daemon."""

    def handle(self) -> None:
        fake: Any = self.server
        framer = Framer(1 << 20)
        fake.connections.append(self.request)
        with suppress(OSError):
            while data := self.request.recv(65_536):
                for body in framer.feed(data):
                    message = msgspec.msgpack.decode(body)
                    fake.received.append(message)
                    with fake.sending:
                        for answer in fake.answers(message):
                            self.request.sendall(frame("msgpack", msgspec.msgpack.encode(answer)))


class FakeDaemon(socketserver.ThreadingUnixStreamServer):
    """What a daemon with `stores` answers; `script` answers what it does not know, nothing is no answer."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, stores: Sequence[StoreStatus]) -> None:
        super().__init__(str(path), _Connection)
        self.stores = [*stores]
        self.connections: list[socket.socket] = []
        self.received: list[Mapping[str, Any]] = []
        self.sending = threading.Lock()
        self.script: Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]] = lambda _: ()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def asked(self) -> list[str]:
        """Return the methods that were asked, in order."""
        return [message["method"] for message in self.received]

    def answers(self, message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        known: dict[str, dict[str, Any]] = {
            "subscribe": {"topics": ["stores/changed"]},
            "stores": {"stores": msgspec.to_builtins(self.stores)},
            "rescan": {"added": [], "changed": [], "removed": []},
        }
        result = known.get(message["method"])
        if result is None:
            return self.script(message)
        return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]

    def change(self, stores: Sequence[StoreStatus]) -> None:
        """Have other stores, and tell who is connected."""
        self.stores = [*stores]
        params: dict[str, Any] = {"added": [], "changed": [], "removed": []}
        told = {"jsonrpc": "2.0", "method": "stores/changed", "params": params}
        with self.sending:
            for connection in self.connections:
                connection.sendall(frame("msgpack", msgspec.msgpack.encode(told)))

    def drop(self) -> None:
        """Stop listening, and end every connection, as a daemon does that dies."""
        self.shutdown()
        self.server_close()
        Path(str(self.server_address)).unlink()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


FakeDaemons = Callable[..., FakeDaemon]


@pytest.fixture
def fake_daemon(tmp_path: Path) -> Iterator[FakeDaemons]:
    """`fake_daemon(*stores)` listens at `tmp_path / "s"` until the test ends, or it is dropped."""
    started: list[FakeDaemon] = []

    def start(*stores: StoreStatus) -> FakeDaemon:
        started.append(FakeDaemon(tmp_path / "s", stores))
        return started[-1]

    yield start
    for each in started:
        if Path(str(each.server_address)).exists():
            each.drop()
