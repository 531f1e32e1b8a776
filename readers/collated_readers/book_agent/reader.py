"""The reader of book-agent stores; each operation has its own module."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from collated_readers.contract import (
    Budget,
    Embed,
    Examined,
    Hit,
    Matches,
    Neighbours,
    Pattern,
    Phrase,
    Query,
    Ranked,
    Reading,
    RequestError,
    StoreFacts,
    Tier,
)
from collated_readers.fusing import dense_depth, reciprocal
from collated_readers.matching.lines import needles_of
from collated_readers.matching.within import path_matcher_of
from collated_readers.opening import StoreConnection, tables
from collated_readers.passes.search import hits_of, ranked_of
from collated_readers.passes.terms import phrases_of
from collated_readers.passes.vocabulary import vocabulary_of
from collated_readers.passes.words import loosened_of, tiers_of, words_of
from collated_readers.single import lexical
from collated_readers.vectors import MEMORY_BYTES, Similar, VectorFacts

from .contents import contents_of
from .ids import text_id
from .layout import BGE, EXPLICIT, Layout
from .lexical import build, index_of
from .manifest import manifest_beside
from .passages import name_of, names_documents, place_of
from .records import Book
from .shapes import count_of, is_shaped, layout_of
from .snapshot import check_sidecars, incomplete

if TYPE_CHECKING:
    from collated_readers.postings import Postings

__all__ = ["BookAgent"]

_AGAIN_S = 60.0  # an index that was found damaged is made again by then; to look costs one `stat`
_LONGEST_S = 60.0


class BookAgent:
    """Reads both book-agent contracts."""

    format = "book-agent"
    versions = f"{BGE}, {EXPLICIT}"
    capabilities = frozenset({"search", "read", "grep", "neighbours", "index", "vectors.search"})

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """See `Reader.recognises`: by its tables, or by the manifest beside it."""
        return is_shaped(db, tables) or manifest_beside(_store(db).path) is not None

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """See `Reader.open`; raises the codes of `formats/book-agent.md` §5 too."""
        store = _store(db)
        if store.mode != "rollback":
            raise incomplete("it is in WAL mode")
        check_sidecars(store.path)
        layout = layout_of(db, tables, manifest_beside(store.path))
        count = count_of(db, layout)
        documents = len(_book(store, layout).documents()) if names_documents(layout.columns) else 1
        return StoreFacts(
            schema_version=layout.contract,
            identity=hashlib.blake2b(f"{layout.digest} {count}".encode(), digest_size=16).hexdigest(),
            documents=documents,
            records=count,
            model=layout.model,
            details={
                "contract": layout.contract,
                "model": layout.model,
                "dimensions": layout.dimensions,
                "metric": layout.metric,
            },
        )

    def examine(self, db: sqlite3.Connection, root: str | None, budget: Budget) -> Examined:
        """See `Examiner.examine`: is all of the store sound? And its texts are indexed."""
        from .validation import outcome  # numpy

        store, layout = _opened(db)
        found = index_of(store, layout).outcome()
        if found is None:
            found = build(store, layout, outcome(db, layout, budget), budget)
        return Examined(found, _AGAIN_S)

    # ----------------------------------------------------------------------- words

    def tiers(self, query: Query) -> tuple[Tier, ...]:
        """See `Reader.tiers`."""
        return tiers_of(words_of(query.text))

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """See `Reader.ranked`; raises `indexing` until the store was examined."""
        with index_of(*_opened(db)).lend() as index:
            return ranked_of(index, query, tier)

    def fused(self, db: sqlite3.Connection, query: Query, embed: Embed) -> list[Ranked] | None:
        """See `Reader.fused`; a query without words finds nothing and is not embedded."""
        from .scan import Bounds, nearest  # numpy

        if not self.tiers(query):
            return []
        store, layout = _opened(db)
        vector = embed(layout.model, query.text)
        if len(vector) != layout.dimensions:
            raise RequestError(
                "query_model_mismatch",
                f"the query's vector has {len(vector)} dimensions, and those of {layout.model!r:.80} "
                f"in the store have {layout.dimensions}",
            )
        budget = store.budget or Budget.lasting(_LONGEST_S)
        found = nearest(db, layout, vector, Bounds(dense_depth(query.limit), budget))
        book, passes = _book(store, layout), path_matcher_of(query.within)
        dense = [text_id(near.id) for near in found]
        allowed = {text_id(near.id) for near in found if passes is None or passes(book.doc_of(near.id))}
        return reciprocal(lexical(self, db, query), dense, allowed, query.limit)

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """See `Reader.hits`; a record that is gone since it was ranked is left out."""
        store, layout = _opened(db)
        by_words = [one for one in ranked if one.tier != "dense"]
        made = _book(store, layout).dense_hits(query, [one for one in ranked if one.tier == "dense"])
        if by_words:
            with index_of(store, layout).lend() as index:
                made += hits_of(index, query, by_words)
        by_id = {hit.id: hit for hit in made}
        return [by_id[one.id] for one in ranked if one.id in by_id]

    def digests(self, db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
        """See `Reader.digests`."""
        return _book(*_opened(db)).digests(ranked)

    def loosened(self, query: Query, ignored: Set[str], least: int) -> Query:
        """See `Reader.loosened`."""
        return loosened_of(query, ignored, least)

    def phrases(self, query: Query) -> tuple[Phrase, ...]:
        """See `Reader.phrases`."""
        return phrases_of(words_of(query.text))

    def names(self, query: Query) -> Phrase:
        """See `Reader.names`; books define nothing."""
        return ()

    def vocabulary(self, db: sqlite3.Connection) -> list[bytes] | None:
        """See `Reader.vocabulary`; None until the store was examined."""
        index = index_of(*_opened(db))
        if not index.is_there:
            return None
        with index.lend() as lent:
            return vocabulary_of(lent)

    def postings(self, db: sqlite3.Connection, terms: Sequence[bytes] | None = None) -> Postings | None:
        """See `Reader.postings`; raises `indexing` until the store was examined."""
        from collated_readers.passes.postings import postings_of  # numpy

        with index_of(*_opened(db)).lend() as index:
            return postings_of(index, terms)

    # ----------------------------------------------------------------------- vectors

    def vectors(self, db: sqlite3.Connection) -> VectorFacts:
        """See `VectorReader.vectors`."""
        layout = _opened(db)[1]
        return VectorFacts(layout.model, layout.dimensions, layout.metric, layout.direction)

    def similar(
        self,
        db: sqlite3.Connection,
        vector: Sequence[float],
        limit: int,
        budget: Budget,
        memory_bytes: int = MEMORY_BYTES,
    ) -> list[Similar]:
        """See `VectorReader.similar`."""
        from .scan import Bounds, evidence_of, nearest  # numpy

        store, layout = _opened(db)
        found = nearest(db, layout, vector, Bounds(limit, budget, memory_bytes))
        rows = evidence_of(db, layout, found, memory_bytes)
        places = [place_of(layout, row, name_of(store.path)) for row in rows]
        return [
            Similar(text_id(near.id), place.doc, place.heading_path, row[1], near.score)
            for near, row, place in zip(found, rows, places, strict=True)
        ]

    # ----------------------------------------------------------------------- texts

    def path_matcher(self, within: Sequence[str]) -> Callable[[str], bool] | None:
        """See `Reader.path_matcher`."""
        return path_matcher_of(within)

    def texts(self, db: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
        """See `Reader.texts`."""
        return _book(*_opened(db)).texts()

    def needles(self, pattern: Pattern) -> tuple[bytes, ...]:
        """See `Reader.needles`."""
        return needles_of(pattern)

    def read(self, db: sqlite3.Connection, record_id: str, context: int) -> Reading:
        """See `Reader.read`."""
        return _book(*_opened(db)).reading(record_id, context)

    def grep(self, db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
        """See `Reader.grep`."""
        return _book(*_opened(db)).matches(pattern, budget)

    def neighbours(self, db: sqlite3.Connection, record_id: str, before: int, after: int) -> Neighbours:
        """See `Reader.neighbours`; no passage continues another's table."""
        return _book(*_opened(db)).neighbours(record_id, before, after)

    def index(self, db: sqlite3.Connection, prefix: str | None) -> str:
        """See `Reader.index`."""
        return contents_of(_book(*_opened(db)).documents(), prefix)


def _store(db: sqlite3.Connection) -> StoreConnection:
    if not isinstance(db, StoreConnection):
        raise TypeError("a book-agent store is opened by open_store, which knows its path")
    return db


def _opened(db: sqlite3.Connection) -> tuple[StoreConnection, Layout]:
    """Return the store and its layout, which is read anew for each question: some 0.1 ms."""
    store = _store(db)
    return store, layout_of(store, tables(store), manifest_beside(store.path))


def _book(store: StoreConnection, layout: Layout) -> Book:
    return Book(store, layout, name_of(store.path))
