"""The reader of codebase-index stores; each operation has its own module."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from collated_readers.code import (
    Chunk,
    Direction,
    Impact,
    ReferenceKind,
    References,
    Symbols,
    SymbolTable,
)
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
    StoreFacts,
    Tier,
)
from collated_readers.matching.lines import needles_of
from collated_readers.matching.within import path_matcher_of
from collated_readers.single import lexical

from .architecture import architecture_of
from .chunk import chunk_of
from .contents import contents_of
from .freshness import freshness_of
from .grep import matches_of, texts_of
from .impact import impact_of
from .names import name_term
from .ranking import own_of
from .records import neighbours_of, reading_of
from .references import references_of
from .schema import VERSIONS, facts_of, is_codebase_index
from .search import digests_of, hits_of, ranked_of
from .symbol_table import symbol_table_of
from .symbols import symbols_of
from .vectors import fused_of
from .vocabulary import vocabulary_of
from .words import key_of, phrases_of, tiers_of, words_of

if TYPE_CHECKING:
    from collated_readers.postings import Postings

__all__ = ["CodebaseIndex"]


class CodebaseIndex:
    """Reads schema 1 to 4 of the codebase-index store format."""

    format = "codebase-index"
    versions = VERSIONS
    capabilities = frozenset(
        {
            *("search", "read", "grep", "neighbours", "index"),
            *("symbols", "references", "impact", "chunk", "architecture"),
        }
    )

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """See `Reader.recognises`."""
        return is_codebase_index(tables)

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """See `Reader.open`."""
        return facts_of(db, tables)

    def examine(self, db: sqlite3.Connection, root: str | None, budget: Budget) -> Examined:
        """See `Examiner.examine`: how many files of the checkout have changed since."""
        return freshness_of(db, root, budget)

    # ----------------------------------------------------------------- search

    def tiers(self, query: Query) -> tuple[Tier, ...]:
        """See `Reader.tiers`."""
        return tiers_of(words_of(query.text))

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """See `Reader.ranked`; empty for a tier that `tiers` does not name."""
        return ranked_of(db, query, tier)

    def own(self, db: sqlite3.Connection, query: Query) -> list[Ranked]:
        """See `OwnRanking.own`."""
        return own_of(db, query)

    def fused(self, db: sqlite3.Connection, query: Query, embed: Embed) -> list[Ranked] | None:
        """See `Reader.fused`; a query without words finds nothing and is not embedded."""
        return fused_of(db, query, lexical(self, db, query), embed) if self.tiers(query) else []

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """See `Reader.hits`; a record that is gone since it was ranked is left out."""
        return hits_of(db, query, ranked)

    def digests(self, db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
        """See `Reader.digests`."""
        return digests_of(db, ranked)

    def loosened(self, query: Query, ignored: Set[str], least: int) -> Query:
        """See `Reader.loosened`."""
        words = words_of(query.text)
        kept = [word for word in words if word.lower() not in ignored]
        return query if len(words) < least or not kept else replace(query, text=" ".join(kept))

    # ----------------------------------------------------------------- the index, without the store

    def phrases(self, query: Query) -> tuple[Phrase, ...]:
        """See `Reader.phrases`; an identifier alone is also looked for by its parts."""
        return phrases_of(words_of(query.text))

    def names(self, query: Query) -> Phrase:
        """See `Reader.names`."""
        key = key_of(query.text)
        return (name_term(key),) if key else ()

    def vocabulary(self, db: sqlite3.Connection) -> list[bytes] | None:
        """See `Reader.vocabulary`."""
        return vocabulary_of(db)

    def postings(self, db: sqlite3.Connection, terms: Sequence[bytes] | None = None) -> Postings | None:
        """See `Reader.postings`."""
        from .postings import postings_of  # numpy, which only who indexes needs

        return postings_of(db, terms)

    def path_matcher(self, within: Sequence[str]) -> Callable[[str], bool] | None:
        """See `Reader.path_matcher`."""
        return path_matcher_of(within)

    def texts(self, db: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
        """See `Reader.texts`."""
        return texts_of(db)

    def needles(self, pattern: Pattern) -> tuple[bytes, ...]:
        """See `Reader.needles`."""
        return needles_of(pattern)

    # ----------------------------------------------------------------- reading

    def read(self, db: sqlite3.Connection, record_id: str, context: int) -> Reading:
        """See `Reader.read`."""
        return reading_of(db, record_id, context)

    def grep(self, db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
        """See `Reader.grep`."""
        return matches_of(db, pattern, budget)

    def neighbours(self, db: sqlite3.Connection, record_id: str, before: int, after: int) -> Neighbours:
        """See `Reader.neighbours`."""
        return neighbours_of(db, record_id, before, after)

    def index(self, db: sqlite3.Connection, prefix: str | None) -> str:
        """See `Reader.index`."""
        return contents_of(db, prefix)

    # ----------------------------------------------------------------- the program's structure

    def symbols(self, db: sqlite3.Connection, name: str, limit: int, *, exact: bool) -> Symbols:
        """See `CodeReader.symbols`."""
        return symbols_of(db, name, limit, exact=exact)

    def symbol_table(self, db: sqlite3.Connection) -> SymbolTable:
        """See `TabledReader.symbol_table`."""
        return symbol_table_of(db)

    def references(
        self, db: sqlite3.Connection, name: str, kind: ReferenceKind, path: str | None, limit: int
    ) -> References:
        """See `CodeReader.references`."""
        return references_of(db, name, kind, path, limit)

    def impact(
        self, db: sqlite3.Connection, target: str, direction: Direction, depth: int, budget: Budget
    ) -> Impact:
        """See `CodeReader.impact`."""
        return impact_of(db, target, direction, depth, budget)

    def chunk(self, db: sqlite3.Connection, path: str, line: int) -> Chunk:
        """See `CodeReader.chunk`."""
        return chunk_of(db, path, line)

    def architecture(self, db: sqlite3.Connection) -> Mapping[str, Any] | None:
        """See `CodeReader.architecture`."""
        return architecture_of(db)
