from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from collated import __version__
from collated.errors import RequestFailed
from collated.methods import Methods
from collated.protocol import METHODS, NO_STORES, Changes, NoParams, SearchParams, StoresParams
from collated.settings import Cache, Search, Settings
from collated_readers.opening import StoreConnection
from collated_readers.registry import READERS

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld, PutStore, Until
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def parts(assemble: Assemble, stores: Path, put_store: PutStore) -> Parts:
    """The parts of a daemon that has found `fruit`, `trees` and something that is no store."""
    put_store(stores / "fruit.sqlite", "fruit")
    put_store(stores / "trees.sqlite", "trees")
    (stores / "zz.sqlite").write_text("just text")
    parts = assemble()
    await parts.look()
    return parts


async def ask(methods: Methods, method: str, **params: object) -> Any:
    """Ask as a session does, params by their names on the wire, and return the decoded result."""
    typed = msgspec.convert(params, METHODS[method].params)
    encoded = await methods.answer(methods.codec("lines"), method, typed, None)
    return msgspec.json.decode(encoded, type=METHODS[method].result)


async def refused(methods: Methods, method: str, **params: object) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        await ask(methods, method, **params)
    return caught.value


# --------------------------------------------------------------------------- what the daemon says of itself


async def test_initialize_says_what_this_daemon_speaks(parts: Parts) -> None:
    result = parts.methods.initialize("headers")

    assert (result.protocol, result.framing, result.server["version"]) == (1, "headers", __version__)
    assert result.methods == sorted(METHODS)
    assert result.formats == {reader.format: reader.versions for reader in READERS}
    assert result.limits == {"max_frame_bytes": 8_388_608, "max_in_flight": 64, "deadline_s": 2.0}
    assert result.backends == []  # no engine is part of these


@pytest.mark.rule("required-face")
async def test_a_client_may_require_what_is_reported_and_nothing_else(parts: Parts) -> None:
    reported = parts.methods.initialize("headers")
    require = [*reported.methods, *reported.formats, *reported.backends]

    assert parts.methods.initialize("headers", require) == reported
    with pytest.raises(RequestFailed, match=r"no gpu, memory\.explain") as caught:
        parts.methods.initialize("headers", [*require, "memory.explain", "gpu"])
    assert caught.value.code == "RequiredFaceAbsent"


async def test_status_counts_stores_by_state(parts: Parts) -> None:
    parts.methods.config_error = "no such key"

    status = parts.methods.status(NoParams())

    assert status.stores == {"open": 2, "refused": 1}
    assert (status.version, status.config_error) == (__version__, "no such key")
    assert status.memory["open_stores"] == 2
    assert status.memory["rss_bytes"] > 1_000_000
    assert (status.watch["looks"], status.watch["error"], status.watch["state_error"]) == (1, None, None)
    assert (status.connections, status.in_flight) == (0, 0)
    assert status.socket.endswith("/socket")


async def test_stores_come_by_name_with_what_they_hold_or_why_they_do_not_open(parts: Parts) -> None:
    fruit, trees, text = parts.methods.stores(StoresParams()).stores

    assert (fruit.name, fruit.state, fruit.documents, trees.name) == ("fruit", "open", 3, "trees")
    assert fruit.capabilities == ["grep", "index", "neighbours", "read", "search"]
    assert text.reason is not None
    assert (text.name, text.state, text.reason.code) == ("zz", "refused", "not_sqlite")


async def test_stores_can_be_chosen_by_name_and_format(parts: Parts) -> None:
    def chosen(**params: list[str]) -> list[str]:
        return [store.name for store in parts.methods.stores(StoresParams(**params)).stores]

    assert chosen(stores=["zz", "fruit", "zz"]) == ["fruit", "zz"]
    assert chosen(formats=["contextpull"]) == ["fruit", "trees"]
    with pytest.raises(RequestFailed):
        chosen(stores=["fruits"])
    with pytest.raises(RequestFailed):
        chosen(formats=["pdf"])


@pytest.mark.slow
async def test_the_cache_names_each_open_store_and_what_became_of_its_sidecar(
    parts: Parts, until: Until
) -> None:
    before = await ask(parts.methods, "cache")
    assert [(each.store, each.state, each.records) for each in before.entries] == [
        ("fruit", "waiting", 3),
        ("trees", "waiting", 2),
    ]
    assert (before.bytes, before.limit_bytes, before.error) == (0, Settings().cache.sidecar_bytes, None)
    async with anyio.create_task_group() as tasks:
        stores = parts.inventory.stores
        tasks.start_soon(parts.keeper.run, lambda: list(stores.values()), parts.inventory.first_opened)
        await until(lambda: parts.methods.status(NoParams()).sidecars["ready"] == 2)
        assert (await ask(parts.methods, "cache", clear=True)).freed_bytes > 0
        tasks.cancel_scope.cancel()


