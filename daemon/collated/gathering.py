"""One question to every store that can answer it; each store's part is kept by fingerprint (DESIGN §8)."""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from collated_readers import Budget, Reader
from collated_readers.opening import StoreConnection

from .cache import Cache
from .fanout import Fanout
from .selection import Asked, Selection

__all__ = ["Ask", "Gathering"]

T = TypeVar("T", bound=Struct)

Ask = Callable[[Reader, StoreConnection, Budget], T]
"""Asks one store through its reader."""


class _Sized(NamedTuple, Generic[T]):
    """What a store answers, and how large that is."""

    value: T
    size_bytes: int


class Gathering:
    """Asks the stores of a selection the same thing, each in one transaction of its own."""

    def __init__(self, fanout: Fanout, cache: Cache) -> None:
        """Ask through *fanout*; keep each store's answer in *cache*."""
        self._fanout = fanout
        self._cache = cache

    async def gather(
        self, method: str, selection: Selection, key: tuple[Hashable, ...] | None, ask: Ask[T], budget: Budget
    ) -> Mapping[str, T]:
        """Return by store, in the order of their names, what *ask* gives for those that did not fail.

        *key* says all that an answer depends on beside the store; with None it is not kept. Who fails, or
        finds fault with the request, is noted in *selection*.
        """
        answers: dict[str, T] = {}
        is_kept = key is not None

        async def take(each: Asked, answer: _Sized[T]) -> None:
            answers[each.store.name] = answer.value
            if key is not None:
                self._cache.put((each.store.fingerprint, method, *key), answer.value, answer.size_bytes)

        def question(each: Asked) -> Callable[[StoreConnection], _Sized[T]]:
            return partial(_sized, ask, each.reader, budget, is_kept)

        async def job(each: Asked, hop: Budget) -> None:
            await take(
                each, await self._fanout.ask(each, partial(_sized, ask, each.reader, hop, is_kept), hop)
            )

        todo: list[Asked] = []
        for each in selection.asked:
            kept: T | None = None
            if key is not None:
                kept = self._cache.get((each.store.fingerprint, method, *key))
            if kept is None:
                todo.append(each)
            else:
                answers[each.store.name] = kept
        left = await self._fanout.quick(todo, question, take, budget)
        await self._fanout.each(left, job, budget)
        failures = selection.failures()
        return {name: answer for name, answer in sorted(answers.items()) if name not in failures}


def _sized(
    ask: Ask[T],
    reader: Reader,
    budget: Budget,
    is_kept: bool,
    db: StoreConnection,
) -> _Sized[T]:
    """Return what *ask* gives and its size, for which the event loop has no time: it may have megabytes."""
    value = ask(reader, db, budget)
    return _Sized(value, len(msgspec.msgpack.encode(value)) if is_kept else 0)
