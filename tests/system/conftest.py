"""A real daemon with directories of its own, and a plain client of its socket.

Everything here is reached through fixtures; for annotations,
`if TYPE_CHECKING: from tests.system.conftest import Daemon`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

DEADLINE_S = 20.0
# What a service manager or a person at this machine may have set must not reach the daemon.
_FOREIGN = ("COLLATE_", "LISTEN_", "NOTIFY_", "WATCHDOG_", "XDG_", "JOURNAL_")

_running: list[Daemon] = []


class Refused(Exception):
    """An error answer: `code` is the stable word, `number` JSON-RPC's, `error` the whole object."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['data']['code']}: {error['message']}")
        self.error = error
        self.number: int = error["code"]
        self.message: str = error["message"]
        self.data: Mapping[str, Any] = error["data"]
        self.code: str = error["data"]["code"]


class Client:
    """One connection that speaks JSON by the line; blocking, with a time limit on everything."""

    def __init__(self, path: Path, timeout_s: float = DEADLINE_S) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout_s)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self._rest = b""
        self._next_id = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close both directions."""
        self.socket.close()

    def send(self, method: str, params: Mapping[str, Any] | None = None, /, **more: Any) -> int:
        """Send a request and return its id."""
        self._next_id += 1
        message = {
            "jsonrpc": "2.0",
            "id": self._next_id,
            "method": method,
            "params": {**(params or {}), **more},
        }
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        return self._next_id

    def line(self) -> bytes:
        """Return the next line without its line feed; empty at the end of the stream."""
        while b"\n" not in self._rest:
            data = self.socket.recv(65_536)
            if not data:
                rest, self._rest = self._rest, b""
                return rest
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def receive(self) -> Any:
        """Return the next message; None at the end of the stream."""
        line = self.line()
        return json.loads(line) if line else None

    def rest(self) -> list[Any]:
        """Return every message until the daemon ends the stream."""
        return list(iter(self.receive, None))

    def ask(self, method: str, params: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """Return the result of a request, passing over notifications.

        Raises:
            Refused: the answer is an error.
        """
        request_id = self.send(method, params, **more)
        while True:
            message = self.receive()
            assert message is not None, "the daemon ended the connection"
            if message.get("id") != request_id:
                assert "method" in message, f"an answer that nobody asked for: {message}"
                continue
            if "error" in message:
                raise Refused(message["error"])
            return message["result"]


class Daemon:
    """A `collated run` process; `stores` is the directory it watches by default.

    `environ` is what commands need to find this daemon and nothing else of the machine's.
    """

    Error = Refused

    def __init__(self, base: Path, config: str, environ: Mapping[str, str], wrapper: Sequence[str]) -> None:
        """Lay out directories in *base*; *wrapper* is a command that executes the daemon's."""
        self.base = base
        self.config = base / "config.toml"
        self.socket = base / "run" / "s"
        self.log_file = base / "log"
        self.stores = base / "data" / "collated" / "stores"
        self.state = base / "state" / "collated"
        self.copies = base / "cache" / "collated" / "copies"
        self.stores.mkdir(parents=True)
        self.configure(config)
        self.wrapper = wrapper
        self.command: Sequence[str] = (sys.executable, "-m", "collated", "run")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        own = {f"XDG_{kind.upper()}_HOME": str(base / kind) for kind in ("config", "data", "state", "cache")}
        self.environ = {
            **inherited,
            **own,
            "HOME": str(base),
            "XDG_RUNTIME_DIR": str(base / "run"),
            "COLLATE_CONFIG": str(self.config),
            "COLLATE_SOCKET": str(self.socket),
            **environ,
        }
        self.process: subprocess.Popen[bytes] | None = None

    # ----------------------------------------------------------------- life

    @property
    def pid(self) -> int:
        """Return the process id of the daemon that runs."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """Return what the daemon said so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def configure(self, text: str) -> None:
        """Write the configuration file; a running daemon takes it with `reload`."""
        self.config.write_text(text, encoding="utf-8")

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process and return at once."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, *self.command],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if self not in _running:
            _running.append(self)
        return self.process

    def start(self) -> Daemon:
        """Start the process and wait until it answers."""
        process = self.launch()
        self.wait_for(lambda: process.poll() is not None or self._listens(), what="the daemon to listen")
        assert process.poll() is None, f"the daemon ended with {process.returncode}"
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code; safe to call again."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def restart(self) -> Daemon:
        """End it and start it again on the same directories."""
        assert self.stop() == 0
        return self.start()

    def _listens(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ask("ping") == {})
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    # ----------------------------------------------------------------- talk

    def client(self, timeout_s: float = DEADLINE_S) -> Client:
        """Return a new connection; a context manager."""
        return Client(self.socket, timeout_s)

    def raw(self, timeout_s: float = DEADLINE_S) -> socket.socket:
        """Return a new connection as a bare socket."""
        return self.client(timeout_s).socket

    def ask(self, method: str, params: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """Return the result of one request on a connection of its own.

        Raises:
            Refused: the answer is an error.
        """
        with self.client() as client:
            return client.ask(method, params, **more)

    def refusal(self, method: str, params: Mapping[str, Any] | None = None, /, **more: Any) -> Refused:
        """Return the error that a request is answered with."""
        with pytest.raises(Refused) as refused:
            self.ask(method, params, **more)
        return refused.value

    def status_of(self, name: str) -> Any:
        """Return one store of `stores`, None when there is none of that name."""
        return next((each for each in self.ask("stores")["stores"] if each["name"] == name), None)

    def found(self, query: str, **more: Any) -> list[str]:
        """Return the refs that a search finds, in order."""
        return [hit["ref"] for hit in self.ask("search", query=query, **more)["hits"]]

    def collate(self, *typed: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run `collate` without a terminal, with *given* on its standard input, and return how it went."""
        ran = subprocess.run(
            [sys.executable, "-c", "import sys; from collated.cli import main; sys.exit(main())", *typed],
            env=self.environ,
            input=given,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        said = (ran.stdout.decode(), ran.stderr.decode())
        return subprocess.CompletedProcess(ran.args, ran.returncode, *said)

    # ----------------------------------------------------------------- waiting

    def wait_for(
        self, condition: Callable[[], T], deadline_s: float = DEADLINE_S, *, what: str = "the condition"
    ) -> T:
        """Return the first true value of *condition*; fail when there is none within *deadline_s*."""
        deadline = time.monotonic() + deadline_s
        while not (value := condition()):
            assert time.monotonic() < deadline, f"waited {deadline_s} s for {what}; the last was {value!r}"
            time.sleep(0.01)
        return value

    def wait_state(self, name: str, state: str, deadline_s: float = DEADLINE_S) -> Any:
        """Return the store *name* of `stores` once it is in *state*."""

        def reached() -> Any:
            store = self.status_of(name)
            return store if store is not None and store["state"] == state else None

        return self.wait_for(reached, deadline_s, what=f"store {name} to be {state}")


StartDaemon = Callable[..., Daemon]
MakeSlowStore = Callable[[Path], Path]


def _factory() -> Iterator[StartDaemon]:
    made: list[Daemon] = []

    def start(
        config: str = "",
        *,
        environ: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        is_launched: bool = True,
    ) -> Daemon:
        # Short: a socket's path has at most 107 bytes.
        base = Path(tempfile.mkdtemp(prefix="collated-"))
        daemon = Daemon(base, config, environ or {}, wrapper)
        made.append(daemon)
        return daemon.start() if is_launched else daemon

    try:
        yield start
        for daemon in made:
            _end_well(daemon)
    finally:
        for daemon in made:
            _end(daemon)


def _end_well(daemon: Daemon) -> None:
    """Hold every daemon that a test left alive to a clean end, and every one to a log without a fault."""
    if daemon.process is not None and daemon.process.poll() is None:
        assert daemon.stop() == 0
    assert "Traceback" not in daemon.log


def _end(daemon: Daemon) -> None:
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.process.kill()
        daemon.process.wait()
    if daemon in _running:
        _running.remove(daemon)
    shutil.rmtree(daemon.base, ignore_errors=True)


@pytest.fixture
def start_daemon() -> Iterator[StartDaemon]:
    """`start_daemon(config="", environ={}, wrapper=(), is_launched=True)` starts a daemon of the test's own.

    Its `stores` directory is empty. Every daemon is ended after the test: one that is still alive must
    end cleanly, and none may have logged a traceback.
    """
    yield from _factory()


@pytest.fixture(scope="module")
def start_shared_daemon() -> Iterator[StartDaemon]:
    """As `start_daemon`, for daemons that the tests of a module share."""
    yield from _factory()


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    """A daemon of the test's own, with every setting at its default and no stores yet."""
    return start_daemon()


SLOW_QUERY = " ".join(["la"] * 200)


@pytest.fixture
def make_slow_store(make_store: Callable[..., Path]) -> MakeSlowStore:
    """`make_slow_store(path)` writes a store that keeps `slow_query` busy for many seconds.

    It is in rollback mode; `quick` finds one section at once. Its songs have no records, for which rankings
    by summed statistics, the default one of them, find it damaged within seconds.
    """

    def make(path: Path) -> Path:
        make_store(path, {"a.md": "# Quick\n\nquick\n"}, rollback=True)
        song = "la " * 1_000
        with sqlite3.connect(path) as db:
            db.executemany(
                "INSERT INTO sections_fts (id, heading_path, text) VALUES (?, 'La', ?)",
                ((f"a.md#{number}", song) for number in range(1, 6_000)),
            )
        db.close()
        return path

    return make


@pytest.fixture
def slow_query() -> str:
    """The query that takes many seconds on a store of `make_slow_store`."""
    return SLOW_QUERY


@pytest.fixture(scope="session")
def unprivileged() -> Sequence[str]:
    """A wrapper for `start_daemon` under which file permissions count, even where tests run as root."""
    if os.geteuid() != 0:
        return ()
    wrapper = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    if not _runs(*wrapper, "true"):
        pytest.skip("root may read everything, and there are no user namespaces to run the daemon in")
    return wrapper


def _runs(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the daemons said when a test fails."""
    report = yield
    if report.failed:
        report.sections += [(f"log of the daemon in {each.base}", _last_lines(each.log)) for each in _running]
    return report


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-30:])
