"""The host: one process for all agents of a daemon, which has the SDK loaded and a session for each.

Agents reach it through `bridge`, which starts it. It ends some time after its last session.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup

from collated import spawn
from collated.accepting import accept
from collated.claim import Claim, is_same_user
from collated.errors import CollatedError
from collated.service import raise_descriptor_limit

from .bridge import GREETING, Wish, host_path
from .link import Link

gc.disable()  # what is imported stays: looking for cycles in it is a tenth of the start
from .serving import LINE_BYTES, serve  # noqa: E402 - the SDK, for what the line above is

gc.enable()
gc.freeze()

__all__ = ["Host", "main"]

log = logging.getLogger(__name__)

_LOOK_S = 1.0
_LEAST_LOOK_S = 0.01


class Host:
    """Serves whoever connects, each in a session that cannot harm another."""

    def __init__(self, daemon: Path, idle_exit_s: float) -> None:
        """Ask the daemon at the socket *daemon*; end *idle_exit_s* after the last session."""
        self._daemon = daemon
        self._idle_exit_s = idle_exit_s
        self._sessions = 0
        self._last_used = time.monotonic()

    async def run(self, claim: Claim, listener: socket.socket, release: Callable[[], None]) -> None:
        """Serve whoever connects to *listener*, until it is idle or not found at its path, or a signal.

        *release* gives up listener and *claim*: another host may take the place while sessions go on here.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_end_on_signal, tasks.cancel_scope)
            async with anyio.create_task_group() as sessions:
                with anyio.CancelScope() as accepting:
                    sessions.start_soon(self._leave, claim, accepting)
                    await self._accept(listener, sessions)
                # Who has connected and was not greeted goes to the next one.
                await to_thread.run_sync(release)
            tasks.cancel_scope.cancel()

    async def _leave(self, claim: Claim, accepting: anyio.CancelScope) -> None:
        pause_s = max(min(self._idle_exit_s, _LOOK_S), _LEAST_LOOK_S)
        # Nobody tells that a path changed.
        while not self._is_idle() and await to_thread.run_sync(lambda: claim.is_in_place):  # noqa: ASYNC110
            await anyio.sleep(pause_s)
        accepting.cancel()

    def _is_idle(self) -> bool:
        return not self._sessions and time.monotonic() - self._last_used >= self._idle_exit_s

    async def _accept(self, listener: socket.socket, tasks: TaskGroup) -> None:
        listener.setblocking(False)
        while True:
            tasks.start_soon(self._serve, await accept(listener, partial(log.warning, "cannot accept: %s")))

    async def _serve(self, client: socket.socket) -> None:
        if not is_same_user(client):
            client.close()
            log.warning("refused a client of another user")
            return
        self._sessions += 1
        try:
            await self._session(client)
        except Exception:  # whatever it is, it ends this session alone
            log.exception("a session failed")
        finally:
            self._sessions -= 1
            self._last_used = time.monotonic()

    async def _session(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=LINE_BYTES)
        try:
            line = await reader.readline()
            if not line:
                return  # it only looked whether somebody listens
            writer.write(GREETING)
            wish = Wish.of(line)
            start = partial(spawn.start, self._daemon, os.environ) if wish.may_spawn else None
            async with Link(self._daemon, start) as link:
                await serve(reader, writer, link, wish.budget_tokens)
        finally:
            writer.close()


async def _end_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the host of the daemon whose socket *argv* names."""
    parser = argparse.ArgumentParser("collated.mcp.host", description=__doc__)
    parser.add_argument("socket", help="the daemon's socket")
    parser.add_argument(
        "--idle-exit", type=float, default=60.0, metavar="S", help="seconds without a session"
    )
    given = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s: %(message)s")
    raise_descriptor_limit()
    daemon = Path(given.socket)
    try:
        with ExitStack() as held:
            claim = held.enter_context(Claim(host_path(daemon)))
            listener = held.enter_context(claim.listen())
            host = Host(daemon, given.idle_exit)
            options = {"use_uvloop": find_spec("uvloop") is not None}
            anyio.run(host.run, claim, listener, held.close, backend_options=options)
    except CollatedError as error:
        failure = {"event": "not_serving", "code": error.code, "message": str(error)}
        sys.stderr.write(msgspec.json.encode(failure).decode() + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
