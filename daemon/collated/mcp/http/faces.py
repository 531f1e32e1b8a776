"""What a caller sees: a server of the SDK for each distinct scope, made when it is first asked for."""

from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette import types

from collated.mcp.scope import Scope

from .exchange import BODY_LIMIT_BYTES

__all__ = ["Faces"]


class Faces:
    """The servers by scope. There are as many as the credentials have had distinct lists of stores."""

    def __init__(self, make: Callable[[Scope], Server[Any]], tasks: TaskGroup) -> None:
        """*make* a server of each scope, and keep it in *tasks*."""
        self._make = make
        self._tasks = tasks
        self._making = anyio.Lock()
        self._managers: dict[Scope, StreamableHTTPSessionManager] = {}

    async def answer(
        self, caller: Scope, scope: types.Scope, receive: types.Receive, send: types.Send
    ) -> None:
        """Have the server of *caller* answer a request, as ASGI has it."""
        async with self._making:
            if caller not in self._managers:
                self._managers[caller] = await self._tasks.start(self._keep, caller)
        await self._managers[caller].handle_request(scope, receive, send)

    async def _keep(self, caller: Scope, *, task_status: TaskStatus[StreamableHTTPSessionManager]) -> None:
        # Host and Origin are checked before a caller is admitted, for which no server is needed.
        manager = StreamableHTTPSessionManager(
            self._make(caller), json_response=True, stateless=True, max_request_body_size=BODY_LIMIT_BYTES
        )
        async with manager.run():
            task_status.started(manager)
            await anyio.sleep_forever()
