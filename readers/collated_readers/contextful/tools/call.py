"""One call of a tool: what it reads from, what it is held to, and how its answer is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers.contextful.model import Bounds, ContextStore, Limits
from collated_readers.contextful.reads import Page, Reads
from collated_readers.contextful.relations import LEDGER_SUFFIX
from collated_readers.contextful.responses import Ceilings, blocks, ceilings_of, internals, respond, within
from collated_readers.contextful.results import Results, key_of, lifetime_of

from .arguments import Budgeted, Internal, check_pins

__all__ = ["Call", "Statement", "interrupting", "owner_of"]


class Statement(Struct, frozen=True):
    """One statement of a tool, judged or ours, the relations it *touches*, and what goes with it.

    *parameters* are shown among the internals (query-internals-parameters).
    """

    sql: str
    touches: Collection[str]
    values: Mapping[str, Any] | Sequence[Any] = ()
    max_rows: int | None = None  # of the request
    template_rows: int | None = None
    is_volatile: bool = True  # what it answers is another thing each time, as far as is known
    parameters: Mapping[str, Any] | None = None


class Call(Struct, frozen=True):
    """A call: one state of a store, sessions of it by bounds, and when it is (*now_ns*, since 1970)."""

    store: ContextStore
    reads_of: Callable[[Bounds], Reads]
    now_ns: int
    results: Results | None = None
    started: float = msgspec.field(default_factory=time.monotonic)

    def reads(self, bounds: Bounds) -> Reads:
        """Return a session under *bounds*.

        Raises:
            RequestError: `PinnedBuildUnavailable`, whether or not the table of the pin is read.
        """
        found = self.reads_of(bounds)
        check_pins(found)
        return found

    def ceilings(
        self, params: Budgeted, touched: Collection[str], statement: Statement | None = None
    ) -> Ceilings:
        """Return what a read of the *touched* relations is held to; a ledger answers to its table's."""
        owners = sorted({owner_of(name) for name in touched} & self.store.tables.keys())
        request = Limits(
            max_rows=statement.max_rows if statement else None,
            max_duration_ms=params.max_duration_ms,
            max_response_bytes=params.max_response_bytes,
        )
        limits = [self.store.tables[name].declared.limits for name in owners]
        return ceilings_of(limits, request, statement.template_rows if statement else None)

    def answer(
        self, reads: Reads, params: Budgeted, statement: Statement, extra: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the response to a statement, with its blocks and *extra* ones.

        Raises:
            RequestError: what stands against the relations; `ReadDurationExceeded`, `engine_error`;
                `ReadResponseTooLarge`.
        """
        ceilings = self.ceilings(params, statement.touches, statement)
        reads.touch(sorted(statement.touches))
        page, more = self._page(reads, statement, ceilings)
        if statement.parameters is not None:
            more["parameters"] = statement.parameters
        diagnosis = internals(statement.sql, ceilings, self.elapsed_ms, **more) if params.internals else None
        return respond(page, ceilings, {**blocks(reads, statement.touches), **(extra or {})}, diagnosis)

    def _page(self, reads: Reads, statement: Statement, ceilings: Ceilings) -> tuple[Page, dict[str, Any]]:
        """Return the rows, kept ones where they are allowed, and what is to be said of that."""
        owners = [self.store.tables.get(owner_of(name)) for name in statement.touches]
        lifetime = None if statement.is_volatile else lifetime_of(owners)
        if self.results is None or lifetime is None:
            return _queried(reads, statement, ceilings), {}
        key = key_of(reads, statement.sql, statement.touches, statement.values, ceilings.probe)
        kept = self.results.get(key, self.now_ns)
        if kept is not None:
            return kept, {"cache": "hit"}
        page = _queried(reads, statement, ceilings)
        self.results.keep(key, page, self.now_ns, lifetime)
        return page, {"cache": "miss"}

    def whole(
        self, params: Budgeted, response: dict[str, Any], ceilings: Ceilings, sql: str, rows: int
    ) -> dict[str, Any]:
        """Return a response that is no table of rows, within its ceilings and with its internals.

        Raises:
            RequestError: `ReadResponseTooLarge`.
        """
        return within(self.with_internals(response, params, ceilings, sql, rows), ceilings)

    def with_internals(
        self,
        response: dict[str, Any],
        params: Internal,
        ceilings: Ceilings | None = None,
        sql: str = "",
        rows: int = 0,
    ) -> dict[str, Any]:
        """Return *response*, saying how it was made where that was asked for (internals-opt-in)."""
        if not params.internals:
            return response
        made = {**internals(sql, ceilings or Ceilings(), self.elapsed_ms), "row_count": rows}
        return {**response, "contextful.internals": made}

    @property
    def elapsed_ms(self) -> float:
        """Return how long the call has taken until now."""
        return (time.monotonic() - self.started) * 1000


def _queried(reads: Reads, statement: Statement, ceilings: Ceilings) -> Page:
    with interrupting(reads, ceilings):
        return reads.query(statement.sql, statement.values, limit=ceilings.probe)


def interrupting(reads: Reads, ceilings: Ceilings) -> AbstractContextManager[None]:
    """Return the block within which *reads* is asked no longer than its ceiling of time."""
    ceiling = ceilings.duration_ms
    return reads.interrupting(None) if ceiling is None else reads.interrupting(ceiling.value, ceiling.source)


def owner_of(relation: str) -> str:
    """Return the table whose limits a relation has."""
    return relation.removesuffix(LEDGER_SUFFIX)
