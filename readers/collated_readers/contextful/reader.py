"""The reader of context stores: what needs their engine is asked of a worker process, through `Ask`."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from collated_readers.contract import (
    Budget,
    Embed,
    Examined,
    Hit,
    Match,
    Matches,
    Neighbours,
    Pattern,
    Phrase,
    Query,
    Ranked,
    Reading,
    Record,
    RequestError,
    StoreError,
    StoreFacts,
    Tier,
)
from collated_readers.matching.within import path_matcher_of
from collated_readers.opening import StoreConnection
from collated_readers.passes.search import hits_of, ranked_of
from collated_readers.passes.terms import phrases_of
from collated_readers.passes.vocabulary import vocabulary_of
from collated_readers.passes.words import loosened_of, tiers_of, words_of
from collated_readers.shown import score_of
from collated_readers.textindex import Text, TextIndex

from .wire import TOOLS, Counted, Found, GrepParams, Line, MatchesParams, Row, RowParams, TextsParams

if TYPE_CHECKING:
    from collated_readers.postings import Postings

__all__ = ["Ask", "Contextful", "NoEngine"]

_LONGEST_S = 60.0
_LEAST_S = 0.1  # a worker that is killed at a deadline costs the next question its start
_SLASHES = 2  # of `TABLE/RUN/ROW` at least
_BY_ENGINE = -1  # `Ranked.row` of what the store's own ranking found


class Ask(Protocol):
    """Asks a worker process something of the store at *root*."""

    @property
    def is_available(self) -> bool:
        """Tell whether the engine is installed."""
        ...

    def stats(self) -> object:
        """Return how the workers are, for `status`."""
        ...

    def ask(self, tool: str, root: str, params: dict[str, Any], budget: Budget) -> Any:
        """Return the tool's answer, plain values.

        Raises:
            RequestError: what the tool refuses.
            StoreError: `deadline_exceeded`, `engine_crashed`, and what is wrong with the store.
        """
        ...


class NoEngine:
    """Nobody to ask."""

    is_available = False

    def stats(self) -> dict[str, Any]:
        """See `Ask.stats`."""
        return {}

    def ask(self, tool: str, root: str, params: dict[str, Any], budget: Budget) -> Any:
        """See `Ask.ask`; raises `engine_missing`."""
        raise _missing()


class Contextful:
    """Reads the stores that lie in `.contextful/context/<project>`."""

    format = "contextful"
    versions = "1"
    capabilities = frozenset({"search", "read", "grep", "index", *TOOLS})

    def __init__(self, engine: Ask) -> None:
        """Have *engine* answer what takes one."""
        self._engine = engine

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """See `Reader.recognises`: it is the one format whose stores are directories."""
        return isinstance(db, StoreConnection) and db.mode == "directory"

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """See `Reader.open`; raises `engine_missing`, `context_encrypted`, `erasure_frontier` too."""
        if not self._engine.is_available:
            raise _missing()
        counted = self._asked(db, "store.counts", {}, Counted)
        return StoreFacts(
            schema_version=self.versions,
            identity=hashlib.blake2b(counted.digest.encode(), digest_size=16).hexdigest(),
            documents=counted.tables,
            records=counted.rows,
            details=counted.details,
        )

    def examine(self, db: sqlite3.Connection, root: str | None, budget: Budget) -> Examined:
        """See `Examiner.examine`: the texts of all rows are indexed, for the rankings of many stores."""
        index = _index(db)
        if not index.is_there:
            index.build(self._texts(db, budget), {}, budget)
        return Examined({}, None)

    def _texts(self, db: sqlite3.Connection, budget: Budget) -> Iterator[Text]:
        after: str | None = None
        while True:
            page = self._asked(db, "store.texts", msgspec.to_builtins(TextsParams(after)), list[Text], budget)
            yield from page
            if not page:
                return
            after = page[-1].id

    def _asked(
        self,
        db: sqlite3.Connection,
        tool: str,
        params: dict[str, Any],
        kind: Any,
        budget: Budget | None = None,
    ) -> Any:
        store = _store(db)
        budget = budget or store.budget or Budget.lasting(_LONGEST_S)
        if budget.remaining() < _LEAST_S:
            raise StoreError("deadline_exceeded", "there is no time left to ask a worker")
        return msgspec.convert(self._engine.ask(tool, str(store.path), params, budget), kind)

    # ----------------------------------------------------------------------- words

    def own(self, db: sqlite3.Connection, query: Query) -> list[Ranked]:
        """See `OwnRanking.own`: tiers by the content tokens, in each the lexical leg (retrieve.md)."""
        return [Ranked(one.id, one.tier, one.rank, _BY_ENGINE) for one in self._found(db, query)]

    def _found(self, db: sqlite3.Connection, query: Query) -> list[Found]:
        params = MatchesParams(query.text, query.limit, list(query.within))
        found: list[Found] = self._asked(db, "store.matches", msgspec.to_builtins(params), list[Found])
        return found

    def tiers(self, query: Query) -> tuple[Tier, ...]:
        """See `Reader.tiers`."""
        return tiers_of(words_of(query.text))

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """See `Reader.ranked`; raises `indexing` until the store was examined."""
        with _index(db).lend() as index:
            return ranked_of(index, query, tier)

    def fused(self, db: sqlite3.Connection, query: Query, embed: Embed) -> list[Ranked] | None:
        """See `Reader.fused`: vectors of these stores are asked by `corpus.retrieve`, with one's own."""
        return None

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """See `Reader.hits`; a record that is gone since it was ranked is left out."""
        by_words = [one for one in ranked if one.row != _BY_ENGINE]
        made: dict[str, Hit] = {}
        if by_words:
            with _index(db).lend() as index:
                made |= {hit.id: hit for hit in hits_of(index, query, by_words)}
        if len(by_words) < len(ranked):
            made |= {one.id: _hit(one, query) for one in self._found(db, query)}
        return [made[one.id] for one in ranked if one.id in made]

    def digests(self, db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
        """See `Reader.digests`; rows of equal text stand for different facts."""
        return [b""] * len(ranked)

    def loosened(self, query: Query, ignored: Set[str], least: int) -> Query:
        """See `Reader.loosened`."""
        return loosened_of(query, ignored, least)

    def phrases(self, query: Query) -> tuple[Phrase, ...]:
        """See `Reader.phrases`."""
        return phrases_of(words_of(query.text))

    def names(self, query: Query) -> Phrase:
        """See `Reader.names`; tables define nothing."""
        return ()

    def vocabulary(self, db: sqlite3.Connection) -> list[bytes] | None:
        """See `Reader.vocabulary`; None until the store was examined."""
        index = _index(db)
        if not index.is_there:
            return None
        with index.lend() as lent:
            return vocabulary_of(lent)

    def postings(self, db: sqlite3.Connection, terms: Sequence[bytes] | None = None) -> Postings | None:
        """See `Reader.postings`; raises `indexing` until the store was examined."""
        from collated_readers.passes.postings import postings_of  # numpy

        with _index(db).lend() as index:
            return postings_of(index, terms)

    # ----------------------------------------------------------------------- texts

    def path_matcher(self, within: Sequence[str]) -> Callable[[str], bool] | None:
        """See `Reader.path_matcher`; a row's document is its table."""
        return path_matcher_of(within)

    def texts(self, db: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
        """See `Reader.texts`; no text, since `needles` tells nothing of what is in it."""
        with _index(db).lend() as index:
            for (record_id,) in index.execute("SELECT id FROM sections ORDER BY id"):
                yield record_id, b""

    def needles(self, pattern: Pattern) -> tuple[bytes, ...]:
        """See `Reader.needles`; the texts of rows are more than what is indexed."""
        return ()

    def read(self, db: sqlite3.Connection, record_id: str, context: int) -> Reading:
        """See `Reader.read`; a row has no neighbours. What cannot be a row's name costs no worker."""
        row: Row | None = None
        if record_id.count("/") >= _SLASHES:
            row = self._asked(db, "store.row", msgspec.to_builtins(RowParams(record_id)), Row | None)
        if row is None:
            raise RequestError("unknown_id", f"no row '{record_id}'", "search for it first")
        return Reading(Record(row.id, row.doc, row.heading_path, "row", row.text))

    def grep(self, db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
        """See `Reader.grep`."""
        params = GrepParams(
            pattern.text,
            pattern.is_regex,
            list(pattern.within),
            pattern.limit + 1,
            None if pattern.among is None else list(pattern.among),
        )
        lines: list[Line] = self._asked(db, "store.grep", msgspec.to_builtins(params), list[Line], budget)
        found = tuple(Match(one.id, one.doc, one.heading_path, one.line) for one in lines)
        return Matches(found[: pattern.limit], is_truncated=len(found) > pattern.limit)

    def neighbours(self, db: sqlite3.Connection, record_id: str, before: int, after: int) -> Neighbours:
        """See `Reader.neighbours`; not among the capabilities."""
        raise RequestError("unsupported", "rows of a table have no neighbours")

    def index(self, db: sqlite3.Connection, prefix: str | None) -> str:
        """See `Reader.index`: one line for each table."""
        text: str = self._asked(db, "store.index", {"prefix": prefix}, str)
        return text


def _missing() -> StoreError:
    return StoreError("engine_missing", "such stores need DuckDB, which collated[contextful] brings")


def _hit(one: Found, query: Query) -> Hit:
    return Hit(
        id=one.id,
        doc=one.doc,
        heading_path=one.heading_path,
        snippet=one.snippet,
        score=score_of(one.rank, query),
        kind="row",
        tier=one.tier,
    )


def _store(db: sqlite3.Connection) -> StoreConnection:
    if not isinstance(db, StoreConnection):
        raise TypeError("a context store is opened by open_store, which knows its path")
    return db


def _index(db: sqlite3.Connection) -> TextIndex:
    return TextIndex(_store(db), "contextful", "rows")
