"""Agents: the official client and plain pipes, of the real command, in the surroundings of a daemon."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon

TIMEOUT_S = 30
COLLATE = [sys.executable, "-c", "import sys; from collated.cli import main; sys.exit(main())"]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
FILLER = " These words are here so that the section is long enough to stand for itself." * 4
DOCS = {
    "guide.md": f"# Guide\n\nWelcome.{FILLER}\n\n## Refund window\n\nThirty days.{FILLER}\n\n"
    f"## Shipping\n\nFree, by code GW-10.{FILLER}\n",
    "api/codes.md": "# Codes\n\nGW-10 and GW-20 are errors.\n",
}
CODE = {
    "shop/cart.py": 'def total(prices):\n    """Return the sum."""\n    return sum(prices)\n',
    "shop/till.py": "from shop.cart import total\n\n\ndef pay(prices):\n    return total(prices)\n",
}
HAS_ENGINE = importlib.util.find_spec("duckdb") is not None
MAKER = Path(__file__).parents[2] / "readers" / "contextful" / "maker.py"
WATCH = '[[watch]]\npath = "{projects}"\nmatch = ["*/.contextful/context/*"]\n'

Call = tuple[str, dict[str, Any]]
Agent = Callable[..., Client]
StartPipe = Callable[..., "Pipe"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio, as the SDK's own programs do."""
    return "asyncio"


@pytest.fixture(params=["legacy", "2026-07-28"])
def mode(request: pytest.FixtureRequest) -> str:
    """How the official client negotiates: by `initialize` for 2025-11-25, or as of 2026-07-28."""
    return str(request.param)


@pytest.fixture(scope="session")
def agent() -> Agent:
    """`agent(daemon, *args, mode="legacy", **more)` is the official client of a `collate mcp` of its own."""

    def connect(daemon: Daemon, *args: str, mode: str = "legacy", **more: Any) -> Client:
        command = [*COLLATE, "mcp", *args]
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(daemon.environ))
        # By version alone nothing is asked of the server; `auto` asks it, and finds the same version.
        return Client(parameters, mode="auto" if mode != "legacy" else mode, **more)

    return connect


class Pipe:
    """A `collate mcp` that is written to, and read, by the line."""

    def __init__(self, daemon: Daemon, *args: str) -> None:
        self.process = subprocess.Popen(
            [*COLLATE, "mcp", *args],
            env=daemon.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def write(self, data: bytes) -> None:
        """Send *data* as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Send a request, with an `id` in *more*, or a notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}, **more}
        self.write(json.dumps(message).encode() + b"\n")

    def line(self) -> bytes:
        """Return the next line."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], TIMEOUT_S)[0], "no line came"
        return self.process.stdout.readline()

    def answer(self, request_id: int) -> Any:
        """Return the answer to a request, passing over everything else."""
        while line := self.line():
            message = json.loads(line)
            if message.get("id") == request_id:
                return message
        raise AssertionError(f"the stream ended: {self.end()}")

    def hello(self) -> Any:
        """Begin a session of 2025-11-25 and return what it is answered."""
        self.send("initialize", HELLO, id=0)
        answer = self.answer(0)
        self.send("notifications/initialized")
        return answer["result"]

    def end(self) -> tuple[int, bytes, str]:
        """End the input; return the exit code, what else came, and what was said on standard error."""
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, err.decode()


@pytest.fixture
def pipe() -> Iterator[StartPipe]:
    """`pipe(daemon, *args)` starts a `collate mcp` with pipes; it is ended with the test."""
    started: list[Pipe] = []

    def start(daemon: Daemon, *args: str) -> Pipe:
        started.append(Pipe(daemon, *args))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


# --------------------------------------------------------------------------- surroundings


def holder(socket: Path) -> int | None:
    """Return the process that listens at *socket*, by the lock that it holds beside it."""
    lock = socket.with_name(socket.name + ".lock")
    if not lock.exists():
        return None
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read() or 0) or None
        return None


def end(pid: int, number: int = signal.SIGTERM) -> None:
    """End a process that is not the test's child, and wait until it is gone."""
    descriptor = os.pidfd_open(pid)
    try:
        os.kill(pid, number)
        assert select.select([descriptor], [], [], TIMEOUT_S)[0], f"process {pid} did not end"
    finally:
        os.close(descriptor)


