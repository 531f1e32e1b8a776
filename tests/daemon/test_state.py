from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio.to_thread
import msgspec
import pytest

from collated.catalog import Store, opened, without
from collated.state import Memory
from collated_readers import State, StoreError, StoreFacts
from collated_readers.contract import STORE_CODES
from collated_readers.opening import Signature

pytestmark = pytest.mark.anyio

SIGNATURE = Signature(device=1, inode=2, size=4096, mtime_ns=5, wal_size=0, wal_mtime_ns=-7)
FACTS = StoreFacts("1.0", "identity", documents=2, records=7, model="minilm")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.sqlite"


@pytest.fixture
async def memory(file: Path) -> AsyncIterator[Memory]:
    memory = Memory(file)
    yield memory
    await memory.close()


def an_open_store(path: str, name: str = "s") -> Store:
    return opened(Store(path, name, None), "contextpull", FACTS, SIGNATURE, term_filter=bytes(range(64)))


def a_refused_store(path: str) -> Store:
    return without(Store(path, "r", None), StoreError("unsupported_version", "2.0, not 1.x"), SIGNATURE)


def is_private(file: Path) -> bool:
    return file.is_file() and file.parent.stat().st_mode & 0o777 == 0o700


async def remembered(file: Path) -> dict[str, Store]:
    """Return what another run finds."""
    memory = Memory(file)
    try:
        return await memory.load()
    finally:
        await memory.close()


# --------------------------------------------------------------------------- remembering


async def test_a_first_start_remembers_nothing_and_makes_the_file(memory: Memory, file: Path) -> None:
    assert await memory.load() == {}

    assert memory.error is None
    assert is_private(file)


async def test_the_next_start_finds_what_was_saved(memory: Memory, file: Path) -> None:
    await memory.load()
    stores = [an_open_store("/a", "a"), a_refused_store("/b")]
    await memory.save(stores, ())

    assert await remembered(file) == {"/a": stores[0], "/b": stores[1]}


@pytest.mark.parametrize("raw", [b"/caf\xe9/\xff\xfe.sqlite", "/日本/é.sqlite".encode(), b"/a\nb#?%.sqlite"])
async def test_a_path_of_any_bytes_comes_back_as_it_was(memory: Memory, file: Path, raw: bytes) -> None:
    await memory.load()
    store = an_open_store(os.fsdecode(raw))
    await memory.save([store], ())

    assert await remembered(file) == {os.fsdecode(raw): store}
    assert os.fsencode(store.path) == raw


async def test_a_change_replaces_what_was_known_and_a_removal_forgets_it(memory: Memory, file: Path) -> None:
    await memory.load()
    await memory.save([an_open_store("/a", "a"), an_open_store("/b", "b"), an_open_store("/c", "c")], ())
    renamed = an_open_store("/a", "other")
    await memory.save([renamed], ["/b", "/never/known"])

    assert await remembered(file) == {"/a": renamed, "/c": an_open_store("/c", "c")}


async def test_only_what_will_still_be_true_is_remembered(memory: Memory, file: Path) -> None:
    await memory.load()
    stores = [without(Store(f"/{code}", "n", None), StoreError(code, "m"), SIGNATURE) for code in STORE_CODES]
    unseen = msgspec.structs.replace(a_refused_store("/unseen"), signature=None)
    await memory.save([*stores, unseen], ())

    found = await remembered(file)
    assert found
    assert {store.state for store in found.values()} == {State.REFUSED}
    assert "/unseen" not in found


@pytest.mark.parametrize("code", ["locked", "damaged", "building"])
async def test_a_store_that_was_open_and_is_no_longer_is_not_remembered_as_open(
    memory: Memory, file: Path, code: str
) -> None:
    await memory.load()
    store = an_open_store("/a")
    await memory.save([store], ())
    await memory.save([without(store, StoreError(code, "m"), SIGNATURE)], ())

    assert await remembered(file) == {}


# --------------------------------------------------------------------------- files that are not ours


def a_database(file: Path, *statements: str) -> None:
    db = sqlite3.connect(file)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def garbage(file: Path) -> None:
    file.write_bytes(b"no database " * 1_000)


def cut_short(file: Path) -> None:
    a_database(file, "CREATE TABLE store (path BLOB PRIMARY KEY, value BLOB) STRICT", "CREATE TABLE t (x)")
    os.truncate(file, 5_000)


def foreign(file: Path) -> None:
    a_database(file, "CREATE TABLE store (colour TEXT)")


def of_another_version(file: Path) -> None:
    a_database(file, "PRAGMA user_version = 7", "CREATE TABLE other (x)")


def with_values_of_another_kind(file: Path) -> None:
    a_database(
        file,
        "CREATE TABLE store (path BLOB PRIMARY KEY, value BLOB) STRICT",
        "INSERT INTO store VALUES (x'2f61', x'c1')",
    )


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    "broken", [garbage, cut_short, foreign, of_another_version, with_values_of_another_kind, empty]
)
async def test_a_file_that_cannot_be_used_is_made_anew(
    memory: Memory, file: Path, broken: Callable[[Path], None]
) -> None:
    file.parent.mkdir()
    broken(file)

    assert await memory.load() == {}
    assert memory.error is None
    await memory.save([an_open_store("/a")], ())
    await memory.close()
    assert await remembered(file) == {"/a": an_open_store("/a")}


async def test_a_file_that_another_program_holds_locked_is_no_reason_not_to_start(
    memory: Memory, file: Path
) -> None:
    file.parent.mkdir()
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("PRAGMA journal_mode = WAL")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("CREATE TABLE t (x)")

    assert await memory.load() == {}
    await memory.save([an_open_store("/a")], ())

    holder.close()


async def test_a_directory_that_cannot_be_made_means_doing_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    memory = Memory(tmp_path / "file" / "state.sqlite")

    assert await memory.load() == {}
    assert memory.error is not None
    await memory.save([an_open_store("/a")], ["/b"])
    await memory.close()


async def test_a_directory_where_the_file_should_be_means_doing_without(memory: Memory, file: Path) -> None:
    (file / "full").mkdir(parents=True)

    assert await memory.load() == {}
    assert memory.error is not None
    await memory.save([an_open_store("/a")], ())
    assert (file / "full").is_dir()


async def test_a_failed_save_is_told_and_made_good_by_the_next(memory: Memory, file: Path) -> None:
    await memory.load()
    await anyio.to_thread.run_sync(a_database, file, "ALTER TABLE store RENAME TO hidden")
    await memory.save([an_open_store("/a")], ())
    assert memory.error is not None
    assert "cannot be written" in memory.error

    await anyio.to_thread.run_sync(a_database, file, "ALTER TABLE hidden RENAME TO store")
    await memory.save([an_open_store("/b")], ())

    assert memory.error is None
    assert "/b" in await remembered(file)


async def test_closing_twice_does_no_harm(memory: Memory) -> None:
    await memory.load()
    await memory.close()
    await memory.close()
