"""Search by words and vectors: over one store its own answer, over many their lists fused by rank."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

from collated.cache import Cache
from collated.embedding import Embedders, NotEmbedded
from collated.federation import Federation
from collated.merge import merge_hybrid
from collated.protocol import Hit, SearchParams, SearchResult
from collated.sidecars.segment import Segment, index_store
from collated_readers import Budget, Query, Ranked, single
from collated_readers import Hit as StoreHit
from collated_readers.contextpull import ContextPull
from collated_readers.contract import Embed
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.daemon.conftest import Until
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio

QUERIES = ("red apple", "pear", "banana oak", "nothing-of-this", "e", "***")
WORDS = ("red apple", "green pear tree", "yellow banana", "old oak tree", "an owl in the oak", "red robin")
TEXTS = {
    f"{name}.md": "\n\n".join(f"## Part {n}\n\nThe {word} of {name}, {n}." for n, word in enumerate(WORDS))
    for name in ("one", "two", "three")
}


def letters(text: str, count: int = 3) -> list[float]:
    """Give every text a vector that tells its letters."""
    return [1.0 + text.lower().count(letter) for letter in "aeo"[:count]]


def _embed_all(model: str, texts: list[str]) -> list[list[float]]:
    return [letters(text) for text in texts]


class Letters(Embedders):
    """Knows how the model `letters` embeds, until it is `down`; has *count* numbers in a vector."""

    def __init__(self, count: int = 3) -> None:
        super().__init__({}, {})
        self.count = count
        self.is_down = False

    async def embed(self, model: str, text: str, budget: Budget) -> Sequence[float] | NotEmbedded:
        """Give the letters' vector."""
        if self.is_down or "letters" not in model:
            return NotEmbedded("embedder_failed", f"nobody embeds with {model}")
        return letters(text, self.count)


class Shifted(Letters):
    """Embeds otherwise under the same name."""

    async def embed(self, model: str, text: str, budget: Budget) -> Sequence[float] | NotEmbedded:
        """Give another vector."""
        return letters(text[::-1] + "oooo")


@pytest.fixture
async def parts(make_store: MakeStore, stores: Path, assemble: Assemble) -> Parts:
    """`fruit` and `trees` have vectors that can be asked, `other` has unknown ones, and `plain` none."""
    make_store(stores / "plain.sqlite", TEXTS)
    for name, model in {"fruit": "letters", "trees": "letters", "other": "unheard"}.items():
        make_store(
            stores / f"{name}.sqlite",
            {f"{name}/{path}": text for path, text in TEXTS.items()},
            embed_model=f"openai:{model}",
            embed_fn=_embed_all,
        )
    parts = assemble()
    await parts.look()
    return parts


async def search(
    parts: Parts, query: str, embedders: Embedders | None = None, **params: object
) -> SearchResult:
    federation = Federation(parts.fanout, parts.corpora, Cache(0), embedders or Letters())
    asked = msgspec.structs.replace(SearchParams(query, mode="hybrid", limit=7), **params)
    return await federation.search(asked, Budget.lasting(10))


async def alone(parts: Parts, name: str, query: Query) -> single.Answer:
    store = parts.inventory.named(name)
    assert store is not None

    reader = parts.inventory.reader(store)

    def ask(db: StoreConnection) -> single.Answer:
        return single.search(reader, db, query, lambda _, text: letters(text))

    return await parts.pool.ask(store.path, None, ask, Budget.lasting(10))


async def index(parts: Parts, name: str) -> None:
    store = parts.inventory.named(name)
    assert store is not None
    reader = parts.inventory.reader(store)

    def made(db: StoreConnection) -> Segment:
        postings = reader.postings(db)
        assert postings is not None
        return index_store(store.fingerprint or "", reader.format, postings, None)

    segment = await parts.pool.ask(store.path, None, made, Budget.lasting(10))
    parts.segments.segments = (*parts.segments.segments, segment)
    parts.segments.generation += 1


def shown(hits: Sequence[Hit]) -> list[tuple[str, float, str, str]]:
    return [(hit.id, hit.score, hit.snippet, hit.tier) for hit in hits]


