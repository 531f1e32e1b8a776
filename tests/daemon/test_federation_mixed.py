"""One search over documents, code and books: three formats, one order, whatever is in segments."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
import pytest

from collated.cache import Cache
from collated.catalog import Store
from collated.embedding import Embedders
from collated.federation import Federation
from collated.grepping import Grepping
from collated.protocol import GrepParams, SearchParams, SearchResult
from collated.sidecars.combining import combine
from collated.sidecars.segment import Segment, index_store
from collated_readers import Budget, Reader
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import MakeStore
    from tests.daemon.conftest import Until
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio

BOOKS = ("bge_valid", "exp_float32_le")
CODE = ("pydantic", "typer")
DOCUMENTS = ("birds", "fields", "fruit", "guide", "models", "trees")
QUERIES = (
    *("get_command", "getCommand", "model validate", "the model", "vector store", "how does the field work"),
    *("chunk", "BaseModel", "what is a 'café' in the store", "nothing-has-this", "***"),
)
RANKINGS = ("contract", "fused", "global", "smart")


@pytest.fixture
async def mixed(make_store: MakeStore, shared: Path, stores: Path, assemble: Assemble, until: Until) -> Parts:
    """Six stores of documents, two of code and two of books, all that readers do in the background done."""
    for name in DOCUMENTS:
        text = f"# {name}\n\nThe model of {name} validates a field.\n\n## get_command\n\nA vector of {name}."
        make_store(stores / f"{name}.sqlite", {"a.md": text, "b.md": f"# Store\n\nEach chunk of {name}."})
    for name in CODE:
        shutil.copy(shared / "data" / "codebase-index" / name / "index.sqlite", stores / f"{name}.sqlite")
    for name in BOOKS:
        for file in (shared / "data" / "book-agent" / "stores").glob(f"{name}.*"):
            shutil.copy(file, stores / file.name)
    parts = assemble()
    await parts.look()
    await parts.inventory.all_opened()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        books = [store for store in parts.inventory.in_order() if store.format == "book-agent"]
        assert len(books) == len(BOOKS)
        await until(lambda: all("validation" in parts.examining.details(store) for store in books))
        tasks.cancel_scope.cancel()
    return parts


async def search(parts: Parts, query: str, **params: object) -> SearchResult:
    asked = msgspec.structs.replace(SearchParams(query, limit=20), **params)
    federation = Federation(parts.fanout, parts.corpora, Cache(0), Embedders({}, {}))
    return await federation.search(asked, Budget.lasting(20))


async def grep(parts: Parts, pattern: str) -> bytes:
    grepping = Grepping(parts.fanout, parts.corpora, Cache(0))
    return msgspec.json.encode(await grepping.grep(GrepParams(pattern), Budget.lasting(20)))


async def indexed(parts: Parts, names: Sequence[str], kept: dict[str, Segment]) -> None:
    """Have just the stores called *names* in segments, one for each format; *kept* are those of one store."""
    by_format: dict[str, list[Segment]] = {}
    for name in names:
        if name not in kept:
            store = parts.inventory.named(name)
            assert store is not None
            made = partial(_segment, store, parts.inventory.reader(store))
            kept[name] = await parts.pool.ask(store.path, None, made, Budget.lasting(30))
        by_format.setdefault(kept[name].format, []).append(kept[name])
    parts.segments.segments = tuple(combine([(one, [0]) for one in each]) for each in by_format.values())
    parts.segments.generation += 1


def _segment(store: Store, reader: Reader, db: StoreConnection) -> Segment:
    postings = reader.postings(db)
    assert postings is not None
    texts = [text for _, text in reader.texts(db)]
    return index_store(store.fingerprint or "", reader.format, postings, texts)


async def test_hits_of_all_formats_stand_in_one_list(mixed: Parts) -> None:
    result = await search(mixed, "the vector store", limit=50, ranking="smart")
    assert {hit.format for hit in result.hits} == {"contextpull", "codebase-index", "book-agent"}
    assert result.complete


@pytest.mark.slow
@pytest.mark.parametrize("ranking", RANKINGS)
async def test_the_answer_is_the_same_bytes_whatever_is_in_segments(mixed: Parts, ranking: str) -> None:
    plain = [msgspec.json.encode(await search(mixed, query, ranking=ranking)) for query in QUERIES]
    every = (
        *DOCUMENTS,
        *CODE,
        *(store.name for store in mixed.inventory.in_order() if store.format == "book-agent"),
    )
    kept: dict[str, Segment] = {}
    for names in (every, every[::2], CODE, every[-2:]):
        await indexed(mixed, names, kept)
        for query, expected in zip(QUERIES, plain, strict=True):
            assert msgspec.json.encode(await search(mixed, query, ranking=ranking)) == expected, (
                names,
                query,
            )


@pytest.mark.slow
async def test_grep_finds_the_same_in_all_formats_whatever_is_in_segments(mixed: Parts) -> None:
    patterns = ("get_command", "vector", "é", "model")
    plain = [await grep(mixed, pattern) for pattern in patterns]
    await indexed(mixed, [store.name for store in mixed.inventory.in_order()], {})
    assert [await grep(mixed, pattern) for pattern in patterns] == plain


@pytest.mark.slow
async def test_without_one_format_the_others_hits_keep_their_order(mixed: Parts) -> None:
    for query in QUERIES:
        whole = await search(mixed, query, limit=50)
        for left_out in {hit.format for hit in whole.hits}:
            names = [store.name for store in mixed.inventory.in_order() if store.format != left_out]
            less = await search(mixed, query, limit=50, stores=names)
            kept = [hit.ref for hit in whole.hits if hit.format != left_out]
            assert [hit.ref for hit in less.hits][: len(kept)] == kept
