from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from collated.inventory import Inventory
from collated.protocol import Changes
from collated.settings import Pinned, Settings, Watched
from collated_readers import Query, State, StoreError
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection, translate

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld, PutStore, Until
    from tests.daemon.worlds import Assemble

pytestmark = pytest.mark.anyio


def edit(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()
    for suffix in "-wal", "-shm":
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def apart(function: Callable[..., object], *arguments: object) -> None:
    """Do what another program would, outside the event loop."""
    await anyio.to_thread.run_sync(function, *arguments)


# --------------------------------------------------------------------------- looking


async def test_a_look_opens_what_is_there_and_says_what_changed(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "b.sqlite", "trees")
    put_store(stores / "a.sqlite", "fruit")
    inventory = assemble().inventory

    assert await inventory.look(now=True) == Changes(["a", "b"], [], [])
    assert await inventory.look(now=True) == Changes([], [], [])

    store = inventory.named("a")
    assert store is not None
    assert (store.state, store.format, store.schema_version) == (State.OPEN, "contextpull", "1.0")
    assert (store.documents, store.records) == (3, 3)
    assert [each.name for each in inventory.in_order()] == ["a", "b"]
    assert "search" in inventory.capabilities(store)
    assert inventory.reader(store).format == "contextpull"
    assert inventory.looks == 2


async def test_every_file_that_was_found_has_a_state_and_a_reason(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    edit(put_store(stores / "newer.sqlite"), "UPDATE meta SET value = '2.0' WHERE key = 'schema_version'")
    edit(put_store(stores / "building.sqlite"), "DELETE FROM meta WHERE key = 'corpus_fingerprint'")
    edit(put_store(stores / "half.sqlite"), "DROP TABLE documents")
    edit(stores / "other.sqlite", "CREATE TABLE t (x)")
    put_store(stores / "writing.sqlite")
    (stores / "writing.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9 a hot journal")
    (stores / "text.sqlite").write_text("just text")
    (stores / "empty.sqlite").touch()
    (stores / "folder.sqlite").mkdir()
    (stores / "dangling.sqlite").symlink_to("nowhere")
    put_store(stores / "good.sqlite")
    run = assemble()

    await run.inventory.look(now=True)

    assert run.states == {
        "building": "building",
        "dangling": "broken_symlink",
        "empty": "empty_file",
        "folder": "not_a_file",
        "good": "open",
        "half": "wrong_schema",
        "newer": "unsupported_version",
        "other": "unknown_format",
        "text": "not_sqlite",
        "writing": "hot_journal",
    }
    newer = run.inventory.named("newer")
    assert newer is not None
    assert newer.reason is not None
    assert "'2.0'" in newer.reason.message
    assert "1.x" in newer.reason.message
    assert run.inventory.capabilities(newer) == frozenset()
    assert len(run.pool) >= 1


async def test_a_store_that_collides_with_another_renames_both_and_opens_neither_again(
    assemble: Assemble, tmp_path: Path, put_store: PutStore
) -> None:
    put_store(tmp_path / "x" / "docs.sqlite")
    run = assemble(Settings(watch=(Watched(str(tmp_path), match=("x/*", "y/*")),)))
    await run.inventory.look(now=True)
    before = run.inventory.named("docs")
    put_store(tmp_path / "y" / "docs.sqlite")

    changes = await run.inventory.look(now=True)

    assert changes == Changes(["x-docs", "y-docs"], [], ["docs"])
    after = run.inventory.named("x-docs")
    assert before is not None
    assert after is not None
    assert (after.path, after.fingerprint) == (before.path, before.fingerprint)
    assert run.inventory.named("docs") is None


async def test_a_file_that_is_moved_is_another_store(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    run = assemble()
    await run.inventory.look(now=True)
    await apart((stores / "a.sqlite").rename, stores / "b.sqlite")

    assert await run.inventory.look(now=True) == Changes(["b"], [], ["a"])
    assert run.states == {"b": "open"}
    assert len(run.pool) == 1


async def test_a_store_whose_file_becomes_something_else_says_so_and_comes_back(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    path = put_store(stores / "a.sqlite")
    run = assemble()
    await run.inventory.look(now=True)
    epoch = run.inventory.epoch

    await apart(path.write_bytes, b"")
    assert await run.inventory.look(now=True) == Changes([], ["a"], [])
    assert run.states == {"a": "empty_file"}
    assert run.inventory.epoch > epoch

    await apart(put_store, path)
    assert await run.inventory.look(now=True) == Changes([], ["a"], [])
    assert run.states == {"a": "open"}


async def test_the_epoch_stands_still_while_nothing_changes(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    inventory = assemble().inventory
    await inventory.look(now=True)
    epoch = inventory.epoch
    await inventory.look(now=True)
    await inventory.look(now=False)

    assert inventory.epoch == epoch


async def test_a_name_can_be_pinned_by_new_settings(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    target = put_store(stores / "far" / "s.sqlite")
    (stores / "a.sqlite").symlink_to(target)
    run = assemble()
    await run.inventory.look(now=True)
    assert run.states == {"a": "open"}

    run.inventory.adopt(Settings(store=(Pinned(str(stores / "a.sqlite"), "mine"),)))

    assert await run.inventory.look(now=True) == Changes(["mine"], [], ["a"])


async def test_listeners_hear_what_changed(assemble: Assemble, stores: Path, put_store: PutStore) -> None:
    inventory = assemble().inventory
    heard: list[Changes] = []
    inventory.listeners.add(heard.append)
    put_store(stores / "a.sqlite")

    await inventory.look(now=True)
    await inventory.look(now=True)

    assert heard == [Changes(["a"], [], [])]


async def test_what_a_cancelled_look_has_found_is_told_by_the_next(
    world: OpenWorld, put_store: PutStore, until: Until
) -> None:
    opened = await world({"gone": {}})
    inventory = opened.parts.inventory
    is_opening, is_over = threading.Event(), threading.Event()
    heard: list[Changes] = []

    def hold(db: StoreConnection) -> None:
        is_opening.set()
        is_over.wait(30)

    opened.reader.script["new"] = {}
    opened.reader.acts["new", "open"] = hold
    inventory.listeners.add(heard.append)
    opened.path("gone").unlink()
    put_store(opened.path("new"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opened.parts.look)
        await until(is_opening.is_set)
        tasks.cancel_scope.cancel()
    is_over.set()

    assert await inventory.look(now=True) == Changes(["new"], [], ["gone"])
    assert heard == [Changes(["new"], [], ["gone"])]
    assert opened.parts.states == {"new": "open"}


# --------------------------------------------------------------------------- readers


async def test_only_the_readers_in_the_list_are_offered_a_store(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    run = assemble(readers=())

    await run.inventory.look(now=True)

    assert run.states == {"a": "unknown_format"}
    assert run.inventory.formats == {}


class Clumsy(ContextPull):
    """A reader with a fault that only some stores bring out."""

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """Fail on a table that no other store has."""
        assert "trap" not in tables
        return super().recognises(db, tables)


async def test_a_fault_of_our_own_costs_one_store_and_no_other(
    assemble: Assemble, stores: Path, put_store: PutStore, logs: list[Any]
) -> None:
    edit(put_store(stores / "a.sqlite"), "CREATE TABLE trap (x)")
    put_store(stores / "b.sqlite")
    run = assemble(readers=[Clumsy()])

    await run.inventory.look(now=True)

    assert run.states == {"a": "internal", "b": "open"}
    (failed,) = (event for event in logs if event["event"] == "store_open_failed")
    assert (failed["store"], failed["exc_info"]) == ("a", True)


# --------------------------------------------------------------------------- which stores can match


def matching(inventory: Inventory, text: str) -> list[str]:
    """Return the names of the stores that may hold a word of *text*."""
    answers = inventory.filters.may_match(ContextPull().phrases(Query(text)))
    stores = inventory.in_order()
    slots = inventory.filters.slots_of([store.path for store in stores])
    return [store.name for store, is_one in zip(stores, answers[slots], strict=True) if is_one]


async def test_only_stores_that_hold_a_word_of_the_query_may_match(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    for name in "fruit", "stars", "trees":
        put_store(stores / f"{name}.sqlite", name)
    inventory = assemble().inventory
    await inventory.look(now=True)

    assert matching(inventory, "garden") == ["fruit", "stars", "trees"]
    assert matching(inventory, "fig centuries") == ["fruit", "trees"]
    assert matching(inventory, "Sun!") == ["stars"]
    assert matching(inventory, "nowhere") == []
    assert matching(inventory, "") == []


async def test_a_store_that_is_not_open_may_always_match(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    edit(put_store(stores / "building.sqlite"), "DELETE FROM meta WHERE key = 'corpus_fingerprint'")
    (stores / "text.sqlite").write_text("just text")
    (stores / "folder.sqlite").mkdir()
    inventory = assemble().inventory
    await inventory.look(now=True)
    assert matching(inventory, "nowhere") == ["building", "folder", "text"]

    await apart((stores / "a.sqlite").write_bytes, b"")
    await inventory.look(now=True)
    assert matching(inventory, "nowhere") == ["a", "building", "folder", "text"]


async def test_a_store_that_is_rewritten_matches_by_what_it_holds_now(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    path = put_store(stores / "a.sqlite", "fruit")
    inventory = assemble().inventory
    await inventory.look(now=True)

    await apart(put_store, path, "trees")
    await inventory.look(now=True)
    assert (matching(inventory, "fig"), matching(inventory, "oak")) == ([], ["a"])

    await apart(put_store, path, "stars")
    await inventory.refresh(str(path))
    assert (matching(inventory, "oak"), matching(inventory, "sun")) == ([], ["a"])


async def test_a_store_that_is_renamed_or_gone_takes_its_filter_with_it(
    assemble: Assemble, tmp_path: Path, put_store: PutStore
) -> None:
    put_store(tmp_path / "x" / "docs.sqlite", "fruit")
    run = assemble(Settings(watch=(Watched(str(tmp_path), match=("x/*", "y/*")),)))
    await run.inventory.look(now=True)
    await apart(put_store, tmp_path / "y" / "docs.sqlite", "trees")
    await run.inventory.look(now=True)
    assert (matching(run.inventory, "fig"), matching(run.inventory, "oak")) == (["x-docs"], ["y-docs"])

    await apart((tmp_path / "x" / "docs.sqlite").unlink)
    await run.inventory.look(now=True)
    assert (matching(run.inventory, "fig"), matching(run.inventory, "oak")) == ([], ["docs"])
    assert not run.inventory.filters.may_match([(b"fig",)]).any()


class Wordless(ContextPull):
    """A reader whose words cannot be looked up."""

    def vocabulary(self, db: sqlite3.Connection) -> None:
        """Have none."""


async def test_a_store_without_a_vocabulary_may_always_match(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    run = assemble(readers=[Wordless()])
    await run.inventory.look(now=True)

    assert run.states == {"a": "open"}
    assert matching(run.inventory, "nowhere") == matching(run.inventory, "") == ["a"]


class Broken(ContextPull):
    """A reader that cannot read a vocabulary."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def vocabulary(self, db: sqlite3.Connection) -> list[bytes]:
        """Fail."""
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        StoreError("damaged", "half an index"),
        StoreError("deadline_exceeded", "too many words"),
        sqlite3.DatabaseError("database disk image is malformed"),
        OSError(5, "Input/output error"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_store_whose_vocabulary_cannot_be_read_is_open_and_may_always_match(
    assemble: Assemble, stores: Path, put_store: PutStore, logs: list[Any], error: Exception
) -> None:
    path = put_store(stores / "a.sqlite")
    run = assemble(readers=[Broken(error)])
    await run.inventory.look(now=True)

    assert run.states == {"a": "open"}
    assert matching(run.inventory, "nowhere") == ["a"]
    (warning,) = (event for event in logs if event["event"] == "terms_not_read")
    assert warning == {
        "event": "terms_not_read",
        "log_level": "warning",
        "path": str(path),
        "code": translate(error, path).code,
    }


async def test_no_filter_is_printed_where_a_store_is_announced(
    assemble: Assemble, stores: Path, put_store: PutStore, logs: list[Any]
) -> None:
    put_store(stores / "a.sqlite")
    await assemble().inventory.look(now=True)

    (event,) = (event for event in logs if event["event"] == "store")
    assert event.keys() == {"event", "log_level", "store", "state", "reason"}


# --------------------------------------------------------------------------- one store anew


async def test_refreshing_takes_in_what_a_store_now_holds(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    path = put_store(stores / "a.sqlite", "fruit")
    inventory = assemble().inventory
    await inventory.look(now=True)
    before = inventory.named("a")
    await apart(put_store, path, "trees")
    await apart(os.utime, path)

    after = await inventory.refresh(str(path))

    assert before is not None
    assert after is not None
    assert after == inventory.named("a")
    assert (before.records, after.records) == (3, 2)
    assert after.fingerprint != before.fingerprint
    assert await inventory.look(now=True) == Changes([], [], [])


async def test_refreshing_a_store_that_is_gone_says_that_it_vanished(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    path = put_store(stores / "a.sqlite")
    inventory = assemble().inventory
    await inventory.look(now=True)
    await apart(path.unlink)

    after = await inventory.refresh(str(path))

    assert after is not None
    assert after.reason is not None
    assert after.reason.code == "vanished"


async def test_a_path_that_nobody_found_cannot_be_refreshed(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    path = put_store(stores / "a.sqlite")

    assert await assemble().inventory.refresh(str(path)) is None
    assert await assemble().inventory.refresh(str(stores / "nothing")) is None


async def test_two_that_look_at_the_same_time_take_turns(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "a.sqlite")
    inventory = assemble().inventory
    heard: list[Changes] = []

    async def look() -> None:
        heard.append(await inventory.look(now=True))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(look)

    assert sorted(len(changes.added) for changes in heard) == [0, 0, 0, 1]
