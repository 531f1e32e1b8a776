"""One bare connection to a daemon: framed bytes out and in, so that little but the daemon is timed."""

import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, msgpack

from .waiting import wait_for

__all__ = ["LONG_MS", "Wire", "framed", "result_of"]

T = TypeVar("T")

LONG_MS = 60_000
_CHUNK_BYTES = 262_144
_HEADER = struct.Struct(">I")


class _Reply(Struct):
    id: int
    result: Raw | UnsetType = UNSET
    error: Any = UNSET


def framed(method: str, params: Mapping[str, object], number: int = 1) -> bytes:
    """Return a request as it goes over the wire, in MessagePack."""
    body = msgpack.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    return _HEADER.pack(len(body)) + body


class Wire:
    """A blocking connection; close it or use it in a `with` statement."""

    def __init__(self, path: Path) -> None:
        """Connect to *path* as soon as somebody listens there."""
        self._socket = wait_for(lambda: _connected(path), f"{path.name} to listen")
        self._data = bytearray()

    def __enter__(self) -> Self:
        """Return itself, connected."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def trip(self, message: bytes) -> bytes:
        """Send one message and return the body of the one that comes back."""
        self._socket.sendall(message)
        data = self._socket.recv(_CHUNK_BYTES)
        if len(data) > _HEADER.size and len(data) == _HEADER.size + _HEADER.unpack_from(data)[0]:
            return data[_HEADER.size :]  # in one piece, as nearly always
        self._data += data
        return self._receive()

    def trips(self, messages: Sequence[bytes]) -> list[bytes]:
        """Send all messages at once and return the bodies of as many replies, in the order they come."""
        self._socket.sendall(b"".join(messages))
        return [self._receive() for _ in messages]

    def call(self, method: str, params: Mapping[str, object], result: type[T]) -> T:
        """Return what *method* answers.

        Raises:
            RuntimeError: it answered with an error.
        """
        return result_of(self.trip(framed(method, params)), result)[1]

    def _receive(self) -> bytes:
        while len(self._data) < _HEADER.size:
            self._read()
        end = _HEADER.size + _HEADER.unpack_from(self._data)[0]
        while len(self._data) < end:
            self._read()
        body = bytes(self._data[_HEADER.size : end])
        del self._data[:end]
        return body

    def _read(self) -> None:
        data = self._socket.recv(_CHUNK_BYTES)
        if not data:
            raise RuntimeError("the daemon closed the connection")
        self._data += data


def result_of(body: bytes, result: type[T]) -> tuple[int, T]:
    """Return the id and the result of a reply's *body*.

    Raises:
        RuntimeError: it is an error.
    """
    reply = msgpack.decode(body, type=_Reply)
    if reply.result is UNSET:
        raise RuntimeError(f"the daemon answered {reply.error}")
    return reply.id, msgspec.msgpack.decode(reply.result, type=result)


def _connected(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection
