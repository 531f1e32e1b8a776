"""Answers are the same bytes whether all, some or none of the stores are in segments (issue: sidecars)."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
import msgspec
import pytest

from collated.cache import Cache
from collated.corpora import Corpora
from collated.embedding import Embedders
from collated.errors import RequestFailed
from collated.federation import Federation
from collated.grepping import Grepping
from collated.protocol import GrepParams, GrepResult, SearchParams, SearchResult
from collated.sidecars.combining import combine
from collated.sidecars.segment import Segment, index_store
from collated_readers import Budget
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection
from collated_readers.postings import Postings

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio

T = TypeVar("T")

STORES = {
    "apples": {"a.md": "# Apples\n\nThe apple tree bears red apples.\n\n## Garden\n\nA garden of trees.\n"},
    "apples-old": {
        "a.md": "# Apples\n\nThe apple tree bears red apples.\n",
        "b.md": "# Red\n\nred red red\n",
    },
    "birds": {
        "b/c.md": "# Birds\n\nA bird in the tree.\n",
        "b/e.md": "# Red\n\nred red red\n",
        "d.md": "# Nest\n\nthe nest\n",
    },
    "car": {"m.md": "# Engine\n\nHow does the engine start? It does when the key turns.\n"},
}
QUERIES = (
    "apple",
    "red",
    "the tree",
    "apple tree",
    "the the",
    "red apples garden",
    "how does the engine start",
    "what is the tree of the garden",
    "nothing",
    "Äpfel tree",
    "***",
)
PATTERNS = (
    *("red", "RED", "tree", "the", "re", "nothing", "red red"),
    *("b[ie]ars red", "Tree\\.$", "a.*tree", "("),
)
RANKINGS = ("contract", "fused", "global", "smart")


@pytest.fixture(scope="session")
def written(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    for name, documents in STORES.items():
        make_store(folder / f"{name}.sqlite", documents)
    return folder


@pytest.fixture
def copied(written: Path, stores: Path) -> Path:
    shutil.copytree(written, stores, dirs_exist_ok=True)
    return stores


@pytest.fixture
async def parts(copied: Path, assemble: Assemble) -> Parts:
    made = assemble()
    await made.look()
    return made


async def indexed(parts: Parts, names: Iterable[str], *, together: bool = True) -> None:
    """Have just the stores called *names* in segments."""
    made = [await _segment(parts, name) for name in names]
    whole = [combine([(segment, [0]) for segment in made])] if together and made else made
    parts.segments.segments = tuple(whole)
    parts.segments.generation += 1


async def _segment(parts: Parts, name: str) -> Segment:
    store = parts.inventory.named(name)
    assert store is not None
    reader = parts.inventory.reader(store)

    def read(db: StoreConnection) -> Segment:
        postings = reader.postings(db)
        assert postings is not None
        return index_store(store.fingerprint or "", reader.format, postings, [t for _, t in reader.texts(db)])

    return await parts.pool.ask(store.path, store.signature, read, Budget.lasting(10))


async def search(parts: Parts, query: str, **params: object) -> SearchResult:
    """Search with nothing remembered."""
    asked = msgspec.structs.replace(SearchParams(query), **params)
    return await Federation(parts.fanout, parts.corpora, Cache(0), Embedders({}, {})).search(
        asked, Budget.lasting(10)
    )


async def grep(parts: Parts, pattern: str, **params: object) -> GrepResult:
    """Grep with nothing remembered."""
    asked = msgspec.structs.replace(GrepParams(pattern), **params)
    return await Grepping(parts.fanout, parts.corpora, Cache(0)).grep(asked, Budget.lasting(10))


SOME: tuple[list[str], ...] = ([], ["apples"], ["birds", "car"], list(STORES))


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"limit": 3, "collapse": True, "within": ["a.md", "b/*"]},
        pytest.param({"limit": 1}, marks=pytest.mark.slow),
        pytest.param({"collapse": True}, marks=pytest.mark.slow),
        pytest.param({"within": ["a.md", "b/*"]}, marks=pytest.mark.slow),
        pytest.param({"stores": ["apples", "birds"]}, marks=pytest.mark.slow),
        pytest.param({"stores": ["apples", "birds"], "statistics": "all"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
async def test_a_search_gives_the_same_bytes_with_and_without_segments(
    parts: Parts, ranking: str, params: dict[str, object]
) -> None:
    answers: dict[str, set[bytes]] = {query: set() for query in QUERIES}
    for names in SOME:
        for together in True, False:
            await indexed(parts, names, together=together)
            for query in QUERIES:
                result = await search(parts, query, ranking=ranking, **params)
                answers[query].add(msgspec.json.encode(result))

    assert {query: len(each) for query, each in answers.items()} == dict.fromkeys(QUERIES, 1)


@pytest.mark.parametrize(
    "params", [{}, {"limit": 1}, {"limit": 2, "within": ["a.md"]}, {"stores": ["birds"]}], ids=str
)
@pytest.mark.parametrize("is_regex", [False, True])
async def test_a_grep_gives_the_same_bytes_with_and_without_segments(
    parts: Parts, is_regex: bool, params: dict[str, object]
) -> None:
    answers: dict[str, set[bytes]] = {pattern: set() for pattern in PATTERNS}
    for names in SOME:
        await indexed(parts, names)
        for pattern in PATTERNS:
            try:
                answer = msgspec.json.encode(await grep(parts, pattern, regex=is_regex, **params))
            except RequestFailed as failed:
                answer = f"{failed.code} {failed.message}".encode()
            answers[pattern].add(answer)

    assert {pattern: len(each) for pattern, each in answers.items()} == dict.fromkeys(PATTERNS, 1)


class Restless(Corpora):
    """A corpus that changes while it is computed with: *then* is what the segments are from there on."""

    then: tuple[Segment, ...] = ()

    async def compute(self, function: Callable[[], T], cost: int) -> T:
        """Compute, and have other segments when that is done."""
        result = await super().compute(function, cost)
        self.change()
        return result

    def change(self) -> None:
        """Have other segments."""
        self._segments.segments = self.then
        self._segments.generation += 1


class Lender(ContextPull):
    """A reader in whose hands the segments change while it lends postings."""

    def __init__(self) -> None:
        self.change: Callable[[], object] = bool  # which does nothing

    def postings(self, db: sqlite3.Connection, terms: Sequence[bytes] | None = None) -> Postings | None:
        """Lend, and have other segments when that is done."""
        self.change()
        return super().postings(db, terms)


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("statistics", ["addressed", "all"])
@pytest.mark.parametrize(
    "segments", [([], list(STORES)), (list(STORES), []), (["apples"], ["birds"])], ids=str
)
async def test_segments_that_come_or_go_while_a_search_runs_change_no_byte(
    copied: Path, assemble: Assemble, ranking: str, statistics: str, segments: tuple[list[str], list[str]]
) -> None:
    reader = Lender()
    parts = assemble(readers=[reader])
    await parts.look()
    made = {name: await _segment(parts, name) for name in STORES}
    corpora = Restless(parts.inventory, parts.segments)
    before, corpora.then = (tuple(made[name] for name in names) for names in segments)
    params = {"ranking": ranking, "statistics": statistics, "stores": ["apples", "birds", "car"]}
    for query in "red apples garden", "the tree":
        await indexed(parts, [])
        expected = await search(parts, query, **params)
        parts.segments.segments = before
        parts.segments.generation += 1
        reader.change = corpora.change
        asked = msgspec.structs.replace(SearchParams(query), **params)

        result = await Federation(parts.fanout, corpora, Cache(0), Embedders({}, {})).search(
            asked, Budget.lasting(10)
        )

        reader.change = bool
        assert msgspec.json.encode(result) == msgspec.json.encode(expected), query


@pytest.fixture(scope="session")
def crowded(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    documents = {f"{number:03}.md": f"# Note {number}\n\nneedle in hay {number}\n" for number in range(150)}
    return make_store(tmp_path_factory.mktemp("crowded") / "crowded.sqlite", documents)


async def test_more_matches_of_one_store_than_a_grep_may_give_are_counted_right(
    crowded: Path, stores: Path, assemble: Assemble
) -> None:
    await anyio.to_thread.run_sync(shutil.copy, crowded, stores / "crowded.sqlite")
    parts = assemble()
    await parts.look()
    answers: list[bytes] = []
    for names in [], ["crowded"]:
        await indexed(parts, names)
        for limit in 99, 100:
            answers.append(msgspec.json.encode(await grep(parts, "needle", limit=limit)))
        assert (await grep(parts, "hay 14", limit=100)).truncated is False

    assert answers[:2] == answers[2:]
    assert (await grep(parts, "needle", limit=100)).truncated


@pytest.mark.parametrize("ranking", RANKINGS)
async def test_two_names_of_one_file_are_two_stores(copied: Path, assemble: Assemble, ranking: str) -> None:
    (copied / "zwei.sqlite").hardlink_to(copied / "apples.sqlite")  # one signature, so one fingerprint
    parts = assemble()
    await parts.look()
    answers: set[bytes] = set()
    for names in [], ["apples"], ["zwei"], ["apples", "zwei"]:
        await indexed(parts, names, together=False)
        result = await search(parts, "apple", ranking=ranking)
        answers.add(msgspec.json.encode(result))
        assert {hit.store for hit in result.hits} == {"apples", "apples-old", "zwei"}

    assert len(answers) == 1


async def test_equal_texts_are_shown_once_and_the_others_named(parts: Parts) -> None:
    result = await search(parts, "red", collapse=True)

    assert [(hit.ref, hit.also or []) for hit in result.hits] == [
        ("birds:b/e.md#0", ["apples-old:b.md#0"]),
        ("apples:a.md#0", []),
        ("apples-old:a.md#0", []),
    ]


async def test_a_store_that_cannot_match_is_not_asked(parts: Parts) -> None:
    result = await search(parts, "engine")

    assert (result.stores.asked, result.stores.answered, result.stores.skipped) == (4, 1, 3)
