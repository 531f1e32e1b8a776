"""Agents' sessions: the official client of `collate mcp` and of the reference's server."""

import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent
from msgspec import Struct

from collated.mcp.bridge import host_path

from .asking import Asker
from .bench import Bench
from .building import watch_build
from .daemons import Daemon
from .processes import Memory, descendants, memory_of
from .timing import IN_A_ROW, LONG_ENOUGH_S, median_s

__all__ = [
    "Bridged",
    "Held",
    "calls_in_a_row",
    "checks_in_a_row",
    "first_call",
    "hold",
    "reference_server",
    "told",
]

# As the console scripts do it, which need not be on the PATH here.
_COLLATE = "from collated.cli import main; import sys; sys.argv[0] = 'collate'; sys.exit(main())"
_CONTEXTPULL = "from contextpull.cli import main; import sys; sys.argv[0] = 'contextpull'; sys.exit(main())"
_END_S = 30.0


def reference_server(store: Path) -> StdioServerParameters:
    """Return how an agent starts the reference's server of one store."""
    return _server(_CONTEXTPULL, "serve", str(store), environ=os.environ)


class Bridged:
    """A daemon over the fewest stores for bridges to ask, all ready; the bridges start what does not run.

    Use it in a `with` statement: whoever runs at its end is ended by process id.
    """

    def __init__(self, bench: Bench, **settings: object) -> None:
        """Prepare a daemon with *settings*; it runs inside the `with` statement."""
        self.daemon = Daemon(bench.ours(bench.few), **settings)
        self._count = bench.few
        config = self.daemon.socket.with_name("config.toml")  # which a daemon that a bridge starts must find
        self._environ = {**self.daemon.environ, "COLLATE_CONFIG": str(config)}

    def __enter__(self) -> Self:
        """Start the daemon, and return itself once all stores answer from arrays."""
        try:
            started = time.perf_counter()
            with closing(Asker(self.daemon.start())) as asker:
                watch_build(self.daemon, asker.wire, self._count, started)
        except BaseException:
            self.daemon.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the host and the daemon, whoever started it, and remove its directories."""
        try:
            self.end_host()
            self.end_daemon()
        finally:
            self.daemon.close()

    @property
    def server(self) -> StdioServerParameters:
        """Return how an agent starts a bridge."""
        return _server(_COLLATE, "mcp", environ=self._environ)

    @property
    def host_pid(self) -> int | None:
        """Return the host that runs."""
        return _holder(host_path(self.daemon.socket))

    @property
    def memory(self) -> Memory:
        """Return what the daemon and its workers take; it has to be the one that was started here."""
        pid = self.daemon.pid
        return sum(map(memory_of, descendants(pid)), memory_of(pid))

    def end_host(self) -> None:
        """End the host, where one runs."""
        _end(self.host_pid)

    def end_daemon(self) -> None:
        """End the daemon, where one runs, whoever started it."""
        self.daemon.stop()
        _end(_holder(self.daemon.socket))


class Held(Struct, frozen=True):
    """What sessions held at once cost: the processes that the client started, the host, the daemon."""

    servers: Memory
    host: Memory
    daemon: Memory


async def first_call(server: StdioServerParameters, arguments: dict[str, Any]) -> tuple[float, Any]:
    """Return the seconds from starting a server to its first answered search, and what was answered."""
    started = time.perf_counter()
    async with Client(server) as client:
        result = await client.call_tool("search", arguments)
        return time.perf_counter() - started, told(result)


async def calls_in_a_row(client: Client, tool: str, arguments: dict[str, Any]) -> float:
    """Return the median seconds of a few calls in one turn, as `timing.in_a_row` does."""
    return await _in_a_row(lambda: client.call_tool(tool, arguments))


async def checks_in_a_row(client: Client, tool: str, arguments: dict[str, Any]) -> float:
    """Return the median seconds that the client takes to hold an answer against its tool's schema."""
    result = await client.call_tool(tool, arguments)
    return await _in_a_row(lambda: client.session.validate_tool_result(tool, result))


async def _in_a_row(function: Callable[[], Awaitable[object]]) -> float:
    every: list[float] = []
    while len(every) < IN_A_ROW and sum(every) < LONG_ENOUGH_S:
        started = time.perf_counter()
        await function()
        every.append(time.perf_counter() - started)
    return median_s(every)


async def hold(
    count: int, server: StdioServerParameters, arguments: dict[str, Any], bridged: Bridged
) -> Held:
    """Hold *count* sessions that have searched once each, and return what they cost then.

    Raises:
        RuntimeError: the client did not start one process for each.
    """
    before = set(descendants(os.getpid()))
    async with AsyncExitStack() as stack:
        for _ in range(count):
            client = await stack.enter_async_context(Client(server))
            told(await client.call_tool("search", arguments))
        started = set(descendants(os.getpid())) - before
        if len(started) != count:
            raise RuntimeError(f"{count} sessions started {len(started)} processes")
        servers = sum(map(memory_of, started), Memory())
        return Held(servers, memory_of(bridged.host_pid or 0), bridged.memory)


def told(result: CallToolResult) -> Any:
    """Return what a tool answered: its structured content, or the JSON of the reference's text.

    Raises:
        RuntimeError: it is an error.
    """
    text = "".join(each.text for each in result.content if isinstance(each, TextContent))
    if result.is_error:
        raise RuntimeError(f"a tool answered {text:.300}")
    return result.structured_content or json.loads(text)


def _server(code: str, *arguments: str, environ: Mapping[str, str]) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-c", code, *arguments], env=dict(environ))


def _holder(socket: Path) -> int | None:
    """Return the process that listens at *socket*, by the lock that it holds beside it."""
    try:
        file = socket.with_name(socket.name + ".lock").open("rb")
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read())
        return None


def _end(pid: int | None) -> None:
    """End a process that need not be a child of this one, and wait until it is gone."""
    if pid is None:
        return
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], _END_S)[0]:
            raise TimeoutError(f"process {pid} did not end within {_END_S:g} s")
    finally:
        os.close(descriptor)
