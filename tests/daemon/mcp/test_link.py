"""The link: one connection for many calls, made when it is needed, and the stores as they are meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from collated.errors import DaemonUnreachable, RequestFailed
from collated.mcp.link import Link

if TYPE_CHECKING:
    from tests.daemon.conftest import Until
    from tests.daemon.mcp.conftest import FakeDaemon, FakeDaemons, MakeStatus

pytestmark = pytest.mark.anyio

NOTHING: dict[str, Any] = {}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the daemon listens."""
    return tmp_path / "s"


def pong(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [{"jsonrpc": "2.0", "id": message["id"], "result": {}}] if message["method"] == "ping" else []


def draining(times: int) -> Any:
    left = iter(range(times))

    def answer(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        if next(left, None) is None:
            return pong(message)
        data = {"code": "draining", "retryable": True, "suggestion": None, "retry_after_ms": None}
        error = {"code": -32008, "message": "the daemon is stopping", "data": data}
        return [{"jsonrpc": "2.0", "id": message["id"], "error": error}]

    return answer


async def test_it_connects_once_for_many_calls(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    daemon = fake_daemon(status("docs"))
    daemon.script = pong
    async with Link(path) as link:
        assert link.known == {}
        assert not daemon.connections
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(link.call, "ping", NOTHING)
        assert list(await link.stores()) == list(link.known) == ["docs"]
    assert len(daemon.connections) == 1
    assert daemon.asked == ["subscribe", "stores", *["ping"] * 5]


async def test_the_stores_are_read_again_when_they_change_and_whoever_waits_is_told(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    daemon = fake_daemon(status("docs"))
    async with Link(path) as link:
        before = await link.stores()
        await anyio.to_thread.run_sync(daemon.change, [status("docs"), status("more")])
        with anyio.fail_after(10):
            assert set(await link.changed(before)) == {"docs", "more"}
            assert set(await link.changed(before)) == {"docs", "more"}  # at once: it did change
        assert set(before) == {"docs"}


async def test_a_flood_of_changes_ends_with_the_stores_as_they_are(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, until: Until
) -> None:
    daemon = fake_daemon(status("docs"))
    async with Link(path) as link:
        await link.stores()
        for _ in range(500):
            await anyio.to_thread.run_sync(daemon.change, [status("docs")])
        await anyio.to_thread.run_sync(daemon.change, [status("last")])
        await until(lambda: set(link.known) == {"last"})


async def test_without_a_daemon_it_says_what_to_do(path: Path) -> None:
    async with Link(path) as link:
        with pytest.raises(DaemonUnreachable, match="--no-spawn") as error:
            await link.call("ping", {})
        assert error.value.is_absent
        assert link.known == {}


async def test_a_daemon_is_started_once_for_many_callers_and_made_to_look_at_the_disk(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    started: list[FakeDaemon] = []

    def start() -> None:
        started.append(fake_daemon(status("docs")))
        started[0].script = pong

    async with Link(path, start) as link, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(link.call, "ping", NOTHING)
    assert len(started) == 1
    assert started[0].asked[:3] == ["subscribe", "rescan", "stores"]


async def test_none_is_started_for_who_says_so_and_one_that_listens_is_found(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    started: list[None] = []
    async with Link(path, lambda: started.append(None)) as link:
        with pytest.raises(DaemonUnreachable):
            await link.stores(may_start=False)
        fake_daemon(status("docs"))
        assert list(await link.stores(may_start=False)) == ["docs"]
    assert not started


async def test_a_daemon_that_cannot_be_started_fails_the_call_and_the_next_tries_again(path: Path) -> None:
    tried: list[int] = []

    def start() -> None:
        tried.append(1)
        raise DaemonUnreachable("the daemon did not start")

    async with Link(path, start) as link:
        for _ in range(2):
            with pytest.raises(DaemonUnreachable, match="did not start"):
                await link.stores()
    assert len(tried) == 2


async def test_a_daemon_that_dies_fails_its_calls_and_the_next_call_finds_another(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, until: Until
) -> None:
    first = fake_daemon(status("docs"))
    async with Link(path) as link:
        before = await link.stores()

        async def ask() -> None:
            with pytest.raises(DaemonUnreachable):
                await link.call("search", {"query": "x"})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: "search" in first.asked)
            await anyio.to_thread.run_sync(first.drop)
        second = fake_daemon(status("more"))
        second.script = pong
        await link.call("ping", {})
        assert set(await link.changed(before)) == {"more"}


async def test_a_call_that_is_cancelled_is_cancelled_in_the_daemon(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus, until: Until
) -> None:
    daemon = fake_daemon(status("docs"))
    daemon.script = pong
    async with Link(path) as link:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.call, "search", {"query": "x"})
            await until(lambda: "search" in daemon.asked)
            tasks.cancel_scope.cancel()
        await link.call("ping", {})
    (search,) = (each for each in daemon.received if each["method"] == "search")
    (cancel,) = (each for each in daemon.received if each["method"] == "$/cancelRequest")
    assert cancel["params"] == {"id": search["id"]}


async def test_who_is_cancelled_while_it_connects_leaves_the_link_in_order(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    daemon = fake_daemon(status("docs"))
    daemon.script = pong
    async with Link(path) as link:
        with anyio.move_on_after(0):
            await link.call("ping", {})
        await link.call("ping", {})
        assert set(link.known) == {"docs"}


async def test_a_daemon_that_is_leaving_is_asked_again(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    daemon = fake_daemon(status("docs"))
    daemon.script = draining(2)
    async with Link(path) as link:
        await link.call("ping", {})
    assert daemon.asked.count("ping") == 3


@pytest.mark.slow
async def test_a_daemon_that_leaves_for_long_is_not_waited_for(
    path: Path, fake_daemon: FakeDaemons, status: MakeStatus
) -> None:
    fake_daemon(status("docs")).script = draining(1_000)
    async with Link(path) as link:
        with pytest.raises(RequestFailed, match="stopping"):
            await link.call("ping", {})


async def test_progress_is_handed_on(path: Path, fake_daemon: FakeDaemons, status: MakeStatus) -> None:
    def answer(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        value: dict[str, Any] = {"asked": 2, "answered": 1, "hits": [], "failed": []}
        params = {"token": message["params"]["partialResultToken"], "value": value}
        stores: dict[str, Any] = {"asked": 2, "answered": 2, "skipped": 0, "failed": []}
        result: dict[str, Any] = {"matches": [], "truncated": False, "complete": True, "stores": stores}
        return [
            {"jsonrpc": "2.0", "method": "$/progress", "params": params},
            {"jsonrpc": "2.0", "id": message["id"], "result": result},
        ]

    fake_daemon(status("docs")).script = answer
    told: list[int] = []
    async with Link(path) as link:
        await link.call("grep", {"pattern": "x"}, lambda partial: told.append(partial.answered))
    assert told == [1]
