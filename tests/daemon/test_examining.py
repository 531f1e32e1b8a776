"""What readers find out in the background: once for each contents, and again when it is due."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from collated.catalog import Store
from collated.protocol import StoresParams
from collated_readers import Budget, Examined, StoreError, StoreFacts
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from pathlib import Path

    from tests.conftest import MakeStore
    from tests.daemon.conftest import PutStore, Until
    from tests.daemon.worlds import Assemble, Parts

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


class Slow(Curious):
    """Holds the store `large`, and writes down what it has begun with."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.gate = threading.Event()

    def examine(self, db: sqlite3.Connection, root: str | None, budget: Budget) -> Examined:
        """Wait where the store is the large one."""
        assert isinstance(db, StoreConnection)
        self.begun.append(db.path.stem)
        while db.path.stem == "large" and not self.gate.wait(0.01):
            budget.check()
        return super().examine(db, root, budget)


async def test_small_stores_do_not_wait_for_a_large_one(
    assemble: Assemble, stores: Path, make_store: MakeStore, until: Until
) -> None:
    make_store(stores / "a-bigger.sqlite", {f"{number}.md": "a word " * 5_000 for number in range(9)})
    for name in ("small", "smaller", "large"):
        make_store(stores / f"{name}.sqlite", {f"{name}.md": "a word"})
    slow = Slow()
    parts = assemble(None, [slow])
    await parts.look()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: len(slow.begun) == 4 and slow.times == 3)
        slow.gate.set()
        await until(lambda: slow.times == 4)
        tasks.cancel_scope.cancel()
    # Whose thread begins first of the first two is nobody's to say.
    assert [name for name in slow.begun if name != "large"] == ["small", "smaller", "a-bigger"]


async def test_a_store_that_is_examined_while_another_comes_is_examined_again_when_due(
    assemble: Assemble, stores: Path, put_store: PutStore, until: Until
) -> None:
    slow = Slow()
    slow.answer = Examined({"state": "fine"}, again_s=0.0)
    put_store(stores / "large.sqlite")
    parts = assemble(None, [slow])
    await parts.look()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: slow.begun == ["large"])
        put_store(stores / "other.sqlite", "trees")
        await parts.look()
        await until(lambda: slow.begun.count("other") > 1)
        slow.gate.set()
        await until(lambda: slow.begun.count("large") > 1)
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_store_that_changes_again_and_again_is_left_alone_for_a_while(
    parts: Parts, curious: Curious, stores: Path, put_store: PutStore, until: Until
) -> None:
    curious.held = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: curious.times == 1)
        await anyio.sleep(0.5)  # it takes so long, and four times as long nobody examines it again
        curious.held.set()
        await until(lambda: details(parts).get("state") == "fine")
        put_store(stores / "fruit.sqlite", "trees")
        await parts.look()
        put_store(stores / "other.sqlite", "stars")
        await parts.look()
        await until(lambda: curious.times == 2)  # the other one, which came later
        assert parts.examining.details(parts.inventory.in_order()[0]) == {"built": 1}
        await until(lambda: curious.times == 3)
        tasks.cancel_scope.cancel()


class Catalog(dict[str, Store]):
    """Stores, of which is counted how often all were looked at."""

    looks = 0

    def values(self) -> Any:
        """Count."""
        self.looks += 1
        return super().values()


async def test_many_stores_are_not_looked_at_again_after_each(
    assemble: Assemble, stores: Path, put_store: PutStore, until: Until
) -> None:
    curious = Curious()
    for number in range(30):
        put_store(stores / f"{number}.sqlite")
    parts = assemble(None, [curious])
    await parts.look()
    parts.inventory.stores = catalog = Catalog(parts.inventory.stores)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: curious.times == 30)
        tasks.cancel_scope.cancel()
    assert catalog.looks == 1


async def test_the_work_ends_with_the_daemon(parts: Parts, curious: Curious, until: Until) -> None:
    curious.held = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: curious.times == 1)
        tasks.cancel_scope.cancel()
    await until(curious.was_cancelled.is_set)
