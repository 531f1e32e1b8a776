"""Grep: the first matching line of each section, in id order (store-format: Grep)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing

from collated_readers.contract import Budget, Match, Matches, Pattern, StoreError
from collated_readers.matching.lines import line_finder
from collated_readers.matching.literals import fold
from collated_readers.matching.within import filter_argument
from collated_readers.passes.filters import IN_FILTER
from collated_readers.values import Row, text

__all__ = ["matches_of", "texts_of"]

_HOLDS = "instr(lower(s.text), lower(?)) > 0"
# CROSS JOIN keeps sections outermost, so that rows come in the order of its primary key, unsorted.
_ALL = """
SELECT s.id, d.path, s.heading_path, s.text
FROM sections AS s CROSS JOIN documents AS d ON d.doc_id = s.doc_id
WHERE {} ORDER BY s.id"""
# Few documents are found by document; then only ids are sorted, not the text of everything.
_IDS = "SELECT s.id FROM sections AS s JOIN documents AS d ON d.doc_id = s.doc_id WHERE {} ORDER BY s.id"
_AMONG = "s.id IN (SELECT value FROM json_each(?))"


def matches_of(db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
    """Return the first matching line of each section that has one, up to the limit.

    Raises:
        RequestError: `pattern_rejected`, `invalid_params` (path filter).
        StoreError: `deadline_exceeded`, `damaged`.
    """
    find_line = line_finder(pattern, budget)
    within = filter_argument(pattern.within)
    found: list[Match] = []
    with closing(_candidates(db, pattern, within)) as rows:
        for record_id, path, heading_path, body in rows:
            budget.check()
            line = find_line(text(body))
            if line is None:
                continue
            if len(found) == pattern.limit:
                return Matches(tuple(found), is_truncated=True)
            found.append(Match(text(record_id), text(path), text(heading_path), line.strip()))
    return Matches(tuple(found))


def _candidates(db: sqlite3.Connection, pattern: Pattern, within: str | None) -> Generator[Row, None, None]:
    holds, wanted = ("1", []) if pattern.is_regex else (_HOLDS, [pattern.text])
    if within is None and pattern.among is None:
        with closing(db.execute(_ALL.format(holds), wanted)) as rows:
            yield from rows
        return
    one = _ALL.format(f"s.id = ? AND {holds}")
    for record_id in _ids(db, pattern, within, holds, wanted):
        yield from db.execute(one, (record_id, *wanted)).fetchall()


def _ids(
    db: sqlite3.Connection, pattern: Pattern, within: str | None, holds: str, wanted: list[str]
) -> list[str]:
    """Return the ids to be looked at one after the other: those given, or those that hold what is wanted."""
    if within is None:
        return sorted(set(pattern.among or ()))
    conditions, arguments = ([holds], list(wanted)) if pattern.among is None else ([_AMONG], [])
    if pattern.among is not None:
        arguments.append(json.dumps(pattern.among))
    rows = db.execute(_IDS.format(" AND ".join((*conditions, IN_FILTER))), (*arguments, within)).fetchall()
    return [record_id for (record_id,) in rows]


def texts_of(db: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    """Yield each section's id and folded text, in id order.

    Raises:
        StoreError: `damaged`.
    """
    before: str | None = None
    with closing(db.execute(_ALL.format("1"))) as rows:
        for record_id, _, _, body in rows:
            if before is not None and text(record_id) <= before:  # its column has an order of its own
                raise StoreError("damaged", "the sections of the store have ids that are not in order")
            before = text(record_id)
            yield before, fold(text(body))
