"""What readers find out in the background: once for each contents, and again when it is due."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from collated.protocol import StoresParams
from collated_readers import Budget, Examined, StoreError, StoreFacts
from collated_readers.contextpull import ContextPull

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from pathlib import Path

    from tests.daemon.conftest import Assemble, Parts, PutStore, Until

pytestmark = pytest.mark.anyio


class Curious(ContextPull):
    """A reader that examines as it is told, and counts how often."""

    def __init__(self) -> None:
        self.times = 0
        self.roots: list[str | None] = []
        self.answer: Examined | Exception = Examined({"state": "fine"})
        self.held: threading.Event | None = None
        self.was_cancelled = threading.Event()

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """Say when the store was built."""
        facts = super().open(db, tables)
        return StoreFacts(
            facts.schema_version, facts.identity, facts.documents, facts.records, details={"built": 1}
        )

    def examine(self, db: sqlite3.Connection, root: str | None, budget: Budget) -> Examined:
        """Give the answer, once it is let go."""
        self.times += 1
        self.roots.append(root)
        while self.held is not None and not self.held.wait(0.01):
            if budget.is_spent():
                self.was_cancelled.set()
                budget.check()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def curious() -> Curious:
    return Curious()


@pytest.fixture
async def parts(assemble: Assemble, curious: Curious, stores: Path, put_store: PutStore) -> Parts:
    put_store(stores / "fruit.sqlite", "fruit")
    parts = assemble(None, [curious])
    await parts.look()
    return parts


def details(parts: Parts) -> dict[str, Any]:
    (store,) = parts.methods.stores(StoresParams()).stores
    return store.details


async def test_what_was_found_is_shown_beside_the_facts(parts: Parts, curious: Curious, until: Until) -> None:
    assert details(parts) == {"built": 1}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: details(parts) == {"built": 1, "state": "fine"})
        tasks.cancel_scope.cancel()
    assert (curious.times, curious.roots) == (1, [None])


async def test_other_contents_are_examined_anew_and_the_same_only_when_due(
    parts: Parts, curious: Curious, stores: Path, put_store: PutStore, until: Until
) -> None:
    curious.answer = Examined({"turn": 1}, again_s=0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: curious.times >= 3)
        curious.answer = Examined({"turn": 2})
        await until(lambda: details(parts)["turn"] == 2)
        before = curious.times
        put_store(stores / "fruit.sqlite", "trees")
        await parts.look()
        await until(lambda: curious.times == before + 1)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "error", [StoreError("damaged", "it is broken"), ValueError("a fault of the reader")]
)
async def test_a_failure_is_shown_and_ends_nothing(
    parts: Parts, curious: Curious, stores: Path, put_store: PutStore, *, until: Until, error: Exception
) -> None:
    curious.answer = error
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        if isinstance(error, StoreError):
            said = {"code": "damaged", "message": "it is broken"}
            await until(lambda: details(parts) == {"built": 1, "error": said})
        await until(lambda: curious.times == 1)
        curious.answer = Examined({"state": "fine"})
        put_store(stores / "fruit.sqlite", "trees")
        await parts.look()
        await until(lambda: details(parts) == {"built": 1, "state": "fine"})
        tasks.cancel_scope.cancel()


async def test_the_work_ends_with_the_daemon(parts: Parts, curious: Curious, until: Until) -> None:
    curious.held = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: curious.times == 1)
        tasks.cancel_scope.cancel()
    await until(curious.was_cancelled.is_set)
