"""What a worker process answers: the read face's tools, and the federation's own questions.

States of stores and sessions on them are kept while nothing was committed since (session-pool).
"""

from __future__ import annotations

import os
import resource
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from collated_readers.budget import Budget
from collated_readers.matching.within import path_matcher_of

from .model import Bounds, ContextStore
from .responses import blocks, internals
from .results import Results
from .retrieving import Kept, RetrieveParams, matches, retrieve
from .retrieving.sidecars import Sidecars
from .session import Session, open_session
from .stamp import stamp_of
from .texts import counted, texts_after
from .tools import Call, call_tool
from .tools.arguments import bounds_of, check_pins, invalid
from .tools.grep import grep
from .tools.index import index
from .tools.rows import row
from .wire import Counted, Found, GrepParams, Line, MatchesParams, Row, RowParams, TextsParams

__all__ = ["Service"]

_SESSIONS = 16  # pool-entries
_STATES = 16
_ANSWERS = 8  # of `store.matches`, whose hits are asked for next
_UNLIMITED_BYTES = 1 << 30  # what a process without a limit is taken to have
_ENGINES = 0.4  # of the limit: what is asked of it beside that, and its answers, take some too
_RESULTS_BYTES = 16 * 1024 * 1024  # budget


class Service:
    """Answers one job at a time."""

    def __init__(
        self,
        memory_bytes: int | None = None,
        threads: int | None = None,
        results_bytes: int = _RESULTS_BYTES,
    ) -> None:
        """Give the engine so much memory, and *threads*, by default one for each processor.

        By default it gets a share of the memory that the process may take. Rows that may be given again
        take *results_bytes* at most, 0 for none.
        """
        self._memory_bytes = memory_bytes or _share(resource.getrlimit(resource.RLIMIT_DATA)[0])
        self._threads = threads or os.cpu_count() or 1
        self._states: OrderedDict[str, ContextStore] = OrderedDict()
        self._sessions: OrderedDict[tuple[str, str], tuple[Session, Kept]] = OrderedDict()
        self._matches: OrderedDict[tuple[str, bytes], list[Found]] = OrderedDict()
        self._sidecars = Sidecars()
        self._results = Results(results_bytes)
        self._own: Mapping[str, Callable[[Call, Any, Budget], Any]] = {
            "store.counts": self._counts,
            "store.matches": self._found,
            "store.row": self._row,
            "store.grep": self._grep,
            "store.texts": self._texts,
            "store.index": self._index,
        }

    @property
    def open_sessions(self) -> int:
        """Return how many sessions are kept for the next question."""
        return len(self._sessions)

    def answer(self, tool: str, root: str, params: dict[str, Any], deadline_s: float) -> Any:
        """Return what *tool* answers of the store at *root*, as it now is; plain values.

        Raises:
            RequestError: what the tool refuses; `invalid_params`.
            StoreError: what is wrong with the whole store; `deadline_exceeded`.
        """
        store = self._state(root)
        call = Call(store, partial(self._reads, store), time.time_ns(), self._results)
        try:
            return msgspec.to_builtins(self._answer(tool, call, params, Budget.lasting(deadline_s)))
        except msgspec.ValidationError as error:
            raise invalid(str(error)) from error

    def _answer(self, tool: str, call: Call, params: dict[str, Any], budget: Budget) -> Any:
        if tool in self._own:
            return self._own[tool](call, params, budget)
        if tool == "corpus.retrieve":
            return self._retrieve(call, msgspec.convert(params, RetrieveParams))
        return call_tool(tool, call, params)

    # ----------------------------------------------------------------- states and sessions

    def _state(self, root: str) -> ContextStore:
        known = self._states.get(root)
        if known is not None and known.digest == stamp_of(root).digest:
            self._states.move_to_end(root)
            return known
        self._forget(root)
        from .loading import load_store

        self._states[root] = store = load_store(Path(root))
        if len(self._states) > _STATES:
            self._forget(next(iter(self._states)))
        return store

    def _forget(self, root: str) -> None:
        store = self._states.pop(root, None)
        if store is None:
            return
        for key in [key for key in self._sessions if key[0] == root]:
            self._sessions.pop(key)[0].close()

    def _reads(self, store: ContextStore, bounds: Bounds) -> Session:
        return self._pooled(store, bounds)[0]

    def _pooled(self, store: ContextStore, bounds: Bounds) -> tuple[Session, Kept]:
        key = (store.root, repr(bounds))  # which may be beyond what MessagePack has numbers for
        if key not in self._sessions:
            while len(self._sessions) >= _SESSIONS:
                self._sessions.popitem(last=False)[1][0].close()
            session = open_session(store, bounds, memory_bytes=self._memory_bytes, threads=self._threads)
            self._sessions[key] = (session, Kept())
        return self._sessions[key]

    # ----------------------------------------------------------------- tools

    def _retrieve(self, call: Call, params: RetrieveParams) -> dict[str, Any]:
        reads, kept = self._pooled(call.store, bounds_of(params))
        check_pins(reads)
        found = retrieve(reads, params, now_ns=call.now_ns, kept=kept, sidecars=self._sidecars)
        diagnosis = internals(found.sql, found.ceilings, call.elapsed_ms) if params.internals else None
        return found.respond(blocks(reads, found.tables), diagnosis)

    def _counts(self, call: Call, _: dict[str, Any], budget: Budget) -> Counted:
        return counted(call.reads_of(Bounds()))

    def _found(self, call: Call, params: dict[str, Any], budget: Budget) -> list[Found]:
        asked = msgspec.convert(params, MatchesParams)
        key = (call.store.digest, msgspec.msgpack.encode(asked))
        if key not in self._matches:
            passes = path_matcher_of(asked.within)
            self._matches[key] = matches(call.reads_of(Bounds()), asked.query, asked.limit, passes)
            while len(self._matches) > _ANSWERS:
                self._matches.popitem(last=False)
        return self._matches[key]

    def _row(self, call: Call, params: dict[str, Any], budget: Budget) -> Row | None:
        return row(call, msgspec.convert(params, RowParams))

    def _grep(self, call: Call, params: dict[str, Any], budget: Budget) -> list[Line]:
        return grep(call, msgspec.convert(params, GrepParams), budget)

    def _texts(self, call: Call, params: dict[str, Any], budget: Budget) -> Any:
        return texts_after(call.reads_of(Bounds()), msgspec.convert(params, TextsParams).after)

    def _index(self, call: Call, params: dict[str, Any], budget: Budget) -> str:
        return index(call, params.get("prefix"))


def _share(limit_bytes: int) -> int:
    return int(_ENGINES * (_UNLIMITED_BYTES if limit_bytes == resource.RLIM_INFINITY else limit_bytes))
