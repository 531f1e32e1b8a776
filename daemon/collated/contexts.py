"""The tools of context stores: each is answered by a worker process, whatever others ask meanwhile."""

import asyncio
import time
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from collated_readers import Budget, StoreError
from collated_readers.contextful.reader import Ask
from collated_readers.contextful.refusals import refused

from .protocol import ContextAnswer, ContextParams
from .reading import Reading, answer_of

__all__ = ["Contexts"]

_OURS = frozenset({"store", "deadline_ms", "sync"})  # of the arguments: the daemon's own
_LISTING = frozenset({"context.files", "context.lineage"})
_WAITING = 64  # threads that wait for workers; beyond, requests wait for a thread


class Contexts:
    """Asks one store, as it is when the statement begins."""

    def __init__(self, reading: Reading, engine: Ask) -> None:
        """Find stores through *reading*, and have *engine* answer."""
        self._reading = reading
        self._engine = engine
        self._threads = anyio.CapacityLimiter(_WAITING)

    async def ask(self, tool: str, params: ContextParams, budget: Budget) -> ContextAnswer:
        """Return what *tool* answers.

        Raises:
            RequestFailed: `unknown_store`, `store_unavailable`, `unsupported`, `deadline_exceeded`,
                `invalid_params`, and the identifiers of `collated_readers.contextful.refusals`.
        """
        store = self._reading.one(tool, params.store).store
        arguments: dict[str, Any] = msgspec.to_builtins(params)
        given = {name: value for name, value in arguments.items() if name not in _OURS}
        return await answer_of(store.name, self._asked(tool, store.path, given, budget), budget)

    async def _asked(self, tool: str, path: str, given: dict[str, Any], budget: Budget) -> ContextAnswer:
        """Return the answer; a statement that ignores its interrupt is ended all the same."""
        started, ceiling_ms = time.monotonic(), given.get("max_duration_ms")
        ends = Budget(budget.deadline)
        if ceiling_ms is not None and _runs_statement(tool, given):
            ends.deadline = min(ends.deadline, started + ceiling_ms / 1_000)
        try:
            return await self._in_thread(partial(self._engine.ask, tool, path, given, ends), ends)
        except StoreError as error:
            if error.code != "deadline_exceeded" or ends.deadline >= budget.deadline:
                raise
            elapsed_ms = round((time.monotonic() - started) * 1_000)
            message = f"{ceiling_ms} ms from request; elapsed {elapsed_ms} ms"
            raise refused("ReadDurationExceeded", message) from error

    async def _in_thread(self, asking: "partial[ContextAnswer]", budget: Budget) -> ContextAnswer:
        try:
            return await anyio.to_thread.run_sync(asking, limiter=self._threads, abandon_on_cancel=True)
        except asyncio.CancelledError:
            budget.cancelled = True  # a thread cannot be cancelled: it looks at this
            raise


def _runs_statement(tool: str, given: dict[str, Any]) -> bool:
    """Tell whether a statement is run; only that has a ceiling of time (duration-no-statement)."""
    return tool not in _LISTING and (tool != "context.describe" or "table" in given)