# --------------------------------------------------------------------------- asking


async def test_each_method_of_the_table_is_answered(parts: Parts) -> None:
    hits = (await ask(parts.methods, "search", query="garden")).hits
    matches = (await ask(parts.methods, "grep", pattern="apple")).matches
    record = await ask(parts.methods, "read", ref=hits[0].ref, context=5)
    around = await ask(parts.methods, "neighbours", ref="fruit:apple.md#0")
    contents = await ask(parts.methods, "index", store="fruit")
    lines = await ask(parts.methods, "index")

    assert {hit.store for hit in hits} == {"fruit", "trees"}
    assert [match.store for match in matches] == ["fruit", "trees"]
    assert (record.ref, record.text.count("garden")) == (hits[0].ref, 1)
    assert around.records[0].ref == "fruit:apple.md#0"
    assert "apple.md" in contents.text
    assert lines.text.splitlines()[0] == f"{'fruit':<30}  contextpull  3 documents · 3 records"
    assert lines.text.splitlines()[2].startswith(f"{'zz':<30}  -  refused: ")


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("read", {"ref": "fruit"}, "unknown_id"),
        ("read", {"ref": "fruit:"}, "unknown_id"),
        ("read", {"ref": ":x"}, "unknown_id"),
        ("read", {"ref": ""}, "invalid_params"),
        ("read", {"ref": "fruits:x"}, "unknown_store"),
        ("read", {"ref": "fruit:nothing"}, "unknown_id"),
        ("read", {"ref": "fruit:a:b:c"}, "unknown_id"),
        ("read", {"ref": "zz:x"}, "store_unavailable"),
        ("neighbours", {"ref": "fruit:nothing"}, "unknown_id"),
        ("index", {"store": "fruits"}, "unknown_store"),
        ("index", {"prefix": "a"}, "invalid_params"),
        ("index", {"store": "zz"}, "store_unavailable"),
        ("search", {"query": "q", "stores": ["fruits"]}, "unknown_store"),
        ("search", {"query": "q", "formats": ["pdf"]}, "invalid_params"),
        ("search", {"query": "q", "deadline_ms": 0}, "invalid_params"),
        ("search", {"query": "q", "deadline_ms": -5}, "invalid_params"),
        ("grep", {"pattern": "(", "regex": True}, "pattern_rejected"),
        ("grep", {"pattern": "x" * 201}, "pattern_rejected"),
    ],
)
async def test_what_cannot_be_answered_has_its_code(
    parts: Parts, method: str, params: dict[str, Any], code: str
) -> None:
    assert (await refused(parts.methods, method, **params)).code == code


async def test_what_is_unavailable_repeats_the_reason(parts: Parts) -> None:
    failed = await refused(parts.methods, "read", ref="zz:x")

    assert failed.message.startswith("zz is refused (not_sqlite): ")


@pytest.mark.parametrize(("method", "what"), [("search", "phrase"), ("grep", "grep")])
async def test_a_request_ends_at_its_deadline(world: OpenWorld, method: str, what: str) -> None:
    opened = await world({"a": {}})
    opened.reader.acts["a", what] = endless
    params = {"query": "q"} if method == "search" else {"pattern": "q"}

    failed = await refused(opened.parts.methods, method, deadline_ms=50, **params)

    assert failed.code == "deadline_exceeded"


def endless(db: StoreConnection) -> object:
    return db.execute(
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
    ).fetchone()


async def test_reading_ends_at_its_deadline_even_where_the_reader_does_not_keep_it(
    world: OpenWorld,
) -> None:
    is_over = threading.Event()
    opened = await world({"a": {}})
    opened.reader.acts["a", "read"] = lambda db: is_over.wait(30)
    try:
        failed = await refused(opened.parts.methods, "read", ref="a:x", deadline_ms=50)
    finally:
        is_over.set()

    assert failed.code == "deadline_exceeded"
    assert "a did not answer in time" in failed.message


