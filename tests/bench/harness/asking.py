"""Three ways to ask a daemon the same: one at a time, many in flight, and within its process.

A round trip over a socket costs some 60 µs of its own, whoever answers (part `ping`); the second way
shows what a busy daemon does in that time, the third what an answer costs without any of it.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from .answers import LIMIT
from .daemons import Daemon
from .inside import Question
from .timing import IN_A_ROW, in_a_row, median_s
from .wire import LONG_MS, Wire, framed, result_of

__all__ = ["INSIDE", "IN_FLIGHT", "LONE", "PIPED", "Asker", "search_params"]

T = TypeVar("T")

LONE, PIPED, INSIDE = "one at a time", "in flight", "in its process"
IN_FLIGHT = 32


class _Told(Struct):
    seconds: list[float]
    result: msgspec.Raw


def search_params(text: str, **more: object) -> dict[str, object]:
    """Return the parameters of a search for *text* that is never cut short."""
    return {"query": text, "limit": LIMIT, "deadline_ms": LONG_MS, **more}


class Asker:
    """Asks one daemon; `inside` wants one started for that. Times include decoding the answers."""

    def __init__(self, daemon: Daemon) -> None:
        """Connect to *daemon*."""
        self.daemon = daemon
        self.wire = Wire(daemon.socket)

    def close(self) -> None:
        """Close the connection."""
        self.wire.close()

    def status(self) -> Any:
        """Return the daemon's `status`, as it is on the wire."""
        return self.wire.call("status", {}, dict[str, Any])

    def lone(self, method: str, params: Mapping[str, object], result: type[T]) -> tuple[float, T]:
        """Return the median seconds of a few round trips in a row, and what was answered."""
        message = framed(method, params)
        try:
            return in_a_row(lambda: result_of(self.wire.trip(message), result)[1])
        except RuntimeError as error:
            log = self.daemon.log.read_text(encoding="utf-8")
            raise RuntimeError(f"{error}; its log ends with {log[-2_000:]}") from error

    def piped(
        self, method: str, every: Sequence[Mapping[str, object]], result: type[T]
    ) -> tuple[float, list[T]]:
        """Send all requests at once; return the seconds for each of them, and the answers in their order."""
        messages = [framed(method, params, number) for number, params in enumerate(every)]
        started = time.perf_counter()
        answers = dict(result_of(body, result) for body in self.wire.trips(messages))
        seconds = time.perf_counter() - started
        return seconds / len(messages), [answers[number] for number in range(len(messages))]

    def inside(self, method: str, params: Mapping[str, object], result: type[T]) -> tuple[float, T]:
        """Return the median seconds of a few answers in the daemon's process, and the last one."""
        source, sink = self.daemon.pipe
        source.write(msgspec.json.encode(Question(method, dict(params), IN_A_ROW)) + b"\n")
        source.flush()
        told = msgspec.json.decode(sink.readline(), type=_Told)
        return median_s(told.seconds), msgspec.json.decode(told.result, type=result)
