"""What a caller sees: a server of the SDK for each distinct scope, made when it is first asked for.

An answer is one document of JSON, but for two: the SDK answers who listens by a stream of events, and who
asks for progress is answered by its other way of serving, which makes one too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette import types
from starlette.datastructures import Headers

from collated.mcp.scope import Scope

from .exchange import BODY_LIMIT_BYTES
from .wishes import is_progress_wanted

__all__ = ["Faces"]


class _Face(NamedTuple):
    """A server's two ways of answering."""

    plain: StreamableHTTPSessionManager
    streaming: StreamableHTTPSessionManager


class Faces:
    """The servers by scope. There are as many as the credentials have had distinct lists of stores."""

    def __init__(self, make: Callable[[Scope], Server[Any]], tasks: TaskGroup) -> None:
        """*make* a server of each scope, and keep it in *tasks*."""
        self._make = make
        self._tasks = tasks
        self._making = anyio.Lock()
        self._made: dict[Scope, _Face] = {}

    async def answer(
        self, caller: Scope, scope: types.Scope, receive: types.Receive, send: types.Send
    ) -> None:
        """Have the server of *caller* answer a request, as ASGI has it."""
        if caller not in self._made:  # a lock gives way to other tasks even where nobody holds it
            async with self._making:
                if caller not in self._made:
                    self._made[caller] = await self._tasks.start(self._keep, caller)
        face = self._made[caller]
        is_streamed = is_progress_wanted(scope["state"]["body"], Headers(scope=scope).get("accept", ""))
        manager = face.streaming if is_streamed else face.plain
        await manager.handle_request(scope, receive, send)

    async def _keep(self, caller: Scope, *, task_status: TaskStatus[_Face]) -> None:
        server = self._make(caller)
        face = _Face(_manager(server, is_json=True), _manager(server, is_json=False))
        async with face.plain.run(), face.streaming.run():
            task_status.started(face)
            await anyio.sleep_forever()


def _manager(server: Server[Any], *, is_json: bool) -> StreamableHTTPSessionManager:
    # Host and Origin are checked before a caller is admitted, for which no server is needed.
    return StreamableHTTPSessionManager(
        server, json_response=is_json, stateless=True, max_request_body_size=BODY_LIMIT_BYTES
    )
