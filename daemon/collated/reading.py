"""`read`, `neighbours` and `index`: questions that one store answers (DESIGN §6)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from collated_readers import Budget, Record, RequestError, State, StoreError
from collated_readers.contract import CONTEXT_LIMITS, clamped
from collated_readers.opening import StoreConnection

from . import protocol
from .catalog import Store
from .errors import RequestFailed
from .fanout import GRACE_S, Fanout
from .gathering import Gathering
from .protocol import IndexParams, IndexResult, NeighboursParams, NeighboursResult, ReadParams, ReadResult
from .resolving import resolve
from .selection import Asked

__all__ = ["Reading", "answer_of"]

T = TypeVar("T")


class Reading:
    """Answers what is asked of one store by name."""

    def __init__(self, fanout: Fanout, gathering: Gathering) -> None:
        """Ask one store through *fanout*, and through *gathering* all of them whether they have a record."""
        self._fanout = fanout
        self._gathering = gathering

    async def read(self, params: ReadParams, budget: Budget) -> ReadResult:
        """Return the record of `ref`, with the records around it.

        Raises:
            RequestFailed: `unknown_store`, `unknown_id`, `ambiguous_id` for an id alone that several stores
                have, `invalid_params` for a ref whose store is not among `stores`, `store_unavailable`,
                `unsupported`, `deadline_exceeded`.
        """
        asked, record_id = await self._ref("read", params, budget)
        count = clamped(params.context, CONTEXT_LIMITS)
        reading = await self.ask(asked, lambda db: asked.reader.read(db, record_id, count), budget)
        context = [protocol.ContextRecord(*_fields(asked.store, each)) for each in reading.context]
        return ReadResult(*_fields(asked.store, reading.record), context=context)

    async def neighbours(self, params: NeighboursParams, budget: Budget) -> NeighboursResult:
        """Return the record of `ref` among its neighbours.

        Raises:
            RequestFailed: as `read`.
        """
        asked, record_id = await self._ref("neighbours", params, budget)
        before, after = (clamped(each, CONTEXT_LIMITS) for each in (params.before, params.after))
        found = await self.ask(
            asked, lambda db: asked.reader.neighbours(db, record_id, before, after), budget
        )
        return NeighboursResult(
            records=[protocol.Record(*_fields(asked.store, each)) for each in found.records],
            header=protocol.Record(*_fields(asked.store, found.header)) if found.header else None,
        )

    async def index(self, params: IndexParams, budget: Budget) -> IndexResult:
        """Return a store's table of contents, or one line for each store.

        Raises:
            RequestFailed: as `read`, and `invalid_params` for a prefix without a store.
        """
        if params.store is not None:
            asked = self.one("index", params.store)
            text = await self.ask(asked, lambda db: asked.reader.index(db, params.prefix or None), budget)
            return IndexResult(text)
        if params.prefix:
            raise RequestFailed(
                "invalid_params", "`prefix` needs `store`", "name the store whose documents to list"
            )
        return IndexResult("\n".join(_line(store) for store in self._fanout.inventory.in_order()))

    async def _ref(
        self, method: str, params: ReadParams | NeighboursParams, budget: Budget
    ) -> tuple[Asked, str]:
        """Return the store that is asked, and the id of the record in it."""
        name, _, record_id = params.ref.partition(":")
        if self._fanout.inventory.named(name) is not None and record_id:
            if params.stores is not None and name not in params.stores:
                raise RequestFailed(
                    "invalid_params",
                    f"{params.ref!r} is of a store that is not among `stores`",
                    "leave them out",
                )
            return self.one(method, name), record_id
        if not params.ref:
            raise RequestFailed("invalid_params", "`ref` is empty", "a ref is STORE:ID, as `search` gives it")
        selection = self._fanout.choosing.select(method, params.stores, None)
        try:
            return self.one(method, await resolve(self._gathering, selection, params.ref, budget)), params.ref
        except RequestFailed as error:
            if error.code == "unknown_id" and name and record_id:
                self._fanout.choosing.known(
                    name
                )  # what stands before a colon was more likely meant as a store
            raise

    def one(self, method: str, name: str) -> Asked:
        """Return the store called *name*, which can answer *method*.

        Raises:
            RequestFailed: `unknown_store`, `store_unavailable`, `unsupported`.
        """
        store = self._fanout.choosing.known(name)
        if store.state is not State.OPEN:
            message = store.reason.message if store.reason else "it is not open yet"
            code = store.reason.code if store.reason else "opening"
            raise RequestFailed("store_unavailable", f"{name} is {store.state.value} ({code}): {message}")
        if method not in self._fanout.inventory.capabilities(store):
            raise RequestFailed(
                "unsupported",
                f"a store of format {store.format} has no `{method}`",
                "ask a store of another format; `collate stores` shows them",
            )
        return Asked(store, self._fanout.inventory.reader(store))

    async def ask(self, asked: Asked, function: Callable[[StoreConnection], T], budget: Budget) -> T:
        """Return what *function* gives on one store, whose failure is the request's.

        Raises:
            RequestFailed: `deadline_exceeded`, `store_unavailable`, and what the reader finds wrong.
        """
        return await answer_of(asked.store.name, self._fanout.ask(asked, function, budget), budget)


async def answer_of(name: str, asking: Awaitable[T], budget: Budget) -> T:
    """Return the answer of the store *name*, whose failure is the request's.

    Raises:
        RequestFailed: `deadline_exceeded`, `store_unavailable`, and what the reader finds wrong.
    """
    try:
        with anyio.fail_after(budget.remaining() + GRACE_S):
            return await asking
    except TimeoutError as error:
        raise RequestFailed("deadline_exceeded", f"{name} did not answer in time") from error
    except RequestError as error:
        raise RequestFailed(error.code, error.message, error.suggestion) from error
    except StoreError as error:
        code = "deadline_exceeded" if error.code == "deadline_exceeded" else "store_unavailable"
        raise RequestFailed(code, f"{name} ({error.code}): {error.message}") from error


def _fields(
    store: Store, record: Record
) -> tuple[str, str, str, str, str, str, str, str, str | None, str | None]:
    """Return the fields of `protocol.Record`, in its order."""
    return (
        store.name,
        record.id,
        f"{store.name}:{record.id}",
        store.format or "",
        record.doc,
        record.heading_path,
        record.kind,
        record.text,
        record.prev_id,
        record.next_id,
    )


def _line(store: Store) -> str:
    """Return a store's line: name padded to column 30 as in the contract's own index, then what it holds."""
    if store.state is State.OPEN:
        what = f"{store.documents} documents · {store.records} records"
    else:
        what = f"{store.state.value}: {store.reason.message if store.reason else ''}"
    return f"{store.name:<30}  {store.format or '-'}  {what}"
