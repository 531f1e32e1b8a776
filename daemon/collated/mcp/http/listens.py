"""The streams of those who listen for changes, each the answer to a request of its own. Imports the SDK."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from collated.errors import CollatedError
from collated.mcp.link import Link
from collated.mcp.scope import Scope
from collated.mcp.session import Context, Listen
from collated.mcp.telling import tell_changes

from .door import Door

__all__ = ["Listens"]

_REACH_S = 5.0
_AGAIN_S = 5.0


class Listens:
    """At most so many streams at once, which end when the server stops."""

    def __init__(self, link: Link, most: int) -> None:
        """Tell, on *most* streams at once, what changes of the stores behind *link*."""
        self._link = link
        self._door = Door(most)
        self._closing = anyio.Event()

    def of(self, scope: Scope) -> Listen:
        """Return what answers `subscriptions/listen` to who sees what *scope* allows."""
        return partial(self._listen, scope)

    def close(self) -> None:
        """End every stream as the protocol has it, and begin no other."""
        self._door.close()
        self._closing.set()

    async def _listen(
        self, scope: Scope, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        # What there is before the stream begins is no change that would have to be told on it.
        with suppress(CollatedError), anyio.move_on_after(_REACH_S):
            await self._link.stores()
        visit = self._door.enter()
        if visit is None:
            raise MCPError(
                types.INTERNAL_ERROR,
                "as many streams of changes are open as may be, or the server is stopping; "
                "ask for the lists again instead",
            )
        with visit:
            # A stream may be open for days: it has a bound of its own, and locks nobody out.
            if context.request is not None:  # over HTTP it never is
                context.request.state.visit.leave()
            bus = InMemorySubscriptionBus()
            handler = ListenHandler(bus)
            async with self._followed(scope, bus, handler):
                return await handler(context, params)

    @asynccontextmanager
    async def _followed(
        self, scope: Scope, bus: InMemorySubscriptionBus, handler: ListenHandler
    ) -> AsyncGenerator[None]:
        """Publish changes on *bus*, and end the stream of *handler* when the server stops, in the block."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell_changes, self._link, self._link.known, scope, bus.publish)
            tasks.start_soon(self._stay_connected)
            tasks.start_soon(self._end, handler)
            yield
            tasks.cancel_scope.cancel()

    async def _stay_connected(self) -> None:
        """Reach the next daemon where one went away: who only listens asks for nothing that would."""
        while True:
            await anyio.sleep(_AGAIN_S)
            with suppress(CollatedError):
                await self._link.stores(may_start=False)

    async def _end(self, handler: ListenHandler) -> None:
        await self._closing.wait()
        handler.close()