@pytest.mark.parametrize("query", QUERIES)
async def test_over_one_store_it_is_the_stores_own_answer(parts: Parts, query: str) -> None:
    expected = await alone(parts, "fruit", Query(query, (), 7, is_hybrid=True))

    result = await search(parts, query, stores=["fruit"])

    assert shown(result.hits) == [(hit.id, hit.score, hit.snippet, hit.tier) for hit in expected.hits]
    assert (result.mode, result.hint, result.complete) == (expected.mode, expected.hint, True)


@pytest.mark.parametrize("query", QUERIES[:3])
async def test_over_many_the_lists_are_fused_by_rank_with_and_without_segments(
    parts: Parts, query: str
) -> None:
    lists: dict[str, list[Ranked]] = {}
    for name in ("fruit", "trees"):
        own = await alone(parts, name, Query(query, (), 7, is_hybrid=True))
        lists[name] = [Ranked(hit.id, hit.tier, 0.0, 0) for hit in own.hits]
    for name in ("plain", "other"):
        own = await alone(parts, name, Query(query, (), 7))
        lists[name] = [Ranked(hit.id, hit.tier, 0.0, 0) for hit in own.hits]

    result = await search(parts, query)
    places = {
        name: [hit.id for hit in result.hits if hit.store == name]
        for name in ("fruit", "trees", "plain", "other")
    }

    for name, ids in places.items():  # a store's own order stays as it is
        assert ids == [hit.id for hit in lists[name]][: len(ids)]
    keys = [(-hit.score, hit.id, hit.store) for hit in result.hits]
    assert [score for score, _, _ in keys] == sorted(score for score, _, _ in keys)
    assert result.mode == "hybrid"
    assert result.hint == "nobody embeds with openai:unheard"
    assert {hit.store for hit in result.hits} == {"fruit", "trees", "plain", "other"}
    for name in ("plain", "fruit", "other"):
        await index(parts, name)
        assert await search(parts, query) == result


async def test_a_store_that_only_vectors_find_is_found(parts: Parts) -> None:
    result = await search(parts, "unheardof")

    assert {hit.store for hit in result.hits} == {"fruit", "trees"}
    assert {hit.tier for hit in result.hits} == {"dense"}
    assert result.stores.skipped == 2


async def test_a_vector_of_another_length_is_said_and_words_alone_are_asked(parts: Parts) -> None:
    plain = await search(parts, "red apple", mode="lexical", stores=["fruit"])

    result = await search(parts, "red apple", Letters(2), stores=["fruit"])

    assert (result.hits, result.mode) == (plain.hits, "lexical")
    assert result.hint == "fruit: its vectors have 3 numbers, the query's has 2"
    assert result.complete


@pytest.mark.parametrize("ranking", ["contract", "fused", "global", "smart"])
async def test_where_no_vectors_fit_it_is_the_lexical_answer_in_every_ranking(
    parts: Parts, make_store: MakeStore, stores: Path, ranking: str
) -> None:
    texts = {
        "do.md": "# Do\n\nWhat does it do? What it does.",
        "owl.md": "# Owl\n\nIn this old oak lives an owl.",
    }
    make_store(stores / "asked.sqlite", texts, min_chars=1, embed_model="openai:letters", embed_fn=_embed_all)
    await parts.look()
    await index(parts, "asked")
    asked: dict[str, Any] = {"ranking": ranking, "stores": ["asked"]}
    plain = await search(parts, "what does the owl do", mode="lexical", **asked)
    assert (await search(parts, "what does the owl do", Letters(2), **asked)).hits == plain.hits


async def test_without_an_embedder_it_is_the_lexical_answer_and_says_why(parts: Parts) -> None:
    embedders = Letters()
    embedders.is_down = True
    plain = await search(parts, "red apple", mode="lexical")

    result = await search(parts, "red apple", embedders)

    assert result.hits == plain.hits
    assert result.mode == "lexical"
    assert result.hint == "nobody embeds with openai:letters; nobody embeds with openai:unheard"


