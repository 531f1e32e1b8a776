"""Sessions under more requests than one turn takes, and clients that read late, slowly or never."""

from __future__ import annotations

import importlib.util
import json
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from collated import session as session_module
from collated.framing import Framing
from collated.settings import Server, Settings

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenWorld, PutStore, Until
    from tests.daemon.sessions.conftest import Client, Connect
    from tests.daemon.worlds import Assemble, Parts, World

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FRAMINGS: tuple[Framing, ...] = ("lines", "headers", "msgpack")
_LOOPS = [("asyncio", {"use_uvloop": False})]
if importlib.util.find_spec("uvloop") is not None:
    _LOOPS.append(("asyncio", {"use_uvloop": True}))


@pytest.fixture(
    scope="module", params=_LOOPS, ids=lambda loop: "uvloop" if loop[1]["use_uvloop"] else "asyncio"
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Run each test on both loops: they differ in when they write and in how much they read."""
    backend: tuple[str, dict[str, bool]] = request.param
    return backend


@pytest.fixture
async def parts(assemble: Assemble, stores: Path, put_store: PutStore) -> Parts:
    put_store(stores / "fruit.sqlite", "fruit")
    put_store(stores / "trees.sqlite", "trees")
    parts = assemble()
    await parts.look()
    return parts


@pytest.fixture
async def talkative(world: OpenWorld) -> World:
    """Stores with more to tell than a small socket buffer takes."""
    hits = [(f"{number:03}" * 40, float(number)) for number in range(50)]
    return await world({name: {"phrase": hits} for name in "abcdefgh"})


def pings(client: Client, count: int) -> bytes:
    return b"".join(client.encode({"id": number, "method": "ping"}) for number in range(count))


def a_search(request_id: int | str, **params: object) -> dict[str, object]:
    return {"id": request_id, "method": "search", "params": {"query": "q", "limit": 50, **params}}


async def ids(client: Client, count: int) -> list[Any]:
    return [(await client.receive())["id"] for _ in range(count)]


# --------------------------------------------------------------------------- many requests at once


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_a_flood_is_answered_in_order_and_completely(
    parts: Parts, connect: Connect, framing: Framing
) -> None:
    client, count = await connect(parts, framing), 10_000  # many reads, and more replies than buffers hold

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.stream.send, pings(client, count))
        assert await ids(client, count) == list(range(count))

    assert (await client.ask("ping", "after"))["id"] == "after"


async def test_a_flood_does_not_keep_others_waiting(parts: Parts, connect: Connect) -> None:
    flood, other = await connect(parts), await connect(parts)
    has_ended = False

    async def send() -> None:
        nonlocal has_ended
        await flood.stream.send(flood.encode({"method": "unanswered"}) * 100_000)
        await flood.ask("ping")
        has_ended = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        for number in range(10):
            assert (await other.ask("ping", number))["id"] == number
        assert not has_ended


async def test_the_requests_of_one_read_are_handled_in_turn_with_those_of_others(
    parts: Parts, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_TURN_S", 0)  # as if each took its time
    flood, other, count = await connect(parts), await connect(parts), 1_000

    await flood.stream.send(pings(flood, count))
    assert (await other.ask("ping", 2))["id"] == 2
    data = await flood.stream.receive(1 << 24)

    assert data.count(b"\n") < count
    while data.count(b"\n") < count:
        data += await flood.stream.receive(1 << 24)
    assert [json.loads(line)["id"] for line in data.splitlines()] == list(range(count))


async def test_no_more_requests_are_answered_than_a_client_that_does_not_read_can_be_told(
    parts: Parts, connect: Connect, until: Until
) -> None:
    client, count = await connect(parts, buffer_bytes=1), 1_000
    await client.ask("search", query="apple")
    before = parts.cache.stats()["hits"]

    def answered() -> int:
        return parts.cache.stats()["hits"] - before

    await client.send(*({"id": n, "method": "search", "params": {"query": "apple"}} for n in range(count)))
    await until(answered)
    await anyio.wait_all_tasks_blocked()

    assert answered() < count / 2
    assert await ids(client, count) == list(range(count))
    assert answered() == count


async def test_requests_are_not_read_while_nobody_reads_the_replies(
    parts: Parts, connect: Connect, until: Until
) -> None:
    client, count = await connect(parts), 20_000
    data = b"".join(client.encode({"id": number, "method": "initialize"}) for number in range(count))
    raw: socket.socket = client.stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610 - not Django
    written = tries = 0

    def is_full() -> bool:
        """Write what fits; tell when for a while nothing more did."""
        nonlocal written, tries
        try:
            written += raw.send(data[written:])
            tries = 0
        except BlockingIOError:
            tries += 1
        return tries > 100

    await until(is_full)
    assert written < len(data) / 2  # the rest is the client's own to keep

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.stream.send, data[written:])
        assert await ids(client, count) == list(range(count))


async def test_a_choked_client_that_has_sent_its_last_still_gets_every_reply(
    parts: Parts, connect: Connect
) -> None:
    client, count = await connect(parts, buffer_bytes=1), 1_000

    await client.stream.send(pings(client, count))
    await client.stream.send_eof()
    await anyio.wait_all_tasks_blocked()

    assert [reply["id"] for reply in await client.rest()] == list(range(count))


async def test_blank_lines_and_empty_frames_by_the_thousand_are_gone_through(
    parts: Parts, connect: Connect
) -> None:
    lines, frames = await connect(parts), await connect(parts, "msgpack")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lines.stream.send, b"\n" * 100_000)
        tasks.start_soon(frames.stream.send, b"\0\0\0\0" * 5_000)
        assert await ids(frames, 5_000) == [None] * 5_000

    assert (await lines.ask("ping", 1))["id"] == 1
    assert (await frames.ask("ping", 2))["id"] == 2


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_a_frame_of_many_reads_arrives_whole(parts: Parts, connect: Connect, framing: Framing) -> None:
    client = await connect(parts, framing)
    long = "long" * 250_000

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.send, {"id": long, "method": "ping"}, {"id": 2, "method": "ping"})
        assert await ids(client, 2) == [long, 2]


async def test_a_client_too_many_hears_so_whatever_its_bytes_arrive_in(
    parts: Parts, connect: Connect
) -> None:
    client = await connect(parts, "msgpack", is_turned_away=True)
    request = client.encode({"id": 1, "method": "ping"})

    for byte in request:
        await client.stream.send(bytes([byte]))
        await anyio.wait_all_tasks_blocked()

    (reply,) = await client.rest()
    assert (reply["id"], reply["error"]["data"]["code"]) == (1, "overloaded")


async def test_a_fault_of_our_own_while_answering_at_once_is_an_answer_too(
    parts: Parts, connect: Connect, logs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(parts)
    monkeypatch.delattr(parts.inventory, "watch")

    fault = await client.ask("status")

    assert fault["error"]["data"]["code"] == "internal"
    assert (await client.ask("ping", 2))["id"] == 2
    assert [event["method"] for event in logs if event["event"] == "request_failed"] == ["status"]


async def test_a_fault_that_leaves_no_answer_ends_its_own_connection_alone(
    parts: Parts, connect: Connect, logs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await connect(parts), await connect(parts, "msgpack")
    monkeypatch.setattr(parts.methods.codec("lines"), "read", None)

    await client.send({"id": 1, "method": "ping"})

    assert await client.rest() == []
    assert [event["event"] for event in logs if event["log_level"] == "error"] == ["session_failed"]
    assert (await other.ask("ping"))["id"] == 1


# --------------------------------------------------------------------------- clients that do not read


async def test_a_request_counts_as_unanswered_until_its_reply_is_out(
    talkative: World, connect: Connect, until: Until
) -> None:
    parts = talkative.parts
    client = await connect(parts, buffer_bytes=1)

    await client.send(a_search(1))
    await until(lambda: parts.cache.stats()["entries"])
    await anyio.wait_all_tasks_blocked()
    assert parts.methods.gauges.in_flight == 1

    assert len((await client.receive())["result"]["hits"]) == 50
    await until(lambda: parts.methods.gauges.in_flight == 0)


async def test_progress_that_nobody_reads_is_left_out_and_the_answer_is_whole(
    talkative: World, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_UNREAD_NEWS_BYTES", 0)
    client = await connect(talkative.parts)

    await client.send(a_search(1, partialResultToken="t"))

    assert len((await client.receive())["result"]["hits"]) == 50


async def test_a_subscriber_that_leaves_too_much_unread_is_let_go(
    parts: Parts, connect: Connect, logs: list[Any], stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(parts)
    await client.ask("subscribe", topics=["stores/changed"])
    monkeypatch.setattr(session_module, "_UNREAD_NEWS_BYTES", 0)

    await anyio.to_thread.run_sync((stores / "fruit.sqlite").unlink)
    await parts.look()

    assert await client.rest() == []
    assert [event["reason"] for event in logs if event["event"] == "client_dropped"] == [
        "it does not read the news that it subscribed to"
    ]


async def test_a_slow_client_gets_everything_although_it_takes_longer_than_a_deaf_one_may(
    talkative: World, connect: Connect
) -> None:
    parts = talkative.parts
    parts.methods.settings = Settings(server=Server(send_timeout_s=5))
    clients = [await connect(parts, buffer_bytes=1) for _ in range(4)]

    for client in clients:
        await client.send(*(a_search(number) for number in range(20)))
        await client.stream.send_eof()
    replies = [await client.rest() for client in clients]  # one after the other, piece by piece

    expected = Counter(range(20))
    assert [Counter(reply["id"] for reply in each) for each in replies] == [expected] * 4


async def test_a_client_that_goes_while_its_flood_is_handled_is_no_trouble(
    parts: Parts, connect: Connect, until: Until
) -> None:
    broken, other = await connect(parts), await connect(parts)

    await broken.stream.send(pings(broken, 5_000))
    await broken.stream.aclose()

    assert (await other.ask("ping"))["id"] == 1
    await until(lambda: parts.methods.gauges.in_flight == 0)


async def test_a_client_may_go_before_it_is_served(parts: Parts, connect: Connect, logs: list[Any]) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    session = session_module.Session(parts.methods, is_draining=lambda: False)

    with anyio.fail_after(10):
        await session.run(ours)

    assert ours.fileno() == -1
    assert [event for event in logs if event["log_level"] in ("warning", "error")] == []
