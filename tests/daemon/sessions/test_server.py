from __future__ import annotations

import os
import resource
import socket
import stat
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import pytest

from collated.claim import Claim, SocketTaken
from collated.server import Server
from collated.settings import Server as ServerSettings
from collated.settings import Settings

if TYPE_CHECKING:
    from tests.daemon.conftest import Until
    from tests.daemon.sessions.conftest import Dial, Gate
    from tests.daemon.worlds import Assemble, Parts, World


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a socket may be; its directory is made by whoever claims it."""
    return tmp_path / "run" / "s"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --------------------------------------------------------------------------- who may hold the socket


def test_the_socket_and_its_directory_are_the_owners_alone(path: Path) -> None:
    with Claim(path) as claim, claim.listen():
        assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
        assert stat.S_ISSOCK(path.stat().st_mode)


def test_the_umask_is_what_it_was(path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Claim(path) as claim, claim.listen():
            assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_second_claim_is_refused_and_names_the_first(path: Path) -> None:
    with Claim(path), pytest.raises(SocketTaken, match=f"process {os.getpid()}"), Claim(path):
        pass
    with Claim(path):
        pass  # it is free again


def test_the_socket_goes_with_the_claim_and_the_lock_file_stays(path: Path) -> None:
    with Claim(path) as claim, claim.listen():
        pass

    assert [entry.name for entry in path.parent.iterdir()] == ["s.lock"]


def test_a_socket_that_somebody_else_has_put_there_since_is_left_alone(path: Path) -> None:
    with Claim(path) as claim, claim.listen(), socket.socket(socket.AF_UNIX) as other:
        path.unlink()
        other.bind(str(path))

    assert path.exists()


@pytest.mark.parametrize("leftover", ["socket", "file", "dangling link"])
def test_what_a_daemon_that_died_left_there_is_replaced(path: Path, leftover: str) -> None:
    path.parent.mkdir(mode=0o700)
    if leftover == "socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    elif leftover == "file":
        path.write_text("in the way")
    else:
        path.symlink_to("nowhere")

    with Claim(path) as claim, claim.listen():
        assert stat.S_ISSOCK(path.lstat().st_mode)


def test_a_socket_that_somebody_answers_without_the_lock_is_not_taken(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(1)
        with Claim(path) as claim, pytest.raises(SocketTaken, match=r"as systemd does for collated\.socket"):
            claim.listen()

    assert path.exists()


def test_a_directory_that_others_may_write_to_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(SocketTaken, match="chmod 700"), Claim(path):
        pass

    path.parent.chmod(0o1777)  # as /tmp, where nobody can take away what is another's
    with Claim(path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(path: Path) -> None:
    path.parent.mkdir()
    os.chown(path.parent, 12_345, -1)

    with pytest.raises(SocketTaken, match="belongs to another user"), Claim(path):
        pass


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(SocketTaken, match="cannot be made"), Claim(tmp_path / "file" / "s"):
        pass


# --------------------------------------------------------------------------- who may connect


@pytest.fixture
def listener(path: Path) -> Iterator[socket.socket]:
    """A socket that listens at `path`, claimed before there is an event loop."""
    with Claim(path) as claim, claim.listen() as listening:
        yield listening


@asynccontextmanager
async def serving(parts: Parts, listener: socket.socket) -> AsyncGenerator[Server]:
    """Serve at *listener* until the end of the block."""
    server = Server(parts.methods)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, listener)
        yield server
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_clients_are_counted_while_they_are_connected(
    assemble: Assemble, listener: socket.socket, dial: Dial, until: Until
) -> None:
    parts = assemble()
    async with serving(parts, listener):
        clients = [await dial(listener) for _ in range(3)]
        for client in clients:
            await client.ask("ping")
        assert parts.methods.gauges.connections == 3

        for client in clients:
            await client.stream.aclose()
        await until(lambda: parts.methods.gauges.connections == 0)
    assert parts.methods.gauges.last_used > 0


@pytest.mark.anyio
async def test_one_client_too_many_hears_so_and_the_others_go_on(
    assemble: Assemble, listener: socket.socket, dial: Dial
) -> None:
    parts = assemble(Settings(server=ServerSettings(max_connections=2)))
    async with serving(parts, listener):
        first, second, third = [await dial(listener) for _ in range(3)]
        await first.ask("ping")
        await second.ask("ping")

        refused = await third.ask("ping")
        assert refused["error"]["data"]["code"] == "overloaded"
        assert await third.rest() == []
        assert (await first.ask("ping", 2))["id"] == 2


@pytest.mark.anyio
async def test_a_client_that_breaks_off_takes_no_other_with_it(
    assemble: Assemble, listener: socket.socket, dial: Dial, until: Until
) -> None:
    parts = assemble()
    async with serving(parts, listener):
        steady, broken = await dial(listener), await dial(listener)
        await steady.ask("ping")
        await broken.stream.send(b"\xff\xff\xff")
        assert len(await broken.rest()) == 1
        await broken.stream.aclose()

        await until(lambda: parts.methods.gauges.connections == 1)
        assert (await steady.ask("ping", 2))["id"] == 2


@pytest.mark.anyio
async def test_who_comes_while_there_is_no_descriptor_left_waits_and_is_served(
    assemble: Assemble, listener: socket.socket, dial: Dial, until: Until, logs: list[Any]
) -> None:
    async with serving(assemble(), listener):
        steady, late = await dial(listener), socket.socket(socket.AF_UNIX)
        await steady.ask("ping")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(late.fileno())
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            late.connect(listener.getsockname())
            await until(lambda: any(event["event"] == "accept_failed" for event in logs))
            assert (await steady.ask("ping", 2))["id"] == 2
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        async with await anyio.abc.UNIXSocketStream.from_socket(late) as client:
            await client.send(b'{"id": 3, "method": "ping"}\n')
            assert b'"id":3' in await client.receive()


# --------------------------------------------------------------------------- how the daemon stops


@pytest.mark.anyio
async def test_a_drain_with_nothing_in_flight_leaves_nothing_unanswered(
    assemble: Assemble, listener: socket.socket, dial: Dial
) -> None:
    async with serving(assemble(), listener) as server:
        client = await dial(listener)
        await client.ask("ping")

        assert await server.drain(10) == 0

        refused = await client.ask("ping", 2)
        assert refused["error"]["data"]["code"] == "draining"


@pytest.mark.anyio
async def test_a_drain_waits_for_what_was_accepted(
    gated: tuple[World, Gate], listener: socket.socket, dial: Dial, until: Until
) -> None:
    opened, gate = gated
    unanswered: list[int] = []

    async def drain(server: Server) -> None:
        unanswered.append(await server.drain(10))

    async with serving(opened.parts, listener) as server, anyio.create_task_group() as tasks:
        client = await dial(listener)
        await client.send({"id": 1, "method": "search", "params": {"query": "q", "deadline_ms": 30_000}})
        await until(lambda: gate.held)
        tasks.start_soon(drain, server)
        await anyio.wait_all_tasks_blocked()
        assert unanswered == []
        gate.open()
        assert "result" in await client.receive()

    assert unanswered == [0]


@pytest.mark.anyio
async def test_a_drain_that_may_not_wait_any_longer_counts_what_is_unanswered(
    gated: tuple[World, Gate], listener: socket.socket, dial: Dial, until: Until
) -> None:
    opened, _ = gated
    async with serving(opened.parts, listener) as server:
        client = await dial(listener)
        await client.send(
            *({"id": n, "method": "search", "params": {"query": "q", "deadline_ms": 30_000}} for n in (1, 2))
        )
        await until(lambda: opened.parts.methods.gauges.in_flight == 2)

        assert await server.drain(0.05) == 2
