"""Sessions over socket pairs: how a connection ends, news, and clients that do not read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from collated.framing import Framing
from collated.settings import Server, Settings

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld, PutStore, Until
    from tests.daemon.sessions.conftest import Connect, Gate
    from tests.daemon.worlds import Assemble, Parts, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def parts(assemble: Assemble, stores: Path, put_store: PutStore) -> Parts:
    put_store(stores / "fruit.sqlite", "fruit")
    put_store(stores / "trees.sqlite", "trees")
    parts = assemble()
    await parts.look()
    return parts


def a_search(request_id: int | str, **params: object) -> dict[str, object]:
    return {"id": request_id, "method": "search", "params": {"query": "q", "deadline_ms": 30_000, **params}}


def code_of(message: Any) -> str | None:
    return message["error"]["data"]["code"] if "error" in message else None


# --------------------------------------------------------------------------- the end of a connection


async def test_what_was_asked_before_a_half_close_is_answered(
    gated: tuple[World, Gate], connect: Connect, until: Until
) -> None:
    opened, gate = gated
    client = await connect(opened.parts)

    await client.send(a_search(1), {"id": 2, "method": "ping"})
    await client.stream.send_eof()
    assert (await client.receive())["id"] == 2
    gate.open()

    (reply,) = await client.rest()
    assert [hit["id"] for hit in reply["result"]["hits"]] == ["x"]


async def test_a_last_line_needs_no_line_feed(parts: Parts, connect: Connect) -> None:
    client = await connect(parts)

    await client.stream.send(b'{"id": 1, "method": "ping"}')
    await client.stream.send_eof()

    assert [reply["id"] for reply in await client.rest()] == [1]


async def test_the_requests_of_a_client_that_is_gone_are_given_up(
    gated: tuple[World, Gate], connect: Connect, until: Until
) -> None:
    opened, gate = gated
    client = await connect(opened.parts)

    await client.send(a_search(1))
    await until(lambda: gate.held)
    await client.stream.aclose()

    await until(gate.has_stopped.is_set)
    await until(lambda: opened.parts.methods.gauges.in_flight == 0)


async def test_a_client_that_never_says_anything_is_no_trouble(parts: Parts, connect: Connect) -> None:
    client = await connect(parts)
    await client.stream.send_eof()

    assert await client.rest() == []


@pytest.mark.parametrize(
    ("data", "framing", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "lines", "parse_error"),
        (b"\x7fELF", "lines", "parse_error"),
        (b"\x00\xff\xff\xff", "msgpack", "frame_too_large"),
        (b"Content-Length: 999999999999\r\n\r\n", "headers", "frame_too_large"),
        (b"Content-Length: x\r\n\r\n", "headers", "parse_error"),
        (b"{" + b" " * 2_000, "lines", "frame_too_large"),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_a_stream_that_cannot_go_on_is_told_why_and_ends(
    parts: Parts, connect: Connect, data: bytes, framing: Framing, code: str
) -> None:
    parts.methods.settings = Settings(server=Server(max_frame_bytes=1_024))
    client = await connect(parts, framing)

    await client.stream.send(data)

    (reply,) = await client.rest()
    assert (reply["id"], code_of(reply)) == (None, code)


async def test_half_a_frame_at_the_end_is_told_and_what_came_before_is_answered(
    parts: Parts, connect: Connect
) -> None:
    client = await connect(parts, "headers")

    await client.send({"id": 1, "method": "search", "params": {"query": "apple"}})
    await client.stream.send(b"Content-Length: 10\r\n\r\n{}")
    await client.stream.send_eof()

    replies = {reply["id"]: code_of(reply) for reply in await client.rest()}
    assert replies == {1: None, None: "parse_error"}


async def test_a_message_that_cannot_be_decoded_does_not_end_the_connection(
    parts: Parts, connect: Connect
) -> None:
    client = await connect(parts)

    await client.stream.send(b'{"id": 1,\n{"method": "\xff"}\n' + b'{"a":' * 10_000 + b"\n")
    errors = [await client.receive() for _ in range(3)]

    assert [(error["id"], code_of(error)) for error in errors] == [(None, "parse_error")] * 3
    assert (await client.ask("ping", 2))["id"] == 2


# --------------------------------------------------------------------------- news


async def test_who_subscribes_hears_of_every_change_until_it_does_not_want_to(
    parts: Parts, connect: Connect, stores: Path, put_store: PutStore
) -> None:
    client, other = await connect(parts), await connect(parts, "msgpack")
    assert (await client.ask("subscribe", topics=["stores/changed"]))["result"]["topics"] == [
        "stores/changed"
    ]

    await anyio.to_thread.run_sync(put_store, stores / "stars.sqlite", "stars")
    await parts.look()
    assert await client.receive() == {
        "jsonrpc": "2.0",
        "method": "stores/changed",
        "params": {"added": ["stars"], "changed": [], "removed": []},
    }

    assert (await client.ask("subscribe", topics=[]))["result"]["topics"] == []
    await anyio.to_thread.run_sync((stores / "stars.sqlite").unlink)
    await parts.look()
    assert (await client.ask("ping", 9))["id"] == 9
    assert (await other.ask("ping", 9))["id"] == 9


async def test_a_subscriber_that_is_gone_is_forgotten(
    parts: Parts, connect: Connect, stores: Path, put_store: PutStore, until: Until
) -> None:
    client = await connect(parts)
    await client.ask("subscribe", topics=["stores/changed"])
    assert len(parts.inventory.listeners) == 1
    await client.stream.aclose()

    await until(lambda: not parts.inventory.listeners)
    await anyio.to_thread.run_sync(put_store, stores / "stars.sqlite", "stars")
    await parts.look()


async def test_partial_results_come_before_the_whole_one(parts: Parts, connect: Connect) -> None:
    client = await connect(parts)

    await client.send({"id": 1, "method": "search", "params": {"query": "apple", "partialResultToken": "t"}})
    await client.stream.send_eof()
    *partial, whole = await client.rest()

    assert {(each["method"], each["params"]["token"]) for each in partial} == {("$/progress", "t")}
    told = {hit["ref"] for each in partial for hit in each["params"]["value"]["hits"]}
    assert told == {hit["ref"] for hit in whole["result"]["hits"]}
    assert partial[-1]["params"]["value"]["answered"] == 2


# --------------------------------------------------------------------------- clients that do not read


@pytest.fixture
async def talkative(world: OpenWorld) -> World:
    """Stores with more to tell than a small socket buffer takes."""
    hits = [(f"{number:03}" * 40, float(number)) for number in range(50)]
    return await world({name: {"phrase": hits} for name in "abcdefgh"})


async def test_a_client_that_stops_reading_is_dropped_and_costs_nobody_else_anything(
    talkative: World, connect: Connect, until: Until, logs: list[Any]
) -> None:
    parts = talkative.parts
    parts.methods.settings = Settings(server=Server(send_timeout_s=0.05))
    deaf, other = await connect(parts, buffer_bytes=1), await connect(parts)

    await deaf.send(*(a_search(number, limit=50) for number in range(5)))
    await until(lambda: any(event["event"] == "client_dropped" for event in logs))

    assert len((await other.ask("search", 1, query="q", limit=50))["result"]["hits"]) == 50
    await until(lambda: parts.methods.gauges.in_flight == 0)


async def test_a_cancelled_request_leaves_no_half_message_behind(
    talkative: World, connect: Connect, until: Until
) -> None:
    client = await connect(talkative.parts, buffer_bytes=1)

    await client.send(a_search(1, limit=50, partialResultToken="t"))
    await until(lambda: talkative.reader.calls)
    await anyio.wait_all_tasks_blocked()
    await client.send({"method": "$/cancelRequest", "params": {"id": 1}}, {"id": 2, "method": "ping"})
    await client.stream.send_eof()
    messages = await client.rest()  # each of them can be decoded

    assert Counter(each["id"] for each in messages if "id" in each) == {1: 1, 2: 1}


async def test_a_client_that_goes_in_the_middle_is_no_fault_of_the_stores(
    talkative: World, connect: Connect, until: Until, logs: list[Any]
) -> None:
    for _ in range(3):
        client = await connect(talkative.parts, buffer_bytes=1)
        await client.send(a_search(1, limit=50, partialResultToken="t"))
        await until(lambda: talkative.reader.calls)
        await anyio.wait_all_tasks_blocked()
        await client.stream.aclose()
        await until(lambda: talkative.parts.methods.gauges.in_flight == 0)
        talkative.reader.calls.clear()
        talkative.parts.cache.resize(0)

    assert [event for event in logs if event["event"] == "store_failed"] == []
    assert (await talkative.search(limit=50)).complete


async def test_a_client_that_reads_slowly_does_not_use_up_the_time_of_its_stores(
    talkative: World, connect: Connect, until: Until
) -> None:
    client = await connect(talkative.parts, buffer_bytes=1)

    await client.send(a_search(1, limit=50, partialResultToken="t"))
    await until(
        lambda: {name for name, what in talkative.reader.calls if what == "phrase"} == set("abcdefgh")
    )
    await client.stream.send_eof()

    *_, whole = await client.rest()
    assert whole["result"]["complete"]
