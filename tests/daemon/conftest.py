"""What the tests of the daemon share. Async ones run on asyncio, where a blocking call fails the test."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

# What may block on the event loop, and why.
_ALLOWED: tuple[tuple[str, str, str], ...] = (
    ("os.stat", "collated/watch.py", "_watch_once"),  # is the directory there: one stat, no data
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio alone: aiosqlite knows no other."""
    return "asyncio"


@pytest.fixture(autouse=True)
def blockbuster(request: pytest.FixtureRequest) -> Iterator[BlockBuster | None]:
    """Make blocking calls of our own code on the event loop raise, in tests that are coroutines."""
    if not inspect.iscoroutinefunction(request.function):
        yield None
        return
    with blockbuster_ctx(["collated", "collated_readers"]) as active:
        for function, filename, caller in _ALLOWED:
            active.functions[function].can_block_in(filename, caller)
        yield active


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """`await until(condition)` returns as soon as it holds, and fails the test after ten seconds."""

    async def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "waited ten seconds in vain"
            await anyio.sleep(0.002)

    return wait
