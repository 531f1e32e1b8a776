"""One agent's session over a stream of bytes: a message a line, as MCP has it over stdio. Imports the SDK."""

import asyncio
import select
from contextlib import suppress
from types import TracebackType
from typing import Self, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from .bridge import FAREWELL
from .contents import BUDGET_TOKENS
from .link import Link
from .scope import Scope
from .session import Context, make_server
from .telling import tell_changes

__all__ = ["LINE_BYTES", "serve"]

LINE_BYTES = 16_777_216
"""How long a message may be."""

_LISTEN = "subscriptions/listen"  # which is answered when the session ends, and not before
_LOOK_S = 0.05


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    link: Link,
    budget_tokens: int = BUDGET_TOKENS,
) -> None:
    """Serve the agent at the other end until it is gone, or has ended its input and has every answer.

    The instructions take *budget_tokens* at most.

    Only in the latter case it is said farewell.
    """
    bus = InMemorySubscriptionBus()
    told = _Told(bus)
    server = make_server(link, listen=ListenHandler(bus), budget_tokens=budget_tokens)
    server.add_notification_handler("notifications/initialized", types.NotificationParams, told.begin)
    options = server.create_initialization_options(
        NotificationOptions(resources_changed=True, tools_changed=True)
    )
    async with anyio.create_task_group() as session:
        wire = _Wire(reader, writer, session.cancel_scope)
        session.start_soon(tell_changes, link, link.known, Scope(), told.tell)
        await server.run(wire, wire, options)
        if wire.is_answered:
            writer.write(FAREWELL)
        session.cancel_scope.cancel()


class _Wire:
    """The lines of both directions, which the SDK takes for its two streams, and what has no answer yet.

    With streams of memory and tasks in between, each call would wait for three more turns of the loop, which
    take a tenth of it. `is_answered` is true once the agent has ended its input and no request is left.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: anyio.CancelScope
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._session = session
        self.is_answered = False
        self._unanswered: set[types.RequestId] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: whoever made the streams closes them, in both directions at once."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        """Return what the agent says next, its end once it was answered: the SDK answers nothing after."""
        while line := await self._line():
            if message := await self._understood(line):
                return SessionMessage(message)
        while self._unanswered and not self._is_gone():  # noqa: ASYNC110 - the end of a session
            await anyio.sleep(_LOOK_S)
        self.is_answered = self._reader.at_eof() and not self._unanswered
        raise StopAsyncIteration

    async def receive(self) -> SessionMessage:
        """Return what the agent says next.

        Raises:
            anyio.EndOfStream: it says nothing more.
        """
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def send(self, leaving: SessionMessage, /) -> None:
        """Tell the agent something, as fast as it reads; end the session when there is nobody to read it."""
        message = leaving.message
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self._writer.write(text.encode() + b"\n")
            await self._writer.drain()
        except OSError as error:
            self._session.cancel()
            raise anyio.BrokenResourceError from error
        finally:  # whoever is cancelled while it drains has written it all the same
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                self._unanswered.discard(cast("types.RequestId", message.id))

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ValueError:  # longer than LINE_BYTES
            await self._refuse(types.INVALID_REQUEST, f"a message has at most {LINE_BYTES} bytes")
        except OSError:
            pass  # the agent is gone
        return b""

    async def _understood(self, line: bytes) -> types.JSONRPCMessage | None:
        if line.isspace():
            return None
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            is_json = error.errors()[0]["type"] != "json_invalid"
            await self._refuse(
                types.INVALID_REQUEST if is_json else types.PARSE_ERROR,
                "not a JSON-RPC 2.0 message" if is_json else "not JSON",
            )
            return None
        if isinstance(message, types.JSONRPCRequest) and message.method != _LISTEN:
            self._unanswered.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._unanswered.discard((message.params or {}).get("requestId", ""))
        return message

    async def _refuse(self, code: int, words: str) -> None:
        error = types.JSONRPCError(jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=words))
        with suppress(anyio.BrokenResourceError):  # there is nobody to be told
            await self.send(SessionMessage(error))

    def _is_gone(self) -> bool:
        """Tell whether the other end is closed for good, and not for writing alone."""
        if self._writer.is_closing():
            return True
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket").fileno(), 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


class _Told:
    """Who is told of changes: who listens, and an agent that was promised to be told without."""

    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self._bus = bus
        self._session: ServerSession | None = None

    async def begin(self, context: Context, _: types.NotificationParams) -> None:
        """Tell changes to an agent that has no subscriptions: 2025-11-25 and before."""
        self._session = context.session

    async def tell(self, event: ServerEvent) -> None:
        """Tell a change."""
        await self._bus.publish(event)
        if self._session is None:
            return
        if isinstance(event, ToolsListChanged):
            await self._session.send_tool_list_changed()
        elif isinstance(event, ResourcesListChanged):
            await self._session.send_resource_list_changed()
