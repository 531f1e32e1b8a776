"""One question to every store that can answer it; each store's part is kept by fingerprint (DESIGN §8)."""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from collated_readers import Budget, Reader, StoreError
from collated_readers.opening import StoreConnection

from .cache import Cache
from .fanout import Fanout
from .selection import Asked, Selection

__all__ = ["Ask", "Gathering"]

T = TypeVar("T", bound=Struct)

Ask = Callable[[Reader, StoreConnection, Budget], T]
"""Asks one store through its reader."""


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

        async def take(each: Asked, answer: T) -> None:
            answers[each.store.name] = answer
            if key is not None:
                size = len(msgspec.msgpack.encode(answer))
                self._cache.put((each.store.fingerprint, method, *key), answer, size)

        def question(each: Asked) -> Callable[[StoreConnection], T]:
            return partial(_asked, method, ask, each, budget)

        async def job(each: Asked, hop: Budget) -> None:
            await take(each, await self._fanout.ask(each, partial(_asked, method, ask, each, hop), hop))

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


def _asked(method: str, ask: Ask[T], each: Asked, budget: Budget, db: StoreConnection) -> T:
    if method not in each.reader.capabilities:
        raise StoreError("vanished", "the store was replaced by one of another format while it was asked")
    return ask(each.reader, db, budget)
