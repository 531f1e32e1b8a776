"""Sessions over socket pairs: requests, cancelling, limits."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated.framing import Framing
from collated.settings import Server, Settings

if TYPE_CHECKING:
    from tests.daemon.conftest import PutStore, Until
    from tests.daemon.sessions.conftest import Connect, Gate
    from tests.daemon.worlds import Assemble, Parts, World

pytestmark = pytest.mark.anyio

FRAMINGS: tuple[Framing, ...] = ("lines", "headers", "msgpack")


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


# --------------------------------------------------------------------------- one reply for each request


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_a_session_speaks_the_framing_of_its_first_byte(
    parts: Parts, connect: Connect, framing: Framing
) -> None:
    client = await connect(parts, framing)

    hello = await client.ask("initialize", protocol=1, client={"name": "test"})
    found = await client.ask("search", 2, query="apple")

    assert (hello["id"], hello["result"]["framing"]) == (1, framing)
    assert [hit["store"] for hit in found["result"]["hits"]] == ["fruit", "trees"]
    assert await client.ask("ping", "three") == {"jsonrpc": "2.0", "id": "three", "result": {}}


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_every_request_gets_exactly_one_reply_however_its_bytes_arrive(
    parts: Parts, connect: Connect, framing: Framing, size: int
) -> None:
    client = await connect(parts, framing)
    requests: list[dict[str, Any]] = [
        {"id": 0, "method": "ping"},
        {"id": "", "method": "ping", "params": []},
        {"id": 1, "method": "search", "params": {"query": "apple"}},
        {"id": 2, "method": "grep", "params": {"pattern": "garden"}},
        {"id": 3, "method": "read", "params": {"ref": "fruit:fig.md#0"}},
        {"id": 4, "method": "read", "params": {"ref": "nobody:x"}},
        {"id": 5, "method": "no/such"},
        {"id": 6, "method": "search", "params": {"qery": "apple"}},
        {"id": 7, "method": "stores", "params": None},
        {"id": 8, "method": "status"},
        {"id": 9, "method": "index"},
        {"id": 10, "method": "rescan"},
        {"id": 11, "method": "reload"},
        {"id": 12, "method": "subscribe", "params": {"topics": []}},
        {"id": 13, "method": "neighbours", "params": {"ref": "fruit:fig.md#0"}},
        {"method": "initialized"},
        {"method": "search", "params": {"query": "nobody waits for it"}},
        {"id": 1.5, "method": "ping"},
    ]
    data = b"".join(client.encode(request) for request in requests)

    for start in range(0, len(data), size):
        await client.stream.send(data[start : start + size])
    await client.stream.send_eof()

    replies = await client.rest()
    assert Counter(str(reply["id"]) for reply in replies) == Counter(
        [*(str(request["id"]) for request in requests[:15]), "None"]
    )
    assert {reply["id"]: code_of(reply) for reply in replies if "error" in reply} == {
        4: "unknown_store",
        5: "unknown_method",
        6: "invalid_params",
        None: "invalid_request",
    }


async def test_cheap_requests_are_answered_in_order(parts: Parts, connect: Connect) -> None:
    client = await connect(parts)

    await client.send(*({"id": number, "method": "ping"} for number in range(200)))

    assert [(await client.receive())["id"] for _ in range(200)] == list(range(200))


async def test_the_same_question_over_the_same_stores_gets_the_same_bytes(
    parts: Parts, connect: Connect
) -> None:
    client = await connect(parts)

    answers = [await client.ask("search", query="apple") for _ in range(3)]

    assert answers[0] == answers[1] == answers[2]
    assert parts.cache.stats()["hits"] >= 2


async def test_a_fault_of_our_own_is_an_answer_too(parts: Parts, connect: Connect, logs: list[Any]) -> None:
    parts.reload_error = ZeroDivisionError()
    client = await connect(parts)

    assert code_of(await client.ask("reload")) == "internal"
    assert (await client.ask("ping"))["result"] == {}
    assert [event["method"] for event in logs if event["event"] == "request_failed"] == ["reload"]


async def test_an_id_may_not_be_used_again_while_it_runs_and_may_afterwards(
    gated: tuple[World, Gate], connect: Connect, until: Until
) -> None:
    opened, gate = gated
    client = await connect(opened.parts)

    await client.send(a_search("same"), a_search("same"), {"id": "same", "method": "ping"})
    refused = [await client.receive(), await client.receive()]
    gate.open()
    found = await client.receive()

    assert [(each["id"], code_of(each)) for each in refused] == [("same", "invalid_request")] * 2
    assert [hit["id"] for hit in found["result"]["hits"]] == ["x"]
    assert (await client.ask("ping", "same"))["result"] == {}


# --------------------------------------------------------------------------- cancelling


@pytest.mark.parametrize("is_request", [True, False])
async def test_a_cancelled_request_says_so_and_its_statement_stops(
    gated: tuple[World, Gate], connect: Connect, until: Until, is_request: bool
) -> None:
    opened, gate = gated
    client = await connect(opened.parts)
    cancel: dict[str, object] = {"method": "$/cancelRequest", "params": {"id": 7}}

    await client.send(a_search(7))
    await until(lambda: gate.held)
    await client.send({"id": 8, **cancel} if is_request else cancel)
    replies = {reply["id"]: reply for reply in [await client.receive() for _ in range(1 + is_request)]}

    assert replies[7]["error"]["code"] == -32800
    assert not is_request or replies[8]["result"] == {}
    await until(gate.has_stopped.is_set)
    assert (await client.ask("ping", 9))["id"] == 9


async def test_a_request_can_be_cancelled_in_the_same_breath(
    gated: tuple[World, Gate], connect: Connect
) -> None:
    opened, _ = gated
    client = await connect(opened.parts)

    await client.send(a_search(7), {"method": "$/cancelRequest", "params": {"id": 7}})

    assert code_of(await client.receive()) == "cancelled"
    assert (await client.ask("ping", 8))["id"] == 8


async def test_cancelling_what_is_answered_or_was_never_asked_changes_nothing(
    parts: Parts, connect: Connect
) -> None:
    client = await connect(parts)
    await client.ask("search", 7, query="apple")

    await client.send(
        {"method": "$/cancelRequest", "params": {"id": 7}},
        {"method": "$/cancelRequest", "params": {"id": "never"}},
        {"id": 8, "method": "$/cancelRequest", "params": {"id": 8}},
    )

    assert await client.receive() == {"jsonrpc": "2.0", "id": 8, "result": {}}


async def test_one_client_cannot_cancel_the_request_of_another(
    gated: tuple[World, Gate], connect: Connect, until: Until
) -> None:
    opened, gate = gated
    one, other = await connect(opened.parts), await connect(opened.parts)

    await one.send(a_search(7))
    await until(lambda: gate.held)
    await other.ask("$/cancelRequest", 1, id=7)
    gate.open()

    assert "result" in await one.receive()


# --------------------------------------------------------------------------- limits


async def test_more_requests_than_a_connection_may_have_in_flight_are_turned_down(
    assemble: Assemble, gated: tuple[World, Gate], connect: Connect, until: Until
) -> None:
    opened, gate = gated
    opened.parts.methods.settings = Settings(server=Server(max_in_flight=2))
    client = await connect(opened.parts)

    await client.send(a_search(1), a_search(2), a_search(3), {"id": 4, "method": "ping"})
    turned_down, pong = await client.receive(), await client.receive()
    assert opened.parts.methods.gauges.in_flight == 2
    gate.open()
    answered = [await client.receive(), await client.receive()]

    assert (turned_down["id"], code_of(turned_down)) == (3, "overloaded")
    assert turned_down["error"]["data"]["retry_after_ms"] > 0
    assert pong["id"] == 4
    assert sorted(each["id"] for each in answered) == [1, 2]
    await until(lambda: opened.parts.methods.gauges.in_flight == 0)
    assert "result" in await client.ask("search", 5, query="q")


async def test_a_client_too_many_hears_so_and_is_let_go(parts: Parts, connect: Connect) -> None:
    client = await connect(parts, is_turned_away=True)

    await client.send({"id": 1, "method": "ping"})

    (reply,) = await client.rest()
    assert (reply["id"], code_of(reply)) == (1, "overloaded")


async def test_while_the_daemon_stops_nothing_new_is_admitted_and_what_was_is_answered(
    gated: tuple[World, Gate], connect: Connect, until: Until
) -> None:
    opened, gate = gated
    is_stopping = threading.Event()
    client = await connect(opened.parts, is_draining=is_stopping.is_set)

    await client.send(a_search(1))
    await until(lambda: gate.held)
    is_stopping.set()
    refused = await client.ask("ping", 2)
    gate.open()

    assert (refused["id"], code_of(refused)) == (2, "draining")
    assert "result" in await client.receive()