async def test_a_store_without_the_method_says_that_it_is_unsupported(world: OpenWorld) -> None:
    opened = await world({"a": {}})
    opened.reader.capabilities = frozenset({"search"})

    failed = await refused(opened.parts.methods, "read", ref="a:x")

    assert (failed.code, failed.message) == ("unsupported", "a store of format scripted has no `read`")


# --------------------------------------------------------------------------- before and after a look


async def test_a_question_before_the_first_look_waits_for_it(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "fruit.sqlite", "fruit")
    methods = assemble().methods
    found: list[Any] = []

    async def wait() -> None:
        found.append(await ask(methods, "search", query="apple"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not methods.is_at_once("stores")
        tasks.start_soon(methods.inventory.run)
        with anyio.fail_after(10):
            while not found:
                await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert [hit.store for hit in found[0].hits] == ["fruit"]
    assert methods.is_at_once("stores")


async def test_a_question_that_nobody_can_answer_yet_has_failed_at_the_deadline(assemble: Assemble) -> None:
    methods = assemble(Settings(search=Search(deadline_s=0.05))).methods

    for method, params in [
        ("search", {"query": "q"}),
        ("grep", {"pattern": "q"}),
        ("read", {"ref": "a:x"}),
        ("index", {}),
        ("stores", {}),
    ]:
        assert (await refused(methods, method, **params)).code == "deadline_exceeded"


async def test_a_question_in_sync_is_answered_from_what_is_on_disk_now(
    parts: Parts, stores: Path, put_store: PutStore
) -> None:
    await anyio.to_thread.run_sync(put_store, stores / "stars.sqlite", "stars")
    assert (await ask(parts.methods, "search", query="moon")).hits == []

    found = await ask(parts.methods, "search", query="moon", sync=True)

    assert [hit.store for hit in found.hits] == ["stars"]
    await anyio.to_thread.run_sync((stores / "stars.sqlite").unlink)
    assert (await ask(parts.methods, "grep", pattern="moon", sync=True)).matches == []
    assert (await refused(parts.methods, "read", ref="stars:moon.md#0", sync=True)).code == "unknown_store"


async def test_a_question_in_sync_waits_for_a_store_that_takes_longer_to_open_than_a_look_waits(
    world: OpenWorld, until: Until
) -> None:
    is_open = threading.Event()
    opened = await world({"a": {"any": [("old", -1.0)]}})
    opened.reader.words = [b"other"]  # which says that nothing can match
    opened.touch("a")
    await opened.parts.look()
    opened.reader.acts["a", "open"] = lambda db: is_open.wait(30)
    opened.touch("a")
    looks = opened.parts.inventory.looks
    found: list[str] = []

    async def search() -> None:
        result = await ask(opened.parts.methods, "search", query="q", sync=True, deadline_ms=20_000)
        found.extend(hit.id for hit in result.hits)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        await until(lambda: opened.parts.inventory.looks > looks)
        opened.reader.script["a"] = {"any": [("new", -1.0)]}
        opened.reader.words = [b"q"]
        is_open.set()

    assert found == ["new"]


async def test_a_look_that_takes_longer_than_the_deadline_is_said_to(world: OpenWorld) -> None:
    is_over = threading.Event()
    opened = await world({"a": {}})
    opened.reader.acts["a", "open"] = lambda db: is_over.wait(30)
    opened.touch("a")
    try:
        failed = await refused(opened.parts.methods, "search", query="q", sync=True, deadline_ms=50)
    finally:
        is_over.set()

    assert (failed.code, failed.suggestion) == ("deadline_exceeded", "raise deadline_ms")


async def test_a_rescan_looks_at_once_and_forgives(parts: Parts, stores: Path, put_store: PutStore) -> None:
    (store, *_) = parts.inventory.in_order()
    for _ in range(3):
        parts.fanout.health.failed(store.path, store.fingerprint, "it is broken", 1e9)
    put_store(stores / "stars.sqlite", "stars")

    assert await ask(parts.methods, "rescan") == Changes(["stars"], [], [])
    assert parts.fanout.health.backed_off(store.path, store.fingerprint, 1e9) is None


async def test_a_reload_is_handed_on(parts: Parts) -> None:
    result = await ask(parts.methods, "reload")

    assert (result.settings, parts.reloads) == ([], 1)


# --------------------------------------------------------------------------- what is remembered


def remembered(parts: Parts, method: str, framing: Any = "lines", **params: object) -> bytes | None:
    typed = msgspec.convert(params, METHODS[method].params)
    return parts.methods.remembered(parts.methods.codec(framing), method, typed)


async def test_an_answer_is_remembered_as_it_was_sent(parts: Parts) -> None:
    assert remembered(parts, "search", query="apple") is None
    first = await ask(parts.methods, "search", query="apple")

    again = remembered(parts, "search", query="apple")
    assert again is not None
    assert msgspec.json.decode(again, type=METHODS["search"].result) == first
    assert remembered(parts, "search", query="apple", limit=9) is None
    assert remembered(parts, "search", "msgpack", query="apple") is None
    assert remembered(parts, "search", "headers", query="apple") == again


async def test_no_answer_outlives_a_change_of_any_store(
    parts: Parts, stores: Path, put_store: PutStore
) -> None:
    await ask(parts.methods, "search", query="apple")
    await anyio.to_thread.run_sync(put_store, stores / "stars.sqlite", "stars")
    await parts.look()

    assert remembered(parts, "search", query="apple") is None


async def test_a_question_in_sync_is_never_answered_from_memory(parts: Parts) -> None:
    await ask(parts.methods, "search", query="apple", sync=True)

    assert remembered(parts, "search", query="apple", sync=True) is None


async def test_an_answer_that_is_not_complete_is_not_remembered(world: OpenWorld) -> None:
    def fail(db: StoreConnection) -> None:
        raise ZeroDivisionError

    opened = await world({"a": {}, "b": {}})
    opened.reader.acts["a", "phrase"] = fail
    assert not (await ask(opened.parts.methods, "search", query="q")).complete

    assert remembered(opened.parts, "search", query="q") is None


async def test_an_answer_during_which_a_store_changed_is_not_remembered(world: OpenWorld) -> None:
    def change(db: StoreConnection) -> None:
        if opened.reader.calls["a", "any"] == 1:
            opened.touch("a")

    opened = await world({"a": {}, "b": {}})
    opened.reader.acts["a", "any"] = change
    assert (await ask(opened.parts.methods, "search", query="q")).complete

    assert remembered(opened.parts, "search", query="q") is None


async def test_with_the_cache_off_nothing_is_remembered(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "fruit.sqlite", "fruit")
    parts = assemble(Settings(cache=Cache(answers_bytes=0)))
    await parts.look()
    await ask(parts.methods, "search", query="apple")

    assert remembered(parts, "search", query="apple") is None


async def test_other_methods_are_not_remembered(parts: Parts) -> None:
    await ask(parts.methods, "read", ref="fruit:apple.md#0")

    assert remembered(parts, "read", ref="fruit:apple.md#0") is None


async def test_with_no_stores_at_all_the_hint_says_how_to_add_one(assemble: Assemble, stores: Path) -> None:
    parts = assemble()
    await parts.look()

    assert (await ask(parts.methods, "search", query="q")).hint == NO_STORES


# --------------------------------------------------------------------------- the same question at once


async def test_who_asks_what_is_being_asked_waits_for_that_answer(world: OpenWorld, until: Until) -> None:
    opened = await world({"a": {"any": [("x", -1.0)]}})
    methods, is_over = opened.parts.methods, threading.Event()
    opened.reader.acts["a", "phrase"] = lambda db: is_over.wait(20)
    answers: list[bytes] = []

    async def search() -> None:
        answers.append(await methods.answer(methods.codec("lines"), "search", SearchParams("q"), None))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(search)
        await until(lambda: opened.reader.calls["a", "phrase"] == 1)
        await anyio.wait_all_tasks_blocked()
        is_over.set()

    assert (len(answers), len(set(answers))) == (4, 1)
    assert opened.reader.calls["a", "phrase"] == 1


async def test_who_waits_for_an_answer_that_is_given_up_asks_by_itself(
    world: OpenWorld, until: Until
) -> None:
    opened = await world({"a": {"any": [("x", -1.0)]}})
    methods, is_over = opened.parts.methods, threading.Event()
    opened.reader.acts["a", "phrase"] = lambda db: is_over.wait(20)
    answers: list[bytes] = []

    async def search() -> None:
        answers.append(await methods.answer(methods.codec("lines"), "search", SearchParams("q"), None))

    async with anyio.create_task_group() as tasks, anyio.create_task_group() as impatient:
        impatient.start_soon(search)
        await until(lambda: opened.reader.calls["a", "phrase"] == 1)
        tasks.start_soon(search)
        await anyio.wait_all_tasks_blocked()
        is_over.set()
        impatient.cancel_scope.cancel()

    assert answers
    assert b'"x"' in answers[-1]
