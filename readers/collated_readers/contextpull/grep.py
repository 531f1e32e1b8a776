"""Grep: the first matching line of each section, in id order (store-format: Grep)."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

from collated_readers.contract import (
    LONGEST_PATTERN,
    Budget,
    Match,
    Matches,
    Pattern,
    RequestError,
    StoreError,
)
from collated_readers.literals import fold, required_literals
from collated_readers.values import Row, text

from .filters import IN_FILTER, filter_argument

__all__ = ["matches_of", "needles_of", "texts_of"]

SECTION_SECONDS = 0.25
"""How long a regular expression may look at one section."""

_HOLDS = "instr(lower(s.text), lower(?)) > 0"
# CROSS JOIN keeps sections outermost, so that rows come in the order of its primary key, unsorted.
_ALL = """
SELECT s.id, d.path, s.heading_path, s.text
FROM sections AS s CROSS JOIN documents AS d ON d.doc_id = s.doc_id
WHERE {} ORDER BY s.id"""
# Few documents are found by document; then only ids are sorted, not the text of everything.
_IDS = "SELECT s.id FROM sections AS s JOIN documents AS d ON d.doc_id = s.doc_id WHERE {} ORDER BY s.id"
_AMONG = "s.id IN (SELECT value FROM json_each(?))"

FindLine = Callable[[str], str | None]
"""Gives the first matching line of a section's text."""


def matches_of(db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
    """Return the first matching line of each section that has one, up to the limit.

    Raises:
        RequestError: `pattern_rejected`, `invalid_params` (path filter).
        StoreError: `deadline_exceeded`, `damaged`.
    """
    if not 1 <= len(pattern.text) <= LONGEST_PATTERN:
        raise _rejected(f"pattern must be 1–{LONGEST_PATTERN} characters", "narrow the pattern")
    within = filter_argument(pattern.within)
    find_line = _regex(pattern.text, budget) if pattern.is_regex else _literal(pattern.text)
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
    # Those given are looked at one after the other; where none are, all at once, for their ids alone.
    conditions, arguments = ([holds], list(wanted)) if pattern.among is None else ([_AMONG], [])
    if pattern.among is not None:
        arguments.append(json.dumps(pattern.among))
    if within is not None:
        conditions.append(IN_FILTER)
        arguments.append(within)
    one = _ALL.format(f"s.id = ? AND {holds}")
    for (record_id,) in db.execute(_IDS.format(" AND ".join(conditions)), arguments).fetchall():
        yield from db.execute(one, (record_id, *wanted)).fetchall()


def _literal(pattern: str) -> FindLine:
    # bytes.lower() changes ASCII letters alone, which is just what SQLite's lower() does.
    needle = pattern.encode().lower()

    def find(body: str) -> str | None:
        return next((line for line in body.splitlines() if needle in line.encode().lower()), None)

    return find


def _regex(pattern: str, budget: Budget) -> FindLine:
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except (regex.error, RecursionError) as error:
        raise _rejected(
            f"pattern does not compile: {error}", "set regex=false for a literal match"
        ) from error

    def find(body: str) -> str | None:
        end = time.monotonic() + SECTION_SECONDS
        for line in body.splitlines():
            left = min(end - time.monotonic(), budget.remaining())
            try:
                if compiled.search(line, timeout=max(left, 1e-6)):
                    return line
            except TimeoutError as error:
                budget.check()
                raise _rejected(
                    "pattern too expensive", "narrow with in= or use a literal pattern"
                ) from error
        return None

    return find


def needles_of(pattern: Pattern) -> tuple[bytes, ...]:
    """Return what `texts_of` must hold of every section that `matches_of` finds; empty if nothing is sure."""
    if pattern.is_regex:
        return required_literals(pattern.text)
    try:
        return (fold(pattern.text),)
    except UnicodeEncodeError:  # which is in no text at all
        return ()


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


def _rejected(message: str, suggestion: str) -> RequestError:
    return RequestError("pattern_rejected", message, suggestion)
