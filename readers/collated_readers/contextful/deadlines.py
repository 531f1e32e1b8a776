"""The deadline of what is asked of the engine: a thread that interrupts, and the refusal that names it."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from .refusals import refused

__all__ = ["Deadline", "Interruptible"]

_AGAIN_S = 0.01  # an interrupt that meets an idle connection is forgotten by it, so it is repeated


class Interruptible(Protocol):
    """A connection of the engine."""

    def interrupt(self) -> None:
        """Stop the statement that runs, if one does."""
        ...


class Deadline:
    """Interrupts what is `watching` from *ms* after it was entered until it is left."""

    def __init__(self, ms: int, source: str) -> None:
        """Name the ceiling and who declared it; time runs from `__enter__`."""
        self._ms = ms
        self._source = source
        self._started = time.monotonic()
        self._is_left = threading.Event()
        self._lock = threading.Lock()
        self._watched: Interruptible | None = None
        self._thread = threading.Thread(target=self._wait, name="deadline", daemon=True)

    def __enter__(self) -> Deadline:
        """Start the clock."""
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the clock; nothing is interrupted afterwards."""
        self._is_left.set()
        self._thread.join()

    @contextmanager
    def watching(self, connection: Interruptible) -> Generator[None]:
        """Interrupt *connection* at the deadline.

        Raises:
            RequestError: `ReadDurationExceeded`, when it was over before.
        """
        self.check()
        with self._lock:
            self._watched = connection
        try:
            yield
        finally:
            with self._lock:
                self._watched = None

    def check(self) -> None:
        """Refuse when the deadline is over.

        Raises:
            RequestError: `ReadDurationExceeded`.
        """
        elapsed_ms = self._elapsed_ms()
        if elapsed_ms >= self._ms:
            raise refused(
                "ReadDurationExceeded", f"{self._ms} ms from {self._source}; elapsed {int(elapsed_ms)} ms"
            )

    def _elapsed_ms(self) -> float:
        return (time.monotonic() - self._started) * 1000

    def _wait(self) -> None:
        wait_s = min(self._ms / 1000, threading.TIMEOUT_MAX)
        while not self._is_left.wait(wait_s):
            wait_s = _AGAIN_S
            with self._lock:
                if self._watched is not None:
                    self._watched.interrupt()
