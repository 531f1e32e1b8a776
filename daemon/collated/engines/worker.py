"""The process that asks one kind of store, confined before it does (`sandbox`).

    python -P -m collated.engines.worker MEMORY_BYTES MODULE:CLASS

Jobs come in on standard input, answers go out on standard output, one job at a time. It ends with its
parent, when its input ends, and after an answer that leaves it in doubt of itself. The class is called
without arguments; it has `answer(tool, root, params, deadline_s)`, which raises `RequestError` and
`StoreError`, and should give up by itself at the deadline, in seconds from now: else the process is killed.
"""

import os
import select
import stat
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from collated_readers import RequestError, StoreError

from .frames import FrameError, Frames, framed
from .jobs import TAKEN, Answer, Fault, Job, Ready, pack
from .sandbox import confine

__all__ = ["Serving", "main", "outcome"]

_READ_BYTES = 1 << 16
_IN_DOUBT = 70  # the exit code after an answer that is the last
_LONGEST_TRACE = 16_384

_INTERNAL = "a fault of collated itself; the log has the traceback"
_NO_MEMORY = Fault("store", "engine_memory", "it takes more memory than a worker has")


class Serving(Protocol):
    """What a worker hands its jobs to."""

    def answer(self, tool: str, root: str, params: dict[str, Any], deadline_s: float) -> Any:
        """Return what *tool* finds in the store at *root*."""
        ...


class _Arrival(Struct, frozen=True):
    body: bytes
    at: float


def outcome(serving: Serving, job: Job, left_s: float) -> Answer:
    """Return what became of *job*; nothing is raised."""
    try:
        return Answer(serving.answer(job.tool, os.fsdecode(job.root), job.params, left_s))
    except RequestError as error:
        return Answer(fault=Fault("request", error.code, error.message, error.suggestion))
    except StoreError as error:
        return Answer(fault=Fault("store", error.code, error.message))
    except MemoryError:  # raised anywhere, so whatever was being changed may be half changed
        return Answer(fault=_NO_MEMORY, is_last=True)
    except Exception as error:  # noqa: BLE001 - one job's fault must not end the worker
        return Answer(fault=_internal(error), is_last=isinstance(error, SystemError))
    except BaseException as error:  # noqa: BLE001 - nobody here may end the worker but its parent
        return Answer(fault=_internal(error), is_last=True)


def _internal(error: BaseException) -> Fault:
    with suppress(Exception):  # what is hostile may have a `__str__` of its own
        trace = "".join(traceback.format_exception(error))[-_LONGEST_TRACE:]
        return Fault("internal", "internal", _INTERNAL, trace=trace.encode(errors="replace").decode())
    return Fault("internal", "internal", _INTERNAL, trace=type(error).__name__)


def _reply(serving: Serving, arrival: _Arrival) -> tuple[bytes, bool]:
    """Return the frame of the answer, and whether it is the last."""
    job = msgspec.msgpack.decode(arrival.body, type=Job)
    answer = outcome(serving, job, job.deadline_ms / 1000 - (time.monotonic() - arrival.at))
    try:
        return pack(answer), answer.is_last
    except MemoryError:
        answer = Answer(fault=_NO_MEMORY, is_last=True)
    except (FrameError, TypeError, ValueError, OverflowError, RecursionError) as error:
        answer = Answer(fault=_internal(error), is_last=answer.is_last)
    return pack(answer), answer.is_last


class _Broken:
    """Answers every job with what went wrong when the class was to be had."""

    def __init__(self, handler: str, error: BaseException) -> None:
        self._handler = handler
        self._error = error

    def answer(self, tool: str, root: str, params: dict[str, Any], deadline_s: float) -> Any:
        """Raise it."""
        raise SystemError(f"{self._handler} cannot be had") from self._error


def _serving(handler: str) -> Serving:
    module, _, name = handler.partition(":")
    try:
        serving: Serving = getattr(import_module(module), name)()
    except BaseException as error:  # noqa: BLE001 - told to whoever asks first
        return _Broken(handler, error)
    return serving


# --------------------------------------------------------------------------- the process


def main(memory_bytes: str, handler: str) -> None:
    """Do what comes in until nothing more does."""
    source, replies = _own_pipes()
    sys.dont_write_bytecode = True
    os.chdir("/")  # after `site` has made the path for modules absolute
    confinement = confine(int(memory_bytes))
    threading.Thread(target=_end_with, args=(source,), daemon=True).start()
    serving = _serving(handler)
    _write(replies, pack(Ready(confinement)))
    for arrival in _arrivals(source):
        _write(replies, framed(TAKEN))
        reply, is_last = _reply(serving, arrival)
        _write(replies, reply)
        if is_last:
            os._exit(_IN_DOUBT)


def _own_pipes() -> tuple[int, int]:
    """Keep standard input and output to ourselves: what anything here might print is no answer.

    It goes nowhere, and so does standard error where that is a file, to which nothing can be written soon.
    """
    source, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2) if stat.S_ISREG(os.fstat(2).st_mode) else (0, 1):
        os.dup2(null, fd)
    os.close(null)
    return source, replies


def _end_with(source: int) -> None:
    """End the process once *source* has no writer left, whatever the other thread is at."""
    poll = select.poll()
    poll.register(source, 0)  # of nothing but its end
    poll.poll()
    os._exit(0)


def _arrivals(source: int) -> Iterator[_Arrival]:
    frames = Frames()
    while data := os.read(source, _READ_BYTES):
        frames.feed(data)
        while (body := frames.take()) is not None:
            yield _Arrival(body, time.monotonic())


def _write(replies: int, frame: bytes) -> None:
    left = memoryview(frame)
    try:
        while left:
            left = left[os.write(replies, left) :]
    except OSError:  # the daemon has gone
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
