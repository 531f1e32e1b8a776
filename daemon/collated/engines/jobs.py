"""What the daemon and a worker say to each other, as MessagePack in frames.

The worker says `Ready` once. To each `Job` it says `TAKEN` when it begins, and then one `Answer`; so it
is known whether a worker that died did so over a job or before it.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from .frames import framed

__all__ = ["TAKEN", "Answer", "Confinement", "Fault", "Job", "Ready", "pack"]

TAKEN = b""
"""The body of the frame that says that a job was begun."""


class Job(Struct, frozen=True):
    """One question: *root* are the bytes of the store's path, *deadline_ms* counts from its arrival."""

    tool: str
    root: bytes
    params: dict[str, Any]
    deadline_ms: int


class Fault(Struct, frozen=True):
    """What went wrong: a `RequestError`, a `StoreError`, or a fault of ours with a *trace* for the log."""

    kind: Literal["request", "store", "internal"]
    code: str
    message: str
    suggestion: str | None = None
    trace: str = ""


class Answer(Struct, frozen=True):
    """What became of a job. The worker ends after one that *is_last*."""

    result: Any = None
    fault: Fault | None = None
    is_last: bool = False


class Confinement(Struct, frozen=True):
    """What a worker can no longer do. *missing* names the walls that this system does not have.

    *is_read_only*: no file can be written, made, moved or removed. *is_offline*: nothing can be connected.
    *landlock_abi* is 0 without Landlock; *memory_bytes* None where there is no limit.
    """

    landlock_abi: int
    is_filtered: bool
    memory_bytes: int | None
    missing: tuple[str, ...] = ()

    @property
    def is_read_only(self) -> bool:
        """Tell whether nothing on disk can be changed: the third ABI is the first that knows `truncate`."""
        return self.is_filtered or self.landlock_abi >= _TRUNCATES

    @property
    def is_offline(self) -> bool:
        """Tell whether nothing can be reached over a network; Landlock alone leaves UDP."""
        return self.is_filtered


_TRUNCATES = 3


class Ready(Struct, frozen=True):
    """The worker can be asked."""

    confinement: Confinement


def pack(message: Struct) -> bytes:
    """Return the frame of *message*.

    Raises:
        FrameError: it is too large.
        TypeError, ValueError, OverflowError, RecursionError: it holds what MessagePack cannot.
    """
    return framed(msgspec.msgpack.encode(message))
