"""One message in, one message out: JSON-RPC 2.0 over the two encodings (DESIGN §6). Pure."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from .errors import CODES, RequestFailed
from .framing import Framing, frame
from .protocol import (
    METHODS,
    Envelope,
    ErrorData,
    ErrorObject,
    ErrorResponse,
    Id,
    Notification,
    Response,
)

__all__ = ["Call", "Codec", "Rejected", "error_response"]

# Ids stay below 2^53, so that every client's numbers hold them (DESIGN §6).
_ID_LIMIT = 2**53
# What Lua, a shell and a careful client write for "no parameters" (DESIGN §6).
_JSON_EMPTY = frozenset({b"null", b"{}", b"[]"})
_WHITE_SPACE = b" \t\r\n"  # of JSON; no MessagePack value becomes an empty one without these bytes
_MSGPACK_EMPTY = frozenset({b"\xc0", b"\x80", b"\x90"})


class Call(Struct):
    """A request or, when `id` is None, a notification; `params` is of the method's own type."""

    method: str
    id: Id | None
    params: Any


class Codec:
    """Decodes and encodes the messages of one framing; holds no state, so connections share it.

    `nothing` is the encoded empty object: the parameters of a request without any, the result of a `ping`.
    """

    def __init__(self, framing: Framing) -> None:
        """Speak MessagePack over the framing `msgpack`, JSON over the others."""
        self.framing: Framing = framing
        module: Any = msgspec.msgpack if framing == "msgpack" else msgspec.json
        self._empty = _MSGPACK_EMPTY if framing == "msgpack" else _JSON_EMPTY
        self._envelope = module.Decoder(Envelope)
        self._params = {name: module.Decoder(method.params) for name, method in METHODS.items()}
        self.encode: Callable[[Any], bytes] = module.Encoder().encode
        self.nothing: bytes = self.encode({})
        self._around = self._around_a_result()

    def read(self, body: bytes) -> Call | None:
        """Return the call in *body*; None for a reply, which a server has no use for.

        Raises:
            Rejected: the message deserves an error answer; it knows the id as far as it can be read.
        """
        try:
            envelope = self._envelope.decode(body)
        except msgspec.ValidationError as error:
            raise Rejected(
                None, RequestFailed("invalid_request", f"not a JSON-RPC request: {error}")
            ) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Rejected(
                None, RequestFailed("parse_error", f"the message cannot be decoded: {error}")
            ) from error
        if envelope.method is None and (envelope.result is not UNSET or envelope.error is not UNSET):
            return None
        request_id = _request_id(envelope)
        try:
            return Call(str(envelope.method), request_id, self._decode_params(envelope, request_id))
        except Rejected:
            if request_id is None:
                return None  # JSON-RPC: a notification is not answered, whatever is wrong with it
            raise

    def response(self, request_id: Id, result: bytes) -> bytes:
        """Return the framed reply that carries the encoded *result*, which is copied once."""
        before, between, after = self._around
        return frame(self.framing, before, self.encode(request_id), between, result, after)

    def failure(self, request_id: Id | None, failed: RequestFailed) -> bytes:
        """Return the framed error reply."""
        return frame(self.framing, self.encode(error_response(request_id, failed)))

    def notification(self, method: str, params: Struct) -> bytes:
        """Return the framed notification."""
        return frame(self.framing, self.encode(Notification(method=method, params=params)))

    def _around_a_result(self) -> tuple[bytes, bytes, bytes]:
        """Return what a `Response` has before its id, between id and result, and after them."""
        request_id, result = self.encode("an id"), self.encode("a result")
        before, _, rest = self.encode(Response(id="an id", result=Raw(result))).partition(request_id)
        between, _, after = rest.partition(result)
        return before, between, after

    def _decode_params(self, envelope: Envelope, request_id: Id | None) -> Any:
        decoder = self._params.get(envelope.method)
        if decoder is None:
            raise Rejected(
                request_id,
                RequestFailed(
                    "unknown_method", f"there is no method {envelope.method!r}", "`initialize` lists them"
                ),
            )
        params = envelope.params
        try:
            return decoder.decode(self.nothing if params is UNSET or self._is_empty(params) else params)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Rejected(
                request_id, RequestFailed("invalid_params", f"{envelope.method}: {error}")
            ) from error

    def _is_empty(self, params: Raw) -> bool:
        raw = bytes(params)
        if raw in self._empty:
            return True
        # Parameters have names, names have quotes; without any there may be white space between brackets.
        return b'"' not in raw and raw.translate(None, _WHITE_SPACE) in self._empty


class Rejected(Exception):
    """A message that is answered with an error."""

    def __init__(self, request_id: Id | None, failed: RequestFailed) -> None:
        """Answer *failed* to *request_id*."""
        super().__init__(failed.message)
        self.request_id = request_id
        self.failed = failed


def _request_id(envelope: Envelope) -> Id | None:
    """Return the id, None for a notification."""
    request_id = envelope.id
    known: Id | None = None
    # By type and not isinstance: `true` is no id.
    if type(request_id) is str or (type(request_id) is int and -_ID_LIMIT < request_id < _ID_LIMIT):
        known = request_id
    elif request_id is not UNSET:
        raise Rejected(
            None, RequestFailed("invalid_request", "`id` must be a string or an integer below 2^53")
        )
    if envelope.jsonrpc not in (None, "2.0"):
        raise Rejected(known, RequestFailed("invalid_request", '`jsonrpc` must be "2.0"'))
    if not isinstance(envelope.method, str):
        raise Rejected(known, RequestFailed("invalid_request", "`method` must be a string"))
    return known


def error_response(request_id: Id | None, failed: RequestFailed) -> ErrorResponse:
    """Return the error answer of DESIGN §6 for *failed*."""
    code = CODES[failed.code]
    data = ErrorData(failed.code, code.is_retryable, failed.suggestion, failed.retry_after_ms)
    return ErrorResponse(id=request_id, error=ErrorObject(code.number, failed.message, data))
