"""Routes and admits: what is answered before the SDK sees a request."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.util import find_spec

import anyio
import anyio.lowlevel
from anyio import to_thread
from starlette import types
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from collated import __version__
from collated.mcp.scope import Scope
from collated_readers.contextful.wire import BACKENDS

from .credentials import Credential, NotAdmitted, admit, bearer
from .hosts import is_host_allowed, is_origin_allowed
from .keyring import Keyring

__all__ = ["App"]

Answer = Callable[[Scope, types.Scope, types.Receive, types.Send], Awaitable[None]]

_HYDRATED_S = 2.0
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
        with anyio.CancelScope() as answering:

            async def send_while_admitted(message: types.Message) -> None:
                # A stream may outlast its credential: what is sent by the piece is admitted by the piece.
                if message.get("more_body") and not await self._is_admitted_still(headers, credential):
                    answering.cancel()
                    await anyio.lowlevel.checkpoint()
                await send(message)

            await self._answer(Scope(credential.stores), scope, receive, send_while_admitted)

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
