"""Has jobs done by a worker process, which is there only while there is something to do."""

import math
import os
import time
from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread

from .child import Child, WorkerDied
from .jobs import Done, Job

__all__ = ["Foreman"]

# A worker ends after so long without a job; one that is at a job for longer hangs.
_IDLE_S = 10.0
_JOB_S = 900.0


class Foreman:
    """One job at a time; for one event loop."""

    def __init__(self, command: Callable[[], Sequence[str]]) -> None:
        """Start what *command* returns; when that is no longer what runs, start it anew."""
        self._command = command
        self._child: Child | None = None
        self._running: Sequence[str] = ()
        self._used = 0.0
        self._threads = anyio.CapacityLimiter(1)

    @property
    def pid(self) -> int | None:
        """Return the worker's process id, None when there is none."""
        return self._child.pid if self._child else None

    async def do(self, job: Job, keep: Sequence[int]) -> Done:
        """Return what became of *job*; a worker that is started for it inherits the descriptors of *keep*.

        Raises:
            WorkerDied: it ended, or took too long.
            OSError: no worker could be started.
        """
        command = self._command()
        if self._child is not None and (command != self._running or not self._child.is_alive):
            await self.end()
        if self._child is None:
            self._child = await anyio.to_thread.run_sync(
                Child, command, os.environ, keep, limiter=self._threads
            )
            self._running = command
        child = self._child
        try:
            with anyio.fail_after(_JOB_S):
                return await anyio.to_thread.run_sync(
                    child.ask, job, limiter=self._threads, abandon_on_cancel=True
                )
        except TimeoutError as error:
            await self.end()
            raise WorkerDied(f"the worker was at one job for {_JOB_S:g} s") from error
        except WorkerDied:
            await self.end()
            raise
        finally:
            self._used = time.monotonic()

    async def rest(self) -> float:
        """End a worker that has had nothing to do for long, and return in how many seconds to ask again."""
        if self._child is None:
            return math.inf
        left_s = self._used + _IDLE_S - time.monotonic()
        if left_s > 0:
            return left_s
        await self.end()
        return math.inf

    async def end(self) -> None:
        """End the worker, whatever it is at; safe to call again."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            await anyio.to_thread.run_sync(child.close, abandon_on_cancel=True)
