"""What the tests of the daemon share. Async ones run on asyncio, where a blocking call fails the test."""

from __future__ import annotations

import inspect
import itertools
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from structlog.testing import capture_logs
from tests.daemon.scripted import Act, Answers, Coded, Script, Scripted, Turns
from tests.daemon.worlds import LONG_AGO_S, Assemble, CodeWorld, Parts, World

from collated.fanout import WORKERS
from collated.settings import Settings
from collated_readers import Reader
from collated_readers.registry import READERS

MakeStore = Callable[..., Path]
PutStore = Callable[..., Path]
Until = Callable[[Callable[[], object]], Awaitable[None]]
InTurn = Callable[[Sequence[str]], Act]
OpenWorld = Callable[[Script], Awaitable[World]]
OpenCode = Callable[[Answers], Awaitable[CodeWorld]]

# Two or three documents each; the words are chosen so that a query can match one store, two, or all.
_DOCUMENTS: dict[str, dict[str, str]] = {
    "fruit": {
        "apple.md": "# Apple\n\nA red apple from the garden.\n\nKeep an apple cool and dark.\n",
        "fig.md": "# Fig\n\nA fig wants a warm garden.\n",
        "pear.md": "# Pear\n\nA green pear, soft in autumn, from the garden.\n",
    },
    "trees": {
        "oak.md": "# Oak\n\nAn oak tree stands in the garden for centuries.\n",
        "apple.md": "# Apple tree\n\nThe apple tree blossoms in May.\n",
    },
    "stars": {
        "sun.md": "# Sun\n\nThe sun is a star like any other, only near.\n",
        "moon.md": "# Moon\n\nThe moon is no star; it shines over the garden.\n",
    },
}

# What may block on the event loop, and why.
_ALLOWED: tuple[tuple[str, str, str], ...] = (
    ("os.stat", "collated/watch.py", "_watch_once"),  # is the directory there: one stat, no data
    ("io.TextIOWrapper.read", "collated/methods.py", "_rss_bytes"),  # /proc is memory, no disk
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
        for each in active.functions.values():  # stores that lie in memory, and are no other machine's
            each.can_block_in("collated/pool.py", "run")
        yield active


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged, each event with its fields; nothing is printed, or read from disk to be printed."""
    with capture_logs() as events:
        yield events


@pytest.fixture
def until() -> Until:
    """`await until(condition)` returns as soon as it holds, and fails the test after ten seconds."""

    async def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "waited ten seconds in vain"
            await anyio.sleep(0.002)

    return wait


@pytest.fixture(scope="session")
def put_store(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> PutStore:
    """`put_store(path, "fruit")` puts a real ContextPull store at *path*; also `trees` and `stars`.

    It is so old that nobody waits for its time stamps to settle, no two of one age; with `is_new=True`
    it is as one that was written this moment.
    """
    ages = itertools.count(LONG_AGO_S)
    made = tmp_path_factory.mktemp("made")
    templates = {name: make_store(made / f"{name}.sqlite", texts) for name, texts in _DOCUMENTS.items()}

    def put(path: Path, content: str = "fruit", *, is_new: bool = False) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(templates[content], path)
        if not is_new:
            age = next(ages)
            os.utime(path, (age, age))
        return path

    return put


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    """The directory that `assemble` looks in."""
    path = tmp_path / "stores"
    path.mkdir()
    return path


@pytest.fixture
async def assemble(tmp_path: Path) -> AsyncIterator[Assemble]:
    """`assemble(settings, readers)` puts the parts of one run of a daemon together; closed at the end."""
    made: list[Parts] = []

    def put_together(settings: Settings | None = None, readers: Sequence[Reader] = READERS) -> Parts:
        made.append(Parts(tmp_path, settings or Settings(), readers, tasks))
        return made[-1]

    async with anyio.create_task_group() as tasks:
        yield put_together
        tasks.cancel_scope.cancel()
    for parts in made:
        await parts.close()


@pytest.fixture
def in_turn() -> InTurn:
    """`in_turn(names)` is an act that has stores answer in this order."""
    return Turns


@pytest.fixture
def workers() -> int:
    """How many stores a world asks at a time; where there are more, many are asked in one hop."""
    return WORKERS


@pytest.fixture
def world(assemble: Assemble, stores: Path, workers: int) -> OpenWorld:
    """`await world(script)` opens stores that answer as the script says."""

    async def open_it(script: Script) -> World:
        opened = World(stores, Scripted(script), assemble, workers)
        await opened.open()
        return opened

    return open_it


@pytest.fixture
def code_world(assemble: Assemble, stores: Path, workers: int) -> OpenCode:
    """`await code_world(answers)` opens stores of code and vectors that answer so."""

    async def open_it(answers: Answers) -> CodeWorld:
        opened = CodeWorld(stores, Coded(answers), assemble, workers)
        await opened.open()
        return opened

    return open_it
