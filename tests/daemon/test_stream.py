"""The bytes of one client: what is written together, who is dropped, when nothing is read."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import pytest

from collated.stream import PIECE_BYTES, READ_BYTES, Stream

if TYPE_CHECKING:
    from tests.daemon.conftest import Until

pytestmark = pytest.mark.anyio

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


class Listener:
    """An owner that writes down what it is told; `act` runs whenever something was read."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.reads: list[int] = []
        self.told: list[str] = []
        self.act: Callable[[], None] = lambda: None

    def received(self, data: bytes) -> None:
        self.data += data
        self.reads.append(len(data))
        self.act()

    def ended(self) -> None:
        self.told.append("ended")

    def caught_up(self) -> None:
        self.told.append("caught up")

    def lost(self) -> None:
        self.told.append("lost")


# --------------------------------------------------------------------------- over a transport of our own


class Recorder(asyncio.Transport):
    """A transport whose other end takes `room` bytes of each write at once, and the rest at `take`."""

    def __init__(self, stream: Stream, room: int = 1 << 30) -> None:
        super().__init__()
        self.stream = stream
        self.room = room
        self.written: list[bytes] = []
        self.left = 0
        self.looks = 0
        self.is_read = True
        self.is_gone = False
        stream.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written.append(bytes(data))
        self.left += max(0, len(data) - self.room)
        if self.left:
            self.stream.pause_writing()

    def take(self) -> None:
        self.left = 0
        self.stream.resume_writing()

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        return self.left

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_gone

    def abort(self) -> None:
        self.is_gone = True


async def test_what_is_put_is_written_in_order_and_in_few_pieces() -> None:
    stream = Stream(Listener(), 10)
    wire = Recorder(stream)
    messages = [b"%d." % number for number in range(1_000)]

    for message in messages:
        stream.put(message)
    assert (wire.written, stream.unsent_bytes) == ([], len(b"".join(messages)))
    stream.flush()

    assert wire.written == [b"".join(messages)]
    assert (stream.unsent_bytes, stream.is_settled) == (0, True)


