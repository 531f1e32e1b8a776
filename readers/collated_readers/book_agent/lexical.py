"""The full-text index of a store's texts, which the format does not have: made once, in the cache directory.

Its tables are those that `passes` searches, without the texts, so search, snippets and postings are the
contract's, to the last bit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from collated_readers.contract import Budget, StoreError
from collated_readers.opening import StoreConnection
from collated_readers.passes.terms import TOKENIZER
from collated_readers.passes.words import normalised

from . import cached
from .ids import NativeId, is_id, text_id
from .layout import Layout, quoted
from .passages import Row, bounded_id, find, name_of, place_of

__all__ = ["KIND", "build", "has_index", "in_id_order", "index_of", "outcome_of"]

KIND = "passage"
_FORMAT = "1"  # of the file; another one is made anew
_CHECK_OPCODES = 4_000

_CREATE = (
    "CREATE TABLE outcome (value TEXT NOT NULL)",
    "CREATE TABLE documents (doc_id INTEGER PRIMARY KEY, path TEXT NOT NULL)",
    """CREATE TABLE sections (id TEXT PRIMARY KEY, doc_id INTEGER NOT NULL, heading_path TEXT NOT NULL,
    kind TEXT NOT NULL) WITHOUT ROWID""",
    # The declaration that `passes` knows.
    "CREATE VIRTUAL TABLE sections_fts USING fts5"
    f'(id UNINDEXED, heading_path, text, tokenize = "{TOKENIZER}")',
)


def has_index(db: StoreConnection, layout: Layout) -> bool:
    """Tell whether the store's index is there, and sound."""
    return cached.is_sound(_path(db, layout))


@contextmanager
def index_of(db: StoreConnection, layout: Layout) -> Generator[sqlite3.Connection, None, None]:
    """Lend the store's index, which is asked under the budget that the store is asked under.

    Raises:
        StoreError: `indexing`: it is not there yet, or is damaged and about to be made again.
    """
    path = _path(db, layout)
    if not cached.is_sound(path):  # it is not thrown away here: a sound one may be put there at this moment
        raise _absent()
    try:
        with closing(cached.connect(path)) as index:
            if db.budget is not None:
                index.set_progress_handler(db.budget.is_spent, _CHECK_OPCODES)
            yield index
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # time is up, or no descriptors are left
            raise
        cached.discard(path)
        raise _absent() from error


def outcome_of(db: StoreConnection, layout: Layout) -> dict[str, Any] | None:
    """Return what was found when the index was made, None without a sound one."""
    if not has_index(db, layout):
        return None
    with index_of(db, layout) as index:
        row = index.execute("SELECT value FROM outcome").fetchone()
    return msgspec.json.decode(row[0], type=dict[str, Any])


def build(db: StoreConnection, layout: Layout, outcome: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """Make the store's index, and return *outcome* with what was left out of it; that is kept with it.

    Raises:
        StoreError: `deadline_exceeded`.
        OSError: there is no room, or the directory is not ours.
    """
    found = dict(outcome)

    def fill(index: sqlite3.Connection) -> None:
        index.set_progress_handler(budget.is_spent, _CHECK_OPCODES)
        for statement in _CREATE:
            index.execute(statement)
        left_out = _fill(index, db, layout, budget)
        if left_out:
            found["unindexed"] = left_out
        index.execute("INSERT INTO outcome VALUES (?)", (msgspec.json.encode(found).decode(),))

    cached.keep(_path(db, layout), db.path, fill)
    return found


def _fill(index: sqlite3.Connection, db: StoreConnection, layout: Layout, budget: Budget) -> int:
    """Index every passage whose id and text are sound, and return how many are not."""
    docs: dict[str, int] = {}
    count = 0
    for record_id, row in in_id_order(db, layout):
        budget.check()
        if not isinstance(row[1], str):
            continue
        place = place_of(layout, row, name_of(db.path))
        doc = docs.setdefault(place.doc, len(docs))
        index.execute("INSERT INTO sections VALUES (?, ?, ?, ?)", (record_id, doc, place.heading_path, KIND))
        words = (record_id, normalised(place.heading_path), normalised(row[1]))
        index.execute("INSERT INTO sections_fts VALUES (?, ?, ?)", words)
        count += 1
    index.executemany("INSERT INTO documents VALUES (?, ?)", ((doc, path) for path, doc in docs.items()))
    index.execute("INSERT INTO sections_fts(sections_fts) VALUES ('optimize')")
    total: int = db.execute(f"SELECT count(*) FROM {quoted(layout.columns.table)}").fetchone()[0]  # noqa: S608 - quoted
    return total - count


def in_id_order(
    db: sqlite3.Connection, layout: Layout, condition: str = "1", *arguments: Any
) -> Iterator[tuple[str, Row]]:
    """Yield (id as text, row) of the records for which *condition* holds, by that id.

    Without those that have no id, or one that is another's as text; `Examiner.examine` tells of them.
    """
    columns = layout.columns
    sql = f"SELECT {bounded_id(columns)} FROM {quoted(columns.table)} WHERE {condition}"  # noqa: S608 - quoted
    with closing(db.execute(sql, arguments)) as rows:
        ids: dict[str, NativeId] = {}
        for (value,) in rows:
            if is_id(value) and (isinstance(value, str) or text_id(value) not in ids):
                ids[text_id(value)] = value  # as `found_as` finds it
    for record_id in sorted(ids):
        row = find(db, columns, ids[record_id])
        if row is not None:
            yield record_id, row


def _path(db: StoreConnection, layout: Layout) -> Path:
    made_of = f"{_FORMAT} {TOKENIZER} {db.signature} {layout.digest}"
    return cached.path_in(db.cache / "book-agent", db.path, made_of)


def _absent() -> StoreError:
    return StoreError("indexing", "the store's texts are being indexed for the first time; ask again")