class Home:
    """The surroundings of a daemon, and who was started in them."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon

    @property
    def host_socket(self) -> Path:
        """Return where the host listens."""
        from collated.mcp.bridge import host_path

        return host_path(self.daemon.socket)

    @property
    def host_pid(self) -> int | None:
        """Return the host that runs."""
        return holder(self.host_socket)

    @property
    def daemon_pid(self) -> int | None:
        """Return the daemon that runs, whoever started it."""
        return holder(self.daemon.socket)

    @property
    def host_log(self) -> str:
        """Return what the host said."""
        log = self.daemon.state / "mcp.log"
        return log.read_text(encoding="utf-8") if log.exists() else ""

    @property
    def in_flight(self) -> int:
        """Return how many requests the daemon is answering, this question left out."""
        return int(self.daemon.ask("status")["in_flight"])

    def kill(self, pid: int | None, number: int = signal.SIGKILL) -> None:
        """End a process, and wait until it is gone."""
        assert pid is not None
        end(pid, number)

    def tidy(self) -> None:
        """End whoever still runs, but for the test's own children."""
        own = self.daemon.process.pid if self.daemon.process is not None else None
        for pid in (self.host_pid, self.daemon_pid):
            if pid is not None and pid != own:
                end(pid)


@pytest.fixture
def home(start_daemon: StartDaemon, make_store: MakeStore) -> Iterator[Home]:
    """Surroundings with the store `docs`, in which nothing runs yet; what a test starts in them is ended."""
    home = Home(start_daemon(is_launched=False))
    make_store(home.daemon.stores / "docs.sqlite", DOCS)
    yield home
    home.tidy()


@pytest.fixture
def slow(home: Home, make_slow_store: MakeSlowStore) -> Home:
    """Surroundings with a running daemon, the store `docs`, and `slow`, which `slow_query` keeps busy."""
    make_slow_store(home.daemon.stores / "slow.sqlite")
    home.daemon.start()
    home.daemon.wait_state("slow", "open")
    home.daemon.wait_state("docs", "open")
    return home


def remember(project: Path) -> None:
    """Make a context store with one claim."""
    spec = importlib.util.spec_from_file_location("context_maker", MAKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    store = module.StoreMaker(project, project.name)
    columns = {"subject": "utf8", "valid_from": "timestamp", "valid_to": "timestamp", "evidence": "utf8"}
    claim = {"subject": "acme", "valid_from": "2020-01-01T00:00:00Z", "valid_to": None, "evidence": "[]"}
    store.table("facts", columns).run("r1", [claim])
    store.close()


@pytest.fixture(scope="module")
def every_kind(
    start_shared_daemon: StartDaemon, make_store: MakeStore, make_code_store: MakeStore, shared: Path
) -> Iterator[Home]:
    """A daemon with the stores `docs`, `shop` (code) and, with the engine, `research` and `memory` (context).

    Nobody changes them.
    """
    home = Home(start_shared_daemon(is_launched=False))
    daemon = home.daemon
    make_store(daemon.stores / "docs.sqlite", DOCS)
    make_code_store(daemon.stores / "shop.sqlite", CODE)
    projects = daemon.base / "projects"
    projects.mkdir()
    daemon.configure(f'[[watch]]\npath = "{daemon.stores}"\n' + WATCH.format(projects=projects))
    if HAS_ENGINE:
        shutil.copytree(shared / "data" / "contextful" / "worked-example", projects / "research")
        remember(projects / "memory")
    daemon.start()
    for name in ("docs", "shop", *(("research", "memory") if HAS_ENGINE else ())):
        daemon.wait_state(name, "open")
    yield home
    home.tidy()


@pytest.fixture(scope="session")
def calls() -> list[Call]:
    """A call of every tool, which finds something in the stores of `every_kind`."""
    return [
        ("index", {}),
        ("index", {"stores": ["docs"]}),
        ("index", {"stores": ["docs"], "prefix": "api/"}),
        ("stores", {}),
        ("search", {"query": "refund window", "limit": 3}),
        ("search", {"query": "refund", "in": ["guide.md"], "stores": ["docs"]}),
        ("grep", {"pattern": "GW-10"}),
        ("read", {"id": "docs:guide.md#1", "context": 1}),
        ("read", {"id": "guide.md#1"}),
        ("neighbours", {"id": "docs:guide.md#1", "before": 1, "after": 1}),
        ("symbols", {"name": "total"}),
        ("references", {"name": "total"}),
        ("impact", {"target": "shop/cart.py", "direction": "up"}),
        ("chunk", {"path": "shop/cart.py", "line": 1}),
        ("architecture", {"store": "shop"}),
        *(CONTEXT_CALLS if HAS_ENGINE else []),
    ]


CONTEXT_CALLS: list[Call] = [
    ("tables", {"store": "research"}),
    ("query", {"store": "research", "sql": "SELECT title FROM notes ORDER BY title LIMIT 2"}),
    ("retrieve", {"store": "research", "query": "battery storage"}),
    ("recall", {"store": "memory", "table": "facts", "subject": "acme"}),
    ("reference", {"store": "memory", "table": "facts", "run_id": "r1", "row_seq": 0}),
]