async def test_a_piece_has_a_bound_and_a_longer_message_is_written_by_itself() -> None:
    stream = Stream(Listener(), 10)
    wire = Recorder(stream)
    long, half, short = b"l" * (PIECE_BYTES + 1), b"h" * (PIECE_BYTES // 2), b"s"

    for message in (short, long, short, half, half, half):
        stream.put(message)
    stream.flush()

    assert wire.written == [short, long, short + half, half + half]


async def test_what_is_sent_in_one_turn_is_written_together_in_the_next(until: Until) -> None:
    stream = Stream(Listener(), 10)
    wire = Recorder(stream)

    stream.send(b"one ")
    stream.send(b"two")
    assert wire.written == []
    await stream.settle()
    stream.send(b"three")
    await stream.settle()

    assert wire.written == [b"one two", b"three"]


async def test_a_choked_stream_neither_writes_nor_reads_until_everything_was_taken() -> None:
    owner = Listener()
    stream = Stream(owner, 10)
    wire = Recorder(stream, room=3)

    stream.put(b"longer than the room")
    stream.flush()
    assert (stream.is_choked, wire.is_read) == (True, False)
    stream.send(b"a")
    stream.put(b"b")
    stream.flush()
    stream.release()
    assert (wire.written[1:], wire.is_read, stream.is_settled) == ([], False, False)

    wire.take()
    assert (wire.written[1:], owner.told, stream.is_settled) == ([b"ab"], ["caught up"], True)
    stream.release()
    assert wire.is_read


async def test_an_owner_hears_nothing_while_a_client_that_reads_is_choked_again_at_once() -> None:
    owner = Listener()
    stream = Stream(owner, 10)
    wire = Recorder(stream, room=3)
    stream.put(b"longer than the room")
    stream.flush()
    stream.put(b"longer as well")

    wire.take()

    assert (stream.is_choked, owner.told) == (True, [])


async def test_a_client_that_takes_nothing_is_dropped(
    until: Until, logs: list[MutableMapping[str, Any]]
) -> None:
    stream = Stream(Listener(), 0.01)
    wire = Recorder(stream, room=3)

    stream.put(b"longer than the room")
    stream.flush()
    await until(lambda: wire.is_gone)

    assert [(event["event"], event["reason"]) for event in logs] == [("client_dropped", "it stopped reading")]
    assert not stream.is_settled
    stream.connection_lost(None)
    assert stream.is_settled


async def test_a_client_that_takes_little_is_not_dropped_while_it_takes_some(until: Until) -> None:
    stream = Stream(Listener(), 0.005)

    class Slow(Recorder):
        def get_write_buffer_size(self) -> int:
            self.left = max(10, self.left - 1)  # one byte each time that somebody looks, but not the last ten
            return super().get_write_buffer_size()

    wire = Slow(stream, room=0)
    stream.put(b"x" * 30)
    stream.flush()
    await until(lambda: wire.is_gone)

    assert wire.looks > 20


async def test_who_waits_for_a_client_that_is_gone_waits_no_longer() -> None:
    owner = Listener()
    stream = Stream(owner, 10)
    Recorder(stream, room=3)
    stream.put(b"longer than the room")
    stream.flush()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(stream.settle)
            await anyio.wait_all_tasks_blocked()
            stream.connection_lost(BrokenPipeError())

    assert (owner.told, stream.is_lost) == (["lost"], True)
    stream.send(b"nobody")
    await anyio.wait_all_tasks_blocked()
    assert stream.is_settled


async def test_all_who_wait_are_woken_and_those_wait_on_for_whom_it_is_too_early() -> None:
    stream = Stream(Listener(), 10)
    wire = Recorder(stream, room=3)
    settled: list[int] = []

    async def wait(number: int) -> None:
        await stream.settle()
        settled.append(number)
        if number == 0:
            stream.send(b"longer than the room")

    stream.send(b"longer than the room")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
            assert settled == []
            while len(settled) < 3:
                wire.take()
                await anyio.wait_all_tasks_blocked()

    assert sorted(settled) == [0, 1, 2]


# --------------------------------------------------------------------------- over a real socket

Opened = tuple[Stream, Listener, anyio.abc.SocketStream]
Open = Callable[..., Awaitable[Opened]]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """`await opened(send_timeout_s)` is a stream, its owner, and the other end."""
    async with AsyncExitStack() as stack:

        async def open_it(send_timeout_s: float = 10) -> Opened:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            client = await anyio.abc.UNIXSocketStream.from_socket(theirs)
            stack.push_async_callback(client.aclose)
            owner = Listener()
            stream = Stream(owner, send_timeout_s)
            await stream.open(ours)
            stack.push_async_callback(stream.close)
            return stream, owner, client

        yield open_it


async def received(client: anyio.abc.SocketStream, count: int) -> bytes:
    """Return the next *count* bytes."""
    data = b""
    with anyio.fail_after(10):
        while len(data) < count:
            data += await client.receive(count - len(data))
    return data


async def test_both_sides_hear_each_other(opened: Open, until: Until) -> None:
    stream, owner, client = await opened()

    await client.send(b"question")
    await until(lambda: bytes(owner.data) == b"question")
    stream.send(b"answer")

    assert await received(client, 6) == b"answer"


async def test_no_more_is_read_in_one_turn_than_is_allowed_and_nothing_while_it_is_held(
    opened: Open, until: Until
) -> None:
    stream, owner, client = await opened()
    owner.act = stream.hold

    await client.send(b"x" * (READ_BYTES + 10))
    await until(lambda: owner.reads)
    await anyio.wait_all_tasks_blocked()
    assert owner.reads == [READ_BYTES]

    stream.release()
    await until(lambda: len(owner.data) == READ_BYTES + 10)


async def test_after_a_half_close_it_can_still_be_written(opened: Open, until: Until) -> None:
    stream, owner, client = await opened()

    await client.send(b"last")
    await client.send_eof()
    await until(lambda: owner.told)
    assert (owner.told, bytes(owner.data), stream.is_hung_up()) == (["ended"], b"last", False)
    stream.hold()
    stream.release()  # which must not make it read at the end again and again
    stream.send(b"answer")

    assert await received(client, 6) == b"answer"
    assert owner.told == ["ended"]
    await client.aclose()
    await until(stream.is_hung_up)


async def test_a_client_that_reads_late_gets_every_byte_in_order(opened: Open, until: Until) -> None:
    stream, owner, client = await opened()
    messages = [b"%d " % number * 1_000 for number in range(2_000)]

    for message in messages:
        stream.send(message)
    await until(lambda: stream.is_choked)
    assert await received(client, sum(map(len, messages))) == b"".join(messages)

    await until(lambda: stream.is_settled)
    assert owner.told[-1:] == ["caught up"]


async def test_a_client_that_never_reads_is_dropped_and_its_messages_are_forgotten(
    opened: Open, until: Until, logs: list[MutableMapping[str, Any]]
) -> None:
    stream, owner, _ = await opened(0.02)

    for _ in range(10):
        stream.put(b"x" * PIECE_BYTES)
    stream.flush()
    await until(lambda: owner.told)

    assert (owner.told, stream.is_lost, stream.unsent_bytes) == (["lost"], True, 0)
    assert [event["event"] for event in logs if event["log_level"] == "warning"] == ["client_dropped"]


async def test_a_client_that_goes_while_it_is_written_to_is_lost(opened: Open, until: Until) -> None:
    stream, owner, client = await opened()

    stream.put(b"x" * (1 << 20))
    stream.flush()
    assert stream.is_choked
    await client.aclose()

    await until(lambda: "lost" in owner.told)
    assert stream.is_hung_up()


async def test_closing_lets_the_client_read_what_was_written(opened: Open) -> None:
    stream, owner, client = await opened()

    stream.put(b"last words")
    stream.flush()
    await stream.close()
    await stream.close()

    assert await received(client, 10) == b"last words"
    with pytest.raises(anyio.EndOfStream):
        await client.receive()
    assert owner.told == ["lost"]


async def test_closing_does_not_wait_for_a_client_that_does_not_read(opened: Open) -> None:
    stream, owner, _ = await opened()

    stream.put(b"x" * (1 << 20))
    stream.flush()
    with anyio.fail_after(5):
        await stream.close()

    assert owner.told == ["lost"]


async def test_a_stream_that_was_never_opened_can_be_closed() -> None:
    await Stream(Listener(), 10).close()