async def test_of_many_reasons_a_few_are_said_and_none_at_length(
    make_store: MakeStore, stores: Path, assemble: Assemble
) -> None:
    models = ["a" * 5_000, "b", "c", "d", "e"]
    for number, model in enumerate(models):
        make_store(stores / f"{number}.sqlite", {"a.md": "an apple"}, embed_model=model, embed_fn=_embed_all)
    parts = assemble()
    await parts.look()

    hint = (await search(parts, "apple")).hint

    assert hint is not None
    first, *others = hint.split("; ")
    assert first == f"nobody embeds with {'a' * 5_000}"[:300] + "…"
    assert others == ["nobody embeds with b", "nobody embeds with c", "2 more"]


async def test_stores_without_vectors_say_so(parts: Parts) -> None:
    result = await search(parts, "red apple", stores=["plain"])
    assert (result.mode, result.hint) == ("lexical", "no embeddings in store")


def test_lists_are_fused_by_reciprocal_rank_then_id_then_store() -> None:
    lists = {
        "b": [Ranked("1", "any", -9.0, 0), Ranked("0", "any", -8.0, 0)],
        "a": [Ranked("1", "dense", -2 / 61, 0), Ranked("7", "any", -1 / 61, 0)],
    }
    merged = [(store, hit.id, hit.rank) for store, hit in merge_hybrid(lists, frozenset("a"), 9)]
    assert merged == [("a", "1", -2 / 61), ("b", "1", -2 / 61), ("b", "0", -2 / 62), ("a", "7", -1 / 61)]


class Counting(ContextPull):
    """Counts how often a store's list is made; `plain` changes while it is first shown."""

    def __init__(self) -> None:
        self.made = 0
        self.is_changed = False

    def fused(self, db: sqlite3.Connection, query: Query, embed: Embed) -> list[Ranked] | None:
        """Count."""
        self.made += 1
        return super().fused(db, query, embed)

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[StoreHit]:
        """Change `plain` once."""
        assert isinstance(db, StoreConnection)
        if db.path.stem == "plain" and not self.is_changed:
            self.is_changed = True
            os.utime(db.path, (1_000, 1_000))
        return super().hits(db, query, ranked)


async def test_a_list_is_made_once_for_a_query_and_its_vector(
    make_store: MakeStore, stores: Path, assemble: Assemble
) -> None:
    make_store(stores / "plain.sqlite", TEXTS)
    make_store(stores / "fruit.sqlite", TEXTS, embed_model="letters", embed_fn=_embed_all)
    reader = Counting()
    parts = assemble(None, [reader])
    await parts.look()
    asked = SearchParams("red apple", mode="hybrid", limit=30)

    def federation(embedders: Embedders) -> Federation:
        return Federation(parts.fanout, parts.corpora, parts.cache, embedders)

    first = await federation(Letters()).search(asked, Budget.lasting(10))
    assert (reader.is_changed, reader.made) == (True, 1)
    assert {hit.store for hit in first.hits} == {"plain", "fruit"}
    assert await federation(Letters()).search(asked, Budget.lasting(10)) == first
    assert reader.made == 1
    await federation(Shifted()).search(asked, Budget.lasting(10))
    assert reader.made == 2


# ---------------------------------------------------------------- stores of all formats

CODE = {
    f"{word}.py": f"def {word}():\n    '''An {word} in the garden.'''\n    return '{word}'\n"
    for word in ("apple", "oak", "owl", "pear", "plum", "aloe", "onion", "robin")
}
MIXED = ("books", "code", "fruit", "plain")


def _put_book(path: Path) -> None:
    manifest = {
        "version": "book-agent-explicit-v1",
        "model": "letters",
        "dimensions": 3,
        "embedding_format": "json",
        "normalization": "none",
        "metric": "l2",
        "sqlite_schema": {
            "table": "passages",
            "id": "id",
            "text": "body",
            "vector": "vector",
            "source_columns": {"path": "doc"},
        },
    }
    path.with_suffix(".manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE passages (id TEXT PRIMARY KEY, body TEXT, vector TEXT, doc TEXT)")
        for number, word in enumerate(WORDS):
            text = f"A book about a {word}."
            made.execute(
                "INSERT INTO passages VALUES (?, ?, ?, 'book')",
                (f"p{number}", text, json.dumps(letters(text))),
            )
        made.commit()


