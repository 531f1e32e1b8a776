"""The tools of context stores: each is answered by a worker process, whatever others ask meanwhile."""

import asyncio
import time
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from collated_readers import Budget
from collated_readers.contextful.reader import Ask
from collated_readers.contextful.refusals import refused

from .errors import RequestFailed
from .protocol import ContextAnswer, ContextParams
from .reading import Reading, answer_of

__all__ = ["Contexts"]

_OURS = frozenset({"store", "deadline_ms", "sync"})  # of the arguments: the daemon's own
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
        started = time.monotonic()
        store = self._reading.one(tool, params.store).store
        arguments: dict[str, Any] = msgspec.to_builtins(params)
        given = {name: value for name, value in arguments.items() if name not in _OURS}
        ceiling_ms: int | None = given.get("max_duration_ms")
        ends = Budget(budget.deadline)
        if ceiling_ms is not None:  # a statement that ignores its interrupt is ended all the same
            ends.deadline = min(ends.deadline, started + ceiling_ms / 1_000)
        asking = partial(self._engine.ask, tool, store.path, given, ends)
        try:
            return await answer_of(store.name, self._in_thread(asking, ends), budget)
        except RequestFailed as error:
            if error.code != "deadline_exceeded" or ends.deadline >= budget.deadline:
                raise
            elapsed_ms = round((time.monotonic() - started) * 1_000)
            raise _overdue(f"{ceiling_ms} ms from request; elapsed {elapsed_ms} ms") from error

    async def _in_thread(self, asking: "partial[ContextAnswer]", budget: Budget) -> ContextAnswer:
        try:
            return await anyio.to_thread.run_sync(asking, limiter=self._threads, abandon_on_cancel=True)
        except asyncio.CancelledError:
            budget.cancelled = True  # a thread cannot be cancelled: it looks at this
            raise


def _overdue(what: str) -> RequestFailed:
    error = refused("ReadDurationExceeded", what)
    return RequestFailed(error.code, error.message)
