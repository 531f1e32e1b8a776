"""The full-text index of a store whose format has none: made once, in the cache directory.

Its tables are those that `passes` searches, so search, snippets and postings are the contract's, to the
last bit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers.contract import Budget, StoreError
from collated_readers.opening import StoreConnection
from collated_readers.passes.terms import TOKENIZER
from collated_readers.passes.words import normalised

from . import cached

__all__ = ["Text", "TextIndex"]

_FORMAT = "2"  # of the file; another one is made anew
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


class Text(Struct, frozen=True, gc=False):
    """A record as it is indexed."""

    id: str
    doc: str
    heading_path: str
    kind: str
    text: str


class TextIndex:
    """The index of one store as it now is; made for one question."""

    def __init__(self, db: StoreConnection, format_name: str, made_of: str) -> None:
        """Keep it for the store *db*; *made_of* is whatever beside the signature the texts depend on."""
        self._db = db
        made_of = f"{_FORMAT} {TOKENIZER} {db.signature} {made_of}"
        self._path: Path = cached.path_in(db.cache / format_name, db.path, made_of)

    @property
    def is_there(self) -> bool:
        """Tell whether the index is there, and sound."""
        return cached.is_sound(self._path)

    @contextmanager
    def lend(self) -> Generator[sqlite3.Connection, None, None]:
        """Lend the index, which is asked under the budget that the store is asked under.

        Raises:
            StoreError: `indexing`: it is not there yet, or is damaged and about to be made again.
        """
        if not self.is_there:  # it is not thrown away here: a sound one may be put there at this moment
            raise _absent()
        try:
            with closing(cached.connect(self._path)) as index:
                if self._db.budget is not None:
                    index.set_progress_handler(self._db.budget.is_spent, _CHECK_OPCODES)
                yield index
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # time is up, or no descriptors are left
                raise
            cached.discard(self._path)
            raise _absent() from error

    def outcome(self) -> dict[str, Any] | None:
        """Return what was kept with the index, None without a sound one."""
        if not self.is_there:
            return None
        with self.lend() as index:
            row = index.execute("SELECT value FROM outcome").fetchone()
        return msgspec.json.decode(row[0], type=dict[str, Any])

    def build(
        self, texts: Iterable[Text], outcome: dict[str, Any], budget: Budget, total: int | None = None
    ) -> dict[str, Any]:
        """Make the index of *texts*, and return *outcome*, with how many of *total* records it lacks.

        Raises:
            StoreError: `deadline_exceeded`.
            OSError: there is no room, or the directory is not ours.
        """
        found = dict(outcome)

        def fill(index: sqlite3.Connection) -> None:
            index.set_progress_handler(budget.is_spent, _CHECK_OPCODES)
            for statement in _CREATE:
                index.execute(statement)
            count = _fill(index, texts, budget)
            if total is not None and total > count:
                found["unindexed"] = total - count
            index.execute("INSERT INTO outcome VALUES (?)", (msgspec.json.encode(found).decode(),))

        cached.keep(self._path, self._db.path, fill)
        return found


def _fill(index: sqlite3.Connection, texts: Iterable[Text], budget: Budget) -> int:
    docs: dict[str, int] = {}
    count = 0
    for each in texts:
        budget.check()
        doc = docs.setdefault(each.doc, len(docs))
        index.execute(
            "INSERT INTO sections VALUES (?, ?, ?, ?)", (each.id, doc, each.heading_path, each.kind)
        )
        words = (each.id, normalised(each.heading_path), normalised(each.text))
        index.execute("INSERT INTO sections_fts VALUES (?, ?, ?)", words)
        count += 1
    index.executemany("INSERT INTO documents VALUES (?, ?)", ((doc, path) for path, doc in docs.items()))
    index.execute("INSERT INTO sections_fts(sections_fts) VALUES ('optimize')")
    return count


def _absent() -> StoreError:
    return StoreError("indexing", "the store's texts are being indexed for the first time; ask again")
