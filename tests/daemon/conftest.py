"""What the tests of the daemon share. Async ones run on asyncio, where a blocking call fails the test."""

from __future__ import annotations

import inspect
import itertools
import os
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from msgspec.structs import replace
from structlog.testing import capture_logs

from collated.cache import Cache
from collated.corpora import Corpora
from collated.embedding import Embedders
from collated.examining import Examining
from collated.fanout import WORKERS, Fanout
from collated.federation import Federation
from collated.grepping import Grepping
from collated.inventory import Inventory
from collated.methods import Methods
from collated.pool import Pool
from collated.protocol import Changes, GrepParams, GrepResult, ReloadResult, SearchParams, SearchResult
from collated.settings import Settings
from collated.sidecars.keeper import Keeper
from collated.sidecars.segment import Segment
from collated.state import Memory
from collated_readers import (
    Budget,
    Hit,
    Match,
    Matches,
    Pattern,
    Query,
    Ranked,
    Reader,
    Reading,
    RequestError,
    StoreFacts,
    Tier,
    code,
)
from collated_readers.code import Chunk, Impact, ReferenceKind, References, Symbols
from collated_readers.contextful.reader import NoEngine
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection
from collated_readers.registry import READERS
from collated_readers.vectors import MEMORY_BYTES, Similar, VectorFacts

MakeStore = Callable[..., Path]
PutStore = Callable[..., Path]
Until = Callable[[Callable[[], object]], Awaitable[None]]

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
_LONG_AGO_S = 1_000_000_000

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
    ages = itertools.count(_LONG_AGO_S)
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


class Segments:
    """Segments of a test's own making, in place of a keeper's."""

    def __init__(self) -> None:
        self.segments: tuple[Segment, ...] = ()
        self.generation = 0


class Parts:
    """A daemon's parts over the directory `stores`, put together as `app` does, with nothing running."""

    def __init__(
        self, root: Path, settings: Settings, readers: Sequence[Reader], tasks: anyio.abc.TaskGroup
    ) -> None:
        self.memory = Memory(root / "state" / "state.sqlite")
        self.pool = Pool(root / "copies", settings.cache.copy_limit_bytes, settings.search.max_open_stores)
        self.inventory = Inventory(settings, root / "stores", self.pool, self.memory, readers)
        self.inventory.open_in(tasks)
        self.cache = Cache(settings.cache.answers_bytes)
        self.fanout = Fanout(self.inventory, self.pool)
        self.segments = Segments()
        self.corpora = Corpora(self.inventory, self.segments)
        self.keeper = Keeper(root / "sidecars", root / "copies", settings.cache)
        self.embedders = Embedders(settings.embedding, {})
        self.examining = Examining(self.inventory, root / "copies")
        self.reloads = 0
        self.reload_error: Exception | None = None
        self.methods = Methods(
            settings,
            inventory=self.inventory,
            fanout=self.fanout,
            cache=self.cache,
            memory=self.memory,
            corpora=self.corpora,
            keeper=self.keeper,
            examining=self.examining,
            embedders=self.embedders,
            engine=NoEngine(),
            socket=root / "socket",
            reload=self._reload,
        )

    @property
    def states(self) -> dict[str, str]:
        """Each store's state by name, or where there is one the reason's code."""
        return {s.name: s.reason.code if s.reason else s.state.value for s in self.inventory.in_order()}

    async def look(self) -> Changes:
        """Look as the daemon does first of all, after which it answers."""
        changes = await self.inventory.look(now=True)
        self.inventory.is_ready.set()
        return changes

    async def close(self) -> None:
        await self.pool.close()
        await self.memory.close()

    async def _reload(self) -> ReloadResult:
        self.reloads += 1
        if self.reload_error is not None:
            raise self.reload_error
        return ReloadResult([], await self.look())


Assemble = Callable[..., Parts]


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


# --------------------------------------------------------------------------- a reader in a list

Act = Callable[[StoreConnection], object]
Script = dict[str, Mapping[Tier, Sequence[tuple[str, float]]]]
"""What each store finds in each tier: ids with their ranks."""


