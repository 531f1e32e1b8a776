"""The reader of ContextPull stores; each operation has its own module."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from collated_readers.contract import (
    Budget,
    Embed,
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
from collated_readers.passes.search import hits_of, ranked_of
from collated_readers.passes.terms import phrases_of
from collated_readers.passes.vocabulary import vocabulary_of
from collated_readers.passes.words import loosened_of, tiers_of, words_of
from collated_readers.single import lexical

from .contents import contents_of
from .grep import matches_of, texts_of
from .hybrid import dense_hits_of, fused_of
from .schema import VERSIONS, facts_of, is_contextpull
from .sections import digests_of, neighbours_of, reading_of

if TYPE_CHECKING:
    from collated_readers.postings import Postings

__all__ = ["ContextPull"]


class ContextPull:
    """Reads schema 1.x of the ContextPull store format."""

    format = "contextpull"
    versions = VERSIONS
    capabilities = frozenset({"search", "read", "grep", "neighbours", "index"})

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """See `Reader.recognises`."""
        return is_contextpull(db, tables)

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """See `Reader.open`."""
        return facts_of(db, tables)

    def tiers(self, query: Query) -> tuple[Tier, ...]:
        """See `Reader.tiers`."""
        return tiers_of(words_of(query.text))

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """See `Reader.ranked`; empty for a tier that `tiers` does not name."""
        return ranked_of(db, query, tier)

    def fused(self, db: sqlite3.Connection, query: Query, embed: Embed) -> list[Ranked] | None:
        """See `Reader.fused`; a query without words finds nothing and is not embedded."""
        return fused_of(db, query, lexical(self, db, query), embed) if self.tiers(query) else []

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """See `Reader.hits`; a record that is gone since it was ranked is left out."""
        by_words = [one for one in ranked if one.tier != "dense"]
        by_vector = [one for one in ranked if one.tier == "dense"]
        made = {hit.id: hit for hit in hits_of(db, query, by_words) + dense_hits_of(db, query, by_vector)}
        return [made[one.id] for one in ranked if one.id in made]

    def digests(self, db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
        """See `Reader.digests`."""
        return digests_of(db, ranked)

    def loosened(self, query: Query, ignored: Set[str], least: int) -> Query:
        """See `Reader.loosened`."""
        return loosened_of(query, ignored, least)

    def phrases(self, query: Query) -> tuple[Phrase, ...]:
        """See `Reader.phrases`."""
        return phrases_of(words_of(query.text))

    def names(self, query: Query) -> Phrase:
        """See `Reader.names`; documents define nothing."""
        return ()

    def vocabulary(self, db: sqlite3.Connection) -> list[bytes] | None:
        """See `Reader.vocabulary`."""
        return vocabulary_of(db)

    def postings(self, db: sqlite3.Connection, terms: Sequence[bytes] | None = None) -> Postings | None:
        """See `Reader.postings`."""
        from collated_readers.passes.postings import postings_of  # numpy, which only who indexes needs

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
