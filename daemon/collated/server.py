"""The listener: who may connect, and how the daemon stops (DESIGN §6, §8)."""

import socket
import time

import anyio
import anyio.abc
import structlog

from .accepting import accept
from .claim import is_same_user
from .methods import Methods
from .session import Session

__all__ = ["Server"]

log = structlog.get_logger()

# A client that is turned away gets this long to send the request that is answered `overloaded`.
_TURN_AWAY_S = 1.0
_DRAIN_POLL_S = 0.02
# A client that has just connected gets this long to ask, before the daemon ends without a word to it.
_LAST_WORDS_S = 0.05


class Server:
    """Accepts clients until it is told to stop."""

    def __init__(self, methods: Methods) -> None:
        """Serve *methods*."""
        self._methods = methods
        self._is_draining = False
        self._accepting: list[anyio.CancelScope] = []

    async def run(self, listener: socket.socket) -> None:
        """Accept clients on *listener* until `drain`, and serve them until cancelled."""
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            with listener, anyio.CancelScope() as scope:
                self._accepting.append(scope)
                await self._accept(listener, tasks)

    async def drain(self, limit_s: float) -> int:
        """Admit nothing new, and return how many requests are unanswered after *limit_s* at most.

        Who connects from now on waits for the next daemon where a service manager holds the socket, and is
        refused where nobody does. Who is connected is told `draining`, those too who have not asked yet.
        """
        self._is_draining = True
        for scope in self._accepting:
            scope.cancel()
        gauges = self._methods.gauges
        await anyio.sleep(_LAST_WORDS_S)
        with anyio.move_on_after(limit_s):
            while gauges.in_flight:  # noqa: ASYNC110 - a few seconds at most, once in a life
                await anyio.sleep(_DRAIN_POLL_S)
        return gauges.in_flight

    async def _accept(self, listener: socket.socket, tasks: anyio.abc.TaskGroup) -> None:
        def tell(error: OSError) -> None:
            log.warning("accept_failed", error=str(error))

        while True:
            tasks.start_soon(self._serve, await accept(listener, tell))

    async def _serve(self, client: socket.socket) -> None:
        with client:
            if not is_same_user(client):
                log.warning("client_refused", reason="another user")
                return
            gauges = self._methods.gauges
            is_full = gauges.connections >= self._methods.settings.server.max_connections
            session = Session(self._methods, is_draining=lambda: self._is_draining, is_turned_away=is_full)
            if is_full:
                with anyio.move_on_after(_TURN_AWAY_S):
                    await session.run(client)
                return
            gauges.connections += 1
            try:
                await session.run(client)
            finally:
                gauges.connections -= 1
                gauges.last_used = time.monotonic()
