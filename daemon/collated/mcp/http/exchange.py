"""One HTTP/1.1 exchange on a connection: a request, its answer by an ASGI application, the end.

A connection is not kept for a second request. A body is read whole before it is looked at, and not past
its limit; when a client goes away while it waits, its answer is cancelled.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import anyio
import anyio.lowlevel
import h11
import structlog
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope

__all__ = ["BODY_LIMIT_BYTES", "ClientGone", "Patience", "exchange", "refusal", "send_all"]

log = structlog.get_logger()

BODY_LIMIT_BYTES = 1_048_576
_HEAD_LIMIT_BYTES = 16_384
_CHUNK_BYTES = 65_536


class Patience(Struct, frozen=True):
    """How long a client may take: for its whole request, and to take in each piece of the answer."""

    request_s: float = 10.0
    stall_s: float = 30.0


class ClientGone(Exception):
    """The client closed its connection, or takes nothing in."""


class _Rejected(Exception):
    """A request that no application sees."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def refusal(status: int, *headers: tuple[str, str]) -> bytes:
    """Return the answer to a connection whose request no application sees: a line of text and *headers*."""
    phrase = HTTPStatus(status).phrase
    fields = (
        *headers,
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", str(len(phrase) + 1)),
        ("connection", "close"),
    )
    lines = (
        f"HTTP/1.1 {status} {phrase}",
        *(f"{name}: {value}" for name, value in fields),
        "",
        f"{phrase}\n",
    )
    return "\r\n".join(lines).encode("ascii")


async def send_all(stream: SocketStream, data: bytes, stall_s: float) -> None:
    """Send *data*.

    Raises:
        ClientGone: the client closed the connection, or took nothing in for *stall_s* seconds.
    """
    try:
        for start in range(0, len(data), _CHUNK_BYTES):
            with anyio.fail_after(stall_s):
                await stream.send(data[start : start + _CHUNK_BYTES])
    except (anyio.BrokenResourceError, TimeoutError) as error:
        raise ClientGone from error


async def exchange(stream: SocketStream, app: ASGIApp, patience: Patience, state: Mapping[str, Any]) -> None:
    """Read a request from *stream* and have *app* answer it, which finds *state* and the body in its scope.

    Raises:
        ClientGone: the client went away before its request was whole.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_LIMIT_BYTES)
    address = _local_address(stream)
    try:
        with anyio.fail_after(patience.request_s):
            request, body = await _request(stream, connection)
    except (_Rejected, h11.RemoteProtocolError, TimeoutError) as error:
        await send_all(stream, refusal(_status_of(error)), patience.stall_s)
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, stream, tasks.cancel_scope)
        answer = _Answer(stream, connection, patience.stall_s, tasks.cancel_scope)
        answer.is_bodiless = request.method == b"HEAD"
        scope = {**_scope(request, address), "state": {**state, "body": body}}
        await _run(app, scope, _receiver(body), answer)
        tasks.cancel_scope.cancel()


def _status_of(error: Exception) -> int:
    if isinstance(error, _Rejected):
        return error.status
    return error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 408


async def _request(stream: SocketStream, connection: h11.Connection) -> tuple[h11.Request, bytes]:
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            await _feed(connection, stream)
        elif isinstance(event, h11.Request):
            request = event
            _check_length(_declared_bytes(event.headers))
        elif isinstance(event, h11.Data):
            body += event.data
            _check_length(len(body))
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, bytes(body)
        else:
            raise ClientGone


async def _feed(connection: h11.Connection, stream: SocketStream) -> None:
    try:
        if connection.they_are_waiting_for_100_continue:
            await stream.send(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        connection.receive_data(await stream.receive(_CHUNK_BYTES))
    except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
        raise ClientGone from error


def _check_length(length: int) -> None:
    if length > BODY_LIMIT_BYTES:
        raise _Rejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _declared_bytes(headers: Sequence[tuple[bytes, bytes]]) -> int:
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


async def _cancel_when_gone(stream: SocketStream, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await stream.receive()  # whatever comes after the request is for nobody
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        scope.cancel()


def _local_address(stream: SocketStream) -> object:
    try:
        return stream.extra(SocketAttribute.local_address)  # noqa: S610 - no Django
    except OSError as error:  # it was closed before it was looked at
        raise ClientGone from error


def _scope(request: h11.Request, address: object) -> Scope:
    path, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.http_version.decode("ascii"),
        "method": request.method.decode("ascii"),
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
        "server": address,
    }


def _receiver(body: bytes) -> Receive:
    """Return an application's `receive`: the body, then nothing; a client's end cancels it instead."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await anyio.sleep_forever()
        return messages.pop()

    return receive


async def _run(app: ASGIApp, scope: Scope, receive: Receive, answer: "_Answer") -> None:
    try:
        await app(scope, receive, answer)
    except Exception:  # a request's own boundary: the others go on
        log.exception("request_failed", path=scope["path"])
        await answer.fail()


class _Answer:
    """An application's `send`: writes the answer's head and body to the connection."""

    def __init__(
        self, stream: SocketStream, connection: h11.Connection, stall_s: float, scope: anyio.CancelScope
    ) -> None:
        self._stream = stream
        self._connection = connection
        self._stall_s = stall_s
        self._scope = scope
        self._head: h11.Response | None = None  # until there is something of the body, it may be another
        self._sending = anyio.Lock(fast_acquire=True)  # a stream's events and pings come from two tasks
        self.is_bodiless = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [each for each in message["headers"] if each[0].lower() != b"connection"]
            headers = [*kept, (b"connection", b"close")]
            self._head = h11.Response(status_code=message["status"], headers=headers)
            return
        head, self._head = self._head, None
        data = self._encoded(head) if head is not None else b""
        body = message.get("body", b"")
        if body and not self.is_bodiless:
            data += self._encoded(h11.Data(data=body))
        if not message.get("more_body", False):
            data += self._encoded(h11.EndOfMessage())
        await self._send(data)

    async def fail(self) -> None:
        """Say that the server is at fault, unless the answer's head is out already."""
        if self._connection.our_state is h11.SEND_RESPONSE:
            await self._send(refusal(HTTPStatus.INTERNAL_SERVER_ERROR))

    def _encoded(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> bytes:
        return self._connection.send(event) or b""

    async def _send(self, data: bytes) -> None:
        try:
            async with self._sending:
                await send_all(self._stream, data, self._stall_s)
        except ClientGone:
            self._scope.cancel()
            await anyio.lowlevel.checkpoint()
