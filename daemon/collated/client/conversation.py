"""One connection's side of the talk, without I/O: ids, requests, replies, notifications (DESIGN §6)."""

import errno
import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct

from collated.errors import DaemonUnreachable, RequestFailed, code_of_number
from collated.framing import Framer, frame
from collated.protocol import METHODS, NOTIFICATIONS, Envelope, ErrorObject, Id, Notification, Request

__all__ = ["Conversation", "DaemonUnreachable", "Params", "Reply", "decode_result", "unreachable"]

Params = Struct | Mapping[str, Any] | None
"""A method's parameters: its Struct of `protocol`, a mapping by the wire's names, or nothing."""

# The daemon is of the same user and its answers are bounded by its own limits; this one only keeps
# a broken peer from filling the memory.
_REPLY_LIMIT_BYTES = 268_435_456

_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(Envelope)


class Reply(NamedTuple):
    """The final answer to the request *id*: a result still encoded, or a failure.

    An error without an id (the daemon could not read ours, or takes no more connections) ends the
    whole talk.
    """

    id: Id | None
    result: Raw | None
    failure: RequestFailed | None


class Conversation:
    """Makes requests and understands what comes back; one for each connection."""

    def __init__(self) -> None:
        """Begin with id 1."""
        self._ids = itertools.count(1)
        self._framer = Framer(_REPLY_LIMIT_BYTES, "msgpack")

    def request(self, method: str, params: Params, *, is_streamed: bool = False) -> tuple[int, bytes]:
        """Return a new request's id and bytes; *is_streamed* asks for `$/progress` under that id."""
        request_id = next(self._ids)
        if is_streamed and method in _STREAMED:
            params = _with_token(params, request_id)
        return request_id, frame("msgpack", _encoder.encode(Request(method, request_id, params, "2.0")))

    def cancel(self, request_id: int) -> bytes:
        """Return the notification that cancels a request."""
        return frame(
            "msgpack", _encoder.encode(Notification(method="$/cancelRequest", params={"id": request_id}))
        )

    def feed(self, data: bytes) -> list[Reply | Struct]:
        """Return the replies and the notifications' parameters that *data* completes, in order.

        Raises:
            DaemonUnreachable: the peer does not speak this protocol.
        """
        bodies = self._framer.feed(data)
        if self._framer.error is not None:
            raise DaemonUnreachable(f"what answers is not collated: {self._framer.error.message}")
        try:
            return [event for body in bodies if (event := _understand(_envelope.decode(body)))]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DaemonUnreachable(f"what answers is not collated: {error}") from error


_STREAMED = frozenset(
    name for name, method in METHODS.items() if "partialResultToken" in method.params.__struct_fields__
)


def _with_token(params: Params, token: int) -> Params:
    if isinstance(params, Struct):
        return msgspec.structs.replace(params, partialResultToken=token)
    return {**(params or {}), "partialResultToken": token}


def _understand(message: Envelope) -> Reply | Struct | None:
    if message.method is not None:
        kind: type[Struct] | None = NOTIFICATIONS.get(message.method)  # one of a newer daemon is not for us
        if kind is None or not isinstance(message.params, Raw):
            return None
        return msgspec.msgpack.decode(message.params, type=kind)
    request_id: Id | None = msgspec.convert(None if message.id is UNSET else message.id, Id | None)
    if message.error is UNSET or message.error is None:
        return Reply(request_id, message.result if isinstance(message.result, Raw) else Raw(b"\xc0"), None)
    return Reply(request_id, None, _failure(msgspec.convert(message.error, ErrorObject)))


def _failure(error: ErrorObject) -> RequestFailed:
    code = error.data.code or code_of_number(error.code)
    return RequestFailed(code, error.message, error.data.suggestion, error.data.retry_after_ms)


@functools.cache
def _decoder(method: str) -> Callable[[Raw], Any]:
    row = METHODS.get(method)
    return msgspec.msgpack.Decoder(row.result if row else Any).decode


def decode_result(method: str, reply: Reply) -> Any:
    """Return the result Struct of *method* (`METHODS`), or plain values for one that is not known here.

    Raises:
        RequestFailed: the reply is an error.
        DaemonUnreachable: the result is not of the method's shape.
    """
    if reply.failure is not None:
        raise reply.failure
    try:
        return _decoder(method)(reply.result or Raw(b"\xc0"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DaemonUnreachable(
            f"the daemon's answer to {method} cannot be read ({error}); is it of another version?"
        ) from error


_ABSENT = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})


def unreachable(socket_path: Path, error: OSError) -> DaemonUnreachable:
    """Return what a failure to connect means."""
    if error.errno in _ABSENT:
        return DaemonUnreachable(f"no daemon listens at {socket_path}", is_absent=True)
    return DaemonUnreachable(f"cannot connect to {socket_path}: {error.strerror or error}")
