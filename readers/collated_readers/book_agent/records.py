"""Passages as records: one by its id, those around it in the order of ids, all that a grep finds."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec.structs import replace

from collated_readers.contract import (
    CONTEXT_LIMITS,
    Budget,
    Hit,
    Match,
    Matches,
    Neighbours,
    Pattern,
    Query,
    Ranked,
    Reading,
    Record,
    RequestError,
    clamped,
)
from collated_readers.matching.lines import line_finder
from collated_readers.matching.literals import fold
from collated_readers.matching.within import path_matcher_of
from collated_readers.shown import beginning_of, digest_of, score_of

from .ids import NativeId, text_id
from .layout import Layout, quoted
from .lexical import KIND, in_id_order
from .passages import Row, checked_text, found_as, names_documents, passages, place_of

__all__ = ["Book"]


class Book:
    """The passages of one store as records; made for one question, and forgotten."""

    def __init__(self, db: sqlite3.Connection, layout: Layout, name: str) -> None:
        """Read from *db*; passages that do not name their document are of the one called *name*."""
        self._db = db
        self._layout = layout
        self._columns = layout.columns
        self._id = quoted(layout.columns.id)
        self._name = name

    def reading(self, record_id: str, context: int) -> Reading:
        """Return a passage and *context* passages (clamped) on each side.

        Raises:
            RequestError: `unknown_id`.
        """
        row = self._row(record_id)
        count = clamped(context, CONTEXT_LIMITS)
        around = [*self._before(row, count), *self._after(row, count)]
        return Reading(self._record(row), tuple(self._record(each) for each in around))

    def neighbours(self, record_id: str, before: int, after: int) -> Neighbours:
        """Return a passage among those before and after it (clamped).

        Raises:
            RequestError: `unknown_id`.
        """
        row = self._row(record_id)
        above = self._before(row, clamped(before, CONTEXT_LIMITS))
        below = self._after(row, clamped(after, CONTEXT_LIMITS))
        return Neighbours(tuple(self._record(each) for each in (*above, row, *below)))

    def matches(self, pattern: Pattern, budget: Budget) -> Matches:
        """Return the first matching line of each passage that has one, in id order, up to the limit.

        Raises:
            RequestError: `pattern_rejected`, `invalid_params` (path filter).
            StoreError: `deadline_exceeded`, or what is wrong with a text.
        """
        find_line = line_finder(pattern, budget)
        passes = path_matcher_of(pattern.within)
        found: list[Match] = []
        for record_id, row in self._candidates(pattern):
            budget.check()
            place = place_of(self._layout, row, self._name)
            if passes is not None and not passes(place.doc):
                continue
            line = find_line(checked_text(row[1], row[0]))
            if line is None:
                continue
            if len(found) == pattern.limit:
                return Matches(tuple(found), is_truncated=True)
            found.append(Match(record_id, place.doc, place.heading_path, line.strip()))
        return Matches(tuple(found))

    def _candidates(self, pattern: Pattern) -> Iterator[tuple[str, Row]]:
        if pattern.among is not None:
            for record_id in sorted(set(pattern.among)):
                row = found_as(self._db, self._columns, record_id)
                if row is not None:
                    yield record_id, row
        elif pattern.is_regex:
            yield from in_id_order(self._db, self._layout)
        else:
            body = quoted(self._columns.text)
            holds = f"typeof({body}) <> 'text' OR instr(lower({body}), lower(?)) > 0"
            yield from in_id_order(self._db, self._layout, holds, pattern.text)

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield each passage's id and folded text, in id order.

        Raises:
            StoreError: what is wrong with a text.
        """
        for record_id, row in in_id_order(self._db, self._layout):
            yield record_id, fold(checked_text(row[1], row[0]))

    def digests(self, ranked: Sequence[Ranked]) -> list[bytes]:
        """Return 16 bytes for each of *ranked*, the same for the same text; none for one that is gone."""
        rows = (found_as(self._db, self._columns, one.id) for one in ranked)
        return [digest_of(checked_text(row[1], row[0])) if row else b"" for row in rows]

    def documents(self) -> Counter[str]:
        """Return how many passages each document has."""
        if not names_documents(self._columns):
            row = next(passages(self._db, self._columns, "1 LIMIT 1"))
            total = f"SELECT count(*) FROM {quoted(self._columns.table)}"  # noqa: S608 - quoted
            count: int = self._db.execute(total).fetchone()[0]
            return Counter({place_of(self._layout, row, self._name).doc: count})
        bare = replace(self._columns, text=self._columns.id)  # texts would be read for nothing
        rows = passages(self._db, bare)
        return Counter(place_of(self._layout, row, self._name).doc for row in rows)

    def doc_of(self, record_id: NativeId) -> str:
        """Return a passage's document; that of the store if the passage is gone."""
        row = found_as(self._db, self._columns, text_id(record_id))
        return self._name if row is None else place_of(self._layout, row, self._name).doc

    def dense_hits(self, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """Return those of *ranked* that are there, which only the vectors found, as hits."""
        hits: list[Hit] = []
        for one in ranked:
            row = found_as(self._db, self._columns, one.id)
            if row is None:
                continue
            record = self._record(row)
            hits.append(
                Hit(
                    id=one.id,
                    doc=record.doc,
                    heading_path=record.heading_path,
                    snippet=beginning_of(record.text),
                    score=score_of(one.rank, query),
                    kind=KIND,
                    tier="dense",
                )
            )
        return hits

    def _row(self, record_id: str) -> Row:
        row = found_as(self._db, self._columns, record_id)
        if row is None:
            raise RequestError("unknown_id", f"no passage '{record_id}'", "search for it first")
        return row

    def _before(self, row: Row, count: int) -> list[Row]:
        return self._around(row, f"{self._id} < ? ORDER BY {self._id} DESC LIMIT {count}")[::-1]

    def _after(self, row: Row, count: int) -> list[Row]:
        return self._around(row, f"{self._id} > ? ORDER BY {self._id} LIMIT {count}")

    def _around(self, row: Row, condition: str) -> list[Row]:
        """Return the rows next to *row*, as far as they are of the same document."""
        doc = place_of(self._layout, row, self._name).doc
        rows = passages(self._db, self._columns, condition, row[0])
        return list(takewhile(lambda each: place_of(self._layout, each, self._name).doc == doc, rows))

    def _record(self, row: Row) -> Record:
        place = place_of(self._layout, row, self._name)
        before, after = self._before(row, 1), self._after(row, 1)
        return Record(
            id=text_id(row[0]),
            doc=place.doc,
            heading_path=place.heading_path,
            kind=KIND,
            text=checked_text(row[1], row[0]),
            prev_id=text_id(before[0][0]) if before else None,
            next_id=text_id(after[0][0]) if after else None,
        )