class Scripted(ContextPull):
    """A reader that answers as *script* says, of which `acts` run first: by store and what is asked."""

    format = "scripted"

    def __init__(self, script: Script) -> None:
        self.script = dict(script)
        self.acts: dict[tuple[str, str], Act] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.lost: set[str] = set()
        self.lines: Mapping[str, tuple[int, int]] = {}
        self.words: list[bytes] | None = None
        self._lock = threading.Lock()

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """Recognise every file."""
        return True

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """Give facts that never change, so that the signature alone tells contents apart."""
        self._begin(db, "open")
        return StoreFacts("1", "", documents=1, records=1)

    def vocabulary(self, db: sqlite3.Connection) -> list[bytes] | None:
        """Have these words, or none to look up."""
        return self.words

    def tiers(self, query: Query) -> tuple[Tier, ...]:
        """Run all three passes on anything but nothing."""
        return ("phrase", "all", "any") if query.text else ()

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """Give what is written down, in the contract's order."""
        name = self._begin(db, tier)
        found = sorted((rank, record_id) for record_id, rank in self.script[name].get(tier, ()))
        return [Ranked(record_id, tier, rank, 0) for rank, record_id in found][: query.limit]

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """Say in the snippet whence the hit comes."""
        name = self._begin(db, "hits")
        return [
            Hit(
                each.id,
                "d",
                "",
                f"{name}:{each.tier}:{each.rank}",
                round(-each.rank, 2),
                "prose",
                each.tier,
                *self.lines.get(each.id, ()),
            )
            for each in ranked
            if each.id not in self.lost
        ]

    def digests(self, db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
        """Know of no texts."""
        return [b"" for _ in ranked]

    def grep(self, db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
        """Match every id that is written down under the tier `all`."""
        name = self._begin(db, "grep")
        ids = sorted(record_id for record_id, _ in self.script[name].get("all", ()))
        found = tuple(Match(record_id, "d", "", name) for record_id in ids)
        return Matches(found[: pattern.limit], len(found) > pattern.limit)

    def read(self, db: sqlite3.Connection, record_id: str, context: int) -> Reading:
        """Find nothing; there is only what acts."""
        self._begin(db, "read")
        raise RequestError("unknown_id", f"no record {record_id}")

    def _begin(self, db: sqlite3.Connection, what: str) -> str:
        assert isinstance(db, StoreConnection)
        name = db.path.stem
        with self._lock:
            self.calls[name, what] += 1
        if act := self.acts.get((name, what)):
            act(db)
        return name


class Turns:
    """Lets the stores answer in one order only, whichever of them was asked first."""

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)
        self._turn = threading.Condition()

    def __call__(self, db: StoreConnection) -> None:
        with self._turn:
            assert self._turn.wait_for(lambda: self._order[0] == db.path.stem, 20)
            del self._order[0]
            self._turn.notify_all()


InTurn = Callable[[Sequence[str]], Act]


@pytest.fixture
def in_turn() -> InTurn:
    """`in_turn(names)` is an act that has stores answer in this order."""
    return Turns


Answers = dict[str, Mapping[str, Any]]
"""What each store answers, or raises, by the method that asks it."""


class Coded(Scripted):
    """A reader of code and of vectors that answers as `answers` say, or raises what they hold."""

    format = "coded"
    capabilities = Scripted.capabilities | {
        *("symbols", "references", "impact", "chunk", "architecture", "vectors.search")
    }

    def __init__(self, answers: Answers) -> None:
        super().__init__({store: {} for store in answers})
        self.answers = answers
        self.asked: list[tuple[str, object]] = []

    def symbols(self, db: sqlite3.Connection, name: str, limit: int, *, exact: bool) -> Symbols:
        """Give the first of what is written down."""
        answer: Symbols = self._answer(db, "symbols", (name, limit, exact)) or Symbols(())
        return replace(answer, symbols=answer.symbols[:limit], is_truncated=len(answer.symbols) > limit)

    def references(
        self, db: sqlite3.Connection, name: str, kind: ReferenceKind, path: str | None, limit: int
    ) -> References:
        """Give the first of what is written down."""
        answer: References = self._answer(db, "references", (name, kind, path, limit)) or References(())
        is_truncated = len(answer.references) > limit
        return replace(answer, references=answer.references[:limit], is_truncated=is_truncated)

    def impact(
        self, db: sqlite3.Connection, target: str, direction: code.Direction, depth: int, budget: Budget
    ) -> Impact:
        """Give what is written down, or know no such target."""
        answer = self._answer(db, "impact", (target, direction, depth))
        return answer or Impact((), (), is_known=False)

    def chunk(self, db: sqlite3.Connection, path: str, line: int) -> Chunk:
        """Give what is written down."""
        answer: Chunk | None = self._answer(db, "chunk", (path, line))
        if answer is None:
            raise RequestError("unknown_id", f"no file {path} with text at line {line}")
        return answer

    def architecture(self, db: sqlite3.Connection) -> Mapping[str, Any] | None:
        """Give what is written down."""
        report: Mapping[str, Any] | None = self._answer(db, "architecture", ())
        return report

    def vectors(self, db: sqlite3.Connection) -> VectorFacts:
        """Give what is written down."""
        facts: VectorFacts = self._answer(db, "vectors", ())
        return facts

    def similar(
        self,
        db: sqlite3.Connection,
        vector: Sequence[float],
        limit: int,
        budget: Budget,
        memory_bytes: int = MEMORY_BYTES,
    ) -> list[Similar]:
        """Give the first of what is written down."""
        near: Sequence[Similar] = self._answer(db, "similar", (list(vector), limit)) or ()
        return list(near[:limit])

    def _answer(self, db: sqlite3.Connection, method: str, given: object) -> Any:
        name = self._begin(db, method)
        self.asked.append((method, given))
        answer = self.answers[name].get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Plain(Scripted):
    """A reader of what no other recognises; it answers searches only."""

    format = "plain"


class World:
    """Small real stores, one for each name in a script, and the daemon's parts that ask them."""

    def __init__(
        self, stores: Path, reader: Scripted, assemble: Assemble, workers: int, *others: Reader
    ) -> None:
        self.stores = stores
        self.reader = reader
        self.parts = assemble(readers=[self.reader, *others])
        self.fanout = Fanout(self.parts.inventory, self.parts.pool, workers)
        self._ages = itertools.count(_LONG_AGO_S)

    async def open(self) -> None:
        await anyio.to_thread.run_sync(self._write)
        await self.parts.look()

    def path(self, name: str) -> Path:
        return self.stores / f"{name}.sqlite"

    def touch(self, name: str) -> None:
        """Give the store a signature that it never had, and that has long settled."""
        age = next(self._ages)
        os.utime(self.path(name), (age, age))

    def federation(self, *, workers: int = WORKERS, cache: Cache | None = None) -> Federation:
        """Return another one over the same stores; without *cache* nothing is kept."""
        fanout = Fanout(self.parts.inventory, self.parts.pool, workers)
        return Federation(fanout, self.parts.corpora, cache or Cache(0), Embedders({}, {}))

    async def search(self, *, seconds: float = 10.0, **params: object) -> SearchResult:
        """Search for `q`, with the daemon's own cache; *params* by the names of `SearchParams`."""
        asked = msgspec.structs.replace(SearchParams("q"), **params)
        federation = Federation(self.fanout, self.parts.corpora, self.parts.cache, Embedders({}, {}))
        return await federation.search(asked, Budget.lasting(seconds))

    def grepping(self) -> Grepping:
        """Return what greps, with the daemon's own cache."""
        return Grepping(self.fanout, self.parts.corpora, self.parts.cache)

    async def grep(self, *, seconds: float = 10.0, **params: object) -> GrepResult:
        """Grep for `q`, with the daemon's own cache; *params* by the names of `GrepParams`."""
        asked = msgspec.structs.replace(GrepParams("q"), **params)
        return await self.grepping().grep(asked, Budget.lasting(seconds))

    def _write(self) -> None:
        for name in self.reader.script:
            db = sqlite3.connect(self.path(name))
            db.execute("CREATE TABLE t (x)")
            db.close()
            self.touch(name)


OpenWorld = Callable[[Script], Awaitable[World]]


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


class CodeWorld(World):
    """Small real stores that answer as `coded` says."""

    def __init__(self, stores: Path, coded: Coded, assemble: Assemble, workers: int) -> None:
        super().__init__(stores, coded, assemble, workers, Plain({}))
        self.coded = coded


OpenCode = Callable[[Answers], Awaitable[CodeWorld]]


@pytest.fixture
def code_world(assemble: Assemble, stores: Path, workers: int) -> OpenCode:
    """`await code_world(answers)` opens stores of code and vectors that answer so."""

    async def open_it(answers: Answers) -> CodeWorld:
        opened = CodeWorld(stores, Coded(answers), assemble, workers)
        await opened.open()
        return opened

    return open_it
