"""What the daemon and its worker say to each other: MessagePack behind four bytes of length."""

from typing import IO

import msgspec
from msgspec import Struct

from collated_readers.opening import Signature

__all__ = ["Build", "Combine", "Done", "Job", "Refusal", "Source", "read_message", "write_message"]

_LENGTH_BYTES = 4


class Source(Struct, frozen=True):
    """A store to index: its path's bytes, and what the catalog says is in it."""

    path: bytes
    signature: Signature
    fingerprint: str
    format: str


class Build(Struct, frozen=True, tag=True):
    """Make one file of these stores, which are of one format."""

    sources: list[Source]
    serial: int


class Combine(Struct, frozen=True, tag=True):
    """Make one file of the given slots of these files."""

    parts: list[tuple[str, list[int]]]
    serial: int


Job = Build | Combine


class Refusal(Struct, frozen=True):
    """A store that was not built: a code of `STORE_CODES`, `not_offered`, `too_large` or `memory`."""

    fingerprint: str
    code: str
    message: str


class Done(Struct, frozen=True):
    """What became of a job.

    `file` is the name of the new one, None when there is nothing to put into it. `code` says why the
    job came to nothing: `disk_full`, `io_error`, `memory`, `internal`, or `damaged` for the files in
    `damaged`, which are to be thrown away.
    """

    file: str | None = None
    refusals: list[Refusal] = []
    damaged: list[str] = []
    code: str | None = None
    message: str = ""
    seconds: float = 0.0


def write_message(stream: IO[bytes], message: Struct) -> None:
    """Write one message and flush.

    Raises:
        OSError: nobody reads any more.
    """
    body = msgspec.msgpack.encode(message)
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """Return the next message, still encoded; None where the stream ends, be it within one."""
    head = stream.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else None
