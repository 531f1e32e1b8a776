"""The tools of context stores: each is answered by a worker process, whatever others ask meanwhile."""

import asyncio
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from collated_readers import Budget
from collated_readers.contextful.reader import Ask

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
        store = self._reading.one(tool, params.store).store
        arguments: dict[str, Any] = msgspec.to_builtins(params)
        given = {name: value for name, value in arguments.items() if name not in _OURS}
        asking = partial(self._engine.ask, tool, store.path, given, budget)
        return await answer_of(store.name, self._in_thread(asking, budget), budget)

    async def _in_thread(self, asking: "partial[ContextAnswer]", budget: Budget) -> ContextAnswer:
        try:
            return await anyio.to_thread.run_sync(asking, limiter=self._threads, abandon_on_cancel=True)
        except asyncio.CancelledError:
            budget.cancelled = True  # a thread cannot be cancelled: it looks at this
            raise
