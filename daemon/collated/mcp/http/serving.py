"""Accepts connections within the ceiling, and stops without leaving one unanswered if it can."""

from collections.abc import AsyncIterator, Callable

import anyio
import structlog
from anyio.abc import SocketListener, SocketStream, TaskGroup
from msgspec import Struct
from starlette.types import ASGIApp

from .door import Door, Visit
from .exchange import ClientGone, Patience, exchange, refusal, send_all

__all__ = ["Limits", "Service"]

log = structlog.get_logger()

_BUSY = refusal(503, ("retry-after", "1"))
_ACCEPT_AGAIN_S = 0.1
# A client may still be sending when it has its answer; closing then would reset the connection and with it
# the answer. It gets this long to close its own end.
_LINGER_S = 1.0


class Limits(Struct, frozen=True):
    """How many connections are served at once, how long one may take, how long stopping may."""

    in_flight: int
    drain_s: float = 18.0  # a stop takes twenty at most, with the last answers' being taken in
    patience: Patience = Patience()


class Service:
    """An ASGI application behind a door: who is not let in is told so before the request is parsed."""

    def __init__(self, app: ASGIApp, limits: Limits, at_stop: Callable[[], None] = lambda: None) -> None:
        """Serve *app* within *limits*; *at_stop* ends what would be answered for ever.

        The application finds its `Visit` in its scope's state, and may leave before it has answered: a
        connection that has left is not waited for.
        """
        self._app = app
        self._limits = limits
        self._at_stop = at_stop
        self._door = Door(limits.in_flight)

    async def run(self, listener: SocketListener, stops: AsyncIterator[object]) -> int:
        """Serve until *stops* gives something, then let nobody in and answer those who are; close *listener*.

        It waits `drain_s` for them, or until *stops* gives something again, and returns how many
        connections it closed unanswered.
        """
        unanswered = 0
        async with anyio.create_task_group() as connections:
            async with listener, anyio.create_task_group() as accepting:
                accepting.start_soon(self._accept, listener, connections)
                await anext(stops)
                self._door.close()
                self._at_stop()
                await self._drained(stops)
                accepting.cancel_scope.cancel()
            unanswered = self._door.held
            patience_s = 0 if unanswered else _LINGER_S
            connections.cancel_scope.deadline = anyio.current_time() + patience_s
        return unanswered

    async def _accept(self, listener: SocketListener, connections: TaskGroup) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                # Out of descriptors, say: those who are connected go on, and who waits is not lost.
                log.warning("accept_failed", error=str(error))
                await anyio.sleep(_ACCEPT_AGAIN_S)
                continue
            connections.start_soon(self._serve, stream, self._door.enter())

    async def _serve(self, stream: SocketStream, visit: Visit | None) -> None:
        async with stream:
            try:
                await (self._exchange(stream, visit) if visit else self._turn_away(stream))
            except ClientGone:
                return
            except Exception:  # the boundary of a connection: the others go on
                log.exception("connection_failed")
                return
            await stream.send_eof()
            with anyio.move_on_after(_LINGER_S):
                await _ended(stream)

    async def _exchange(self, stream: SocketStream, visit: Visit) -> None:
        with visit:
            await exchange(stream, self._app, self._limits.patience, {"visit": visit})

    async def _turn_away(self, stream: SocketStream) -> None:
        await send_all(stream, _BUSY, self._limits.patience.stall_s)

    async def _drained(self, stops: AsyncIterator[object]) -> None:
        with anyio.move_on_after(self._limits.drain_s):
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(_cancel_at_next, stops, waiting.cancel_scope)
                await self._door.emptied()
                waiting.cancel_scope.cancel()


async def _cancel_at_next(stops: AsyncIterator[object], scope: anyio.CancelScope) -> None:
    await anext(stops)
    scope.cancel()


async def _ended(stream: SocketStream) -> None:
    """Wait until the client closed its end; what it still sends is for nobody."""
    try:
        while True:
            await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return