@pytest.fixture
async def mixed(
    make_store: MakeStore, make_code_store: MakeStore, stores: Path, assemble: Assemble, until: Until
) -> Parts:
    """Documents with and without vectors, code and a book with vectors, all of the model `letters`."""
    make_store(stores / "plain.sqlite", TEXTS)
    make_store(stores / "fruit.sqlite", TEXTS, embed_model="letters", embed_fn=_embed_all)
    make_code_store(stores / "code.sqlite", CODE, embed_model="letters", embed_fn=_embed_all)
    _put_book(stores / "books.sqlite")
    parts = assemble()
    await parts.look()
    await parts.inventory.all_opened()
    book = parts.inventory.named("books")
    assert book is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.examining.run)
        await until(lambda: "validation" in parts.examining.details(book))
        tasks.cancel_scope.cancel()
    return parts


@pytest.mark.slow
@pytest.mark.parametrize("query", ["red apple", "oak", "owl", "unheardof"])
async def test_stores_of_all_formats_are_asked_by_words_and_vectors(mixed: Parts, query: str) -> None:
    asked = Query(query, (), 20, is_hybrid=True)
    own = {name: await alone(mixed, name, asked) for name in MIXED}
    assert {name: answer.mode for name, answer in own.items() if answer.hits} == {
        name: "lexical" if name == "plain" else "hybrid" for name in MIXED if own[name].hits
    }

    result = await search(mixed, query, limit=20)

    assert (result.mode, result.hint, result.complete) == ("hybrid", None, True)
    assert {hit.format for hit in result.hits} == {"contextpull", "codebase-index", "book-agent"}
    assert "dense" in {hit.tier for hit in result.hits if hit.store == "code"}
    keys = [(-hit.score, hit.id, hit.store) for hit in result.hits]
    assert [score for score, _, _ in keys] == sorted(score for score, _, _ in keys)
    for name in MIXED:
        found = [(hit.id, hit.snippet, hit.tier) for hit in result.hits if hit.store == name]
        assert found == [(hit.id, hit.snippet, hit.tier) for hit in own[name].hits][: len(found)]
    for name in ("code", "books", "plain"):
        await index(mixed, name)
        assert await search(mixed, query, limit=20) == result


@pytest.mark.slow
@pytest.mark.parametrize("name", ["code", "books", "fruit"])
async def test_over_one_store_of_any_format_it_is_the_stores_own_answer(mixed: Parts, name: str) -> None:
    for query in QUERIES:
        expected = await alone(mixed, name, Query(query, (), 7, is_hybrid=True))
        result = await search(mixed, query, stores=[name])
        assert shown(result.hits) == [(hit.id, hit.score, hit.snippet, hit.tier) for hit in expected.hits]
        assert (result.mode, result.hint) == (expected.mode, expected.hint)


@pytest.mark.slow
async def test_a_vector_of_another_length_leaves_words_to_code_and_books(mixed: Parts) -> None:
    result = await search(mixed, "oak", Letters(2), stores=["code"])
    assert (result.mode, result.hint) == ("lexical", "code: its vectors have 3 numbers, the query's has 2")
    assert {hit.tier for hit in result.hits} <= {"symbol", "any"}
    assert result.hits


@pytest.mark.slow
@pytest.mark.parametrize("query", ["oak", "an owl", "garden", "def pear"])
async def test_code_that_cannot_be_asked_by_vectors_answers_as_its_own_program_does(
    mixed: Parts, make_code_store: MakeStore, stores: Path, query: str
) -> None:
    make_code_store(stores / "bare.sqlite", CODE)
    await mixed.look()
    await mixed.inventory.all_opened()
    for name in ("code", "bare"):
        await index(mixed, name)
    expected = await alone(mixed, "code", Query(query, (), 10))

    among = await search(mixed, query, limit=40)
    refused = await search(mixed, query, Letters(2), stores=["code"], limit=10)

    assert among.mode == "hybrid"
    own = [hit.id for hit in expected.hits]
    assert [hit.id for hit in among.hits if hit.store == "bare"] == own
    assert shown(refused.hits) == [(hit.id, hit.score, hit.snippet, hit.tier) for hit in expected.hits]
