"""Routes and admits: what is answered before the SDK sees a request."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any

import anyio
import anyio.lowlevel
from anyio import to_thread
from msgspec import json
from starlette import types
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from collated import __version__
from collated.errors import CODES
from collated.mcp.scope import Scope
from collated_readers.contextful.wire import BACKENDS

from .calls import Calls
from .credentials import Credential, NotAdmitted, admit, bearer
from .hosts import is_host_allowed, is_origin_allowed
from .keyring import Keyring
from .wishes import called, cancelled

__all__ = ["App"]

Answer = Callable[[Scope, types.Scope, types.Receive, types.Send], Awaitable[None]]

_HYDRATED_S = 2.0
_CANCELLED = {"jsonrpc": "2.0", "error": {"code": CODES["cancelled"].number, "message": "it was cancelled"}}
_LINKED = BACKENDS if find_spec("duckdb") else ()


class App:
    """An ASGI application of two paths: `/mcp` for who is admitted, `/health` for everybody."""

    def __init__(
        self, audience: str, keyring: Keyring, answer: Answer, is_hydrated: Callable[[], Awaitable[bool]]
    ) -> None:
        """Admit the credentials of *keyring* that are for *audience*; *answer* does the rest of the work."""
        self._audience = audience
        self._keyring = keyring
        self._answer = answer
        self._is_hydrated = is_hydrated
        self._calls = Calls()

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Answer one request."""
        match scope["path"], scope["method"]:
            case "/mcp", "POST":
                await self._mcp(scope, receive, send)
                return
            case "/mcp", _:
                response = _failed(
                    405, "POST a message; there is no session and no stream but an answer's own", Allow="POST"
                )
            case "/health", "GET":
                response = await self._health(scope)
            case "/health", _:
                response = _failed(405, "GET it", Allow="GET")
            case _:
                response = _failed(404, "there are /mcp and /health")
        await response(scope, receive, send)

    async def _mcp(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        headers = Headers(scope=scope)
        if refusal := _misdirected(headers, *scope["server"]):
            await refusal(scope, receive, send)
            return
        try:
            credential = await self._admitted(headers)
        except NotAdmitted as error:
            await _refused(error)(scope, receive, send)
            return
        body: bytes = scope["state"]["body"]
        request = called(body)
        if request is None and (taken_back := cancelled(body)) is not None:
            self._calls.cancel(credential.id, taken_back)
        with self._calls.under(credential.id, request) as answering:
            pieces = _Pieces(send, partial(self._is_admitted_still, headers, credential), answering)
            await self._answer(Scope(credential.stores), scope, receive, pieces)
        if answering.cancelled_caught and not pieces.is_revoked:
            await pieces.end(_CANCELLED | {"id": request})

    async def _is_admitted_still(self, headers: Headers, credential: Credential) -> bool:
        try:
            return await self._admitted(headers) == credential
        except NotAdmitted:
            return False

    async def _admitted(self, headers: Headers) -> Credential:
        token = bearer(headers.getlist("authorization"))
        keys = await to_thread.run_sync(self._keyring.keys)
        return admit(token, keys.credentials, keys.denied, self._audience, datetime.now(UTC))

    async def _health(self, scope: types.Scope) -> Response:
        if b"ready=hydrated" in scope["query_string"].split(b"&") and not await self._is_ready():
            return _failed(503, "stores are still being opened", **{"Retry-After": "1"})
        return JSONResponse({"name": "collated", "version": __version__, "backends": _LINKED})

    async def _is_ready(self) -> bool:
        with anyio.move_on_after(_HYDRATED_S):
            return await self._is_hydrated()
        return False


def _misdirected(headers: Headers, address: str, port: int) -> Response | None:
    if not is_host_allowed(headers.get("host", ""), address, port):
        return _failed(421, "the Host header is none of this server's")
    if not is_origin_allowed(headers.get("origin")):
        return _failed(403, "the Origin header is none of this machine's")
    return None


def _refused(error: NotAdmitted) -> Response:
    headers = {"Retry-After": "1"}
    if error.status is HTTPStatus.UNAUTHORIZED:
        is_sent = error.identifier != "HttpCredentialMissing"
        headers = {"WWW-Authenticate": 'Bearer error="invalid_token"' if is_sent else "Bearer"}
    return JSONResponse({"error": str(error), "code": error.identifier}, error.status, headers)


def _failed(status: int, message: str, **headers: str) -> Response:
    return JSONResponse({"error": message}, status, headers)


class _Pieces:
    """An answer on its way, which may outlast its credential: what is sent by the piece is admitted by it."""

    def __init__(
        self, send: types.Send, is_admitted: Callable[[], Awaitable[bool]], answering: anyio.CancelScope
    ) -> None:
        self._send = send
        self._is_admitted = is_admitted
        self._answering = answering
        self._has_begun = False
        self.is_revoked = False

    async def __call__(self, message: types.Message) -> None:
        if message.get("more_body") and not await self._is_admitted():
            self.is_revoked = True
            self._answering.cancel()
            await anyio.lowlevel.checkpoint()
        self._has_begun |= bool(message.get("body"))
        await self._send(message)

    async def end(self, message: Mapping[str, Any]) -> None:
        """Send *message* as the whole answer, or as the last event of a stream that has begun."""
        body = json.encode(message)
        if self._has_begun:
            body = b"event: message\r\ndata: " + body + b"\r\n\r\n"
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await self._send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
