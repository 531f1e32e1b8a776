"""The terms that an FTS5 tokenizer makes of a word.

What it makes of a letter is in SQLite's own tables, so it is asked: a word goes through a private index
in memory.
"""

from __future__ import annotations

import sqlite3
import threading

from collated_readers.contract import Phrase, StoreError

__all__ = ["LONGEST_TERM_BYTES", "Tokenizer"]

LONGEST_TERM_BYTES = 32_768
"""FTS5_MAX_TOKEN_SIZE: the rest of a token is left out."""

_TERMS = "SELECT CAST(term AS BLOB) FROM instances ORDER BY offset"
_LONGEST_KEPT = 64  # characters of a word that is remembered
_MOST_KEPT = 4_096


class Tokenizer:
    """An FTS5 tokenizer, reached through a database in memory that is made when it is first needed."""

    def __init__(self, options: str) -> None:
        """Take the *options* as `tokenize` names them in a table's declaration."""
        self._options = options
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._kept: dict[str, Phrase] = {}

    def terms(self, word: str) -> Phrase:
        """Return the terms of *word*, in order.

        Raises:
            StoreError: `fts5_missing`.
        """
        with self._lock:
            found = self._kept.get(word)
            if found is None:
                found = self._asked(word)
                if len(word) <= _LONGEST_KEPT:
                    if len(self._kept) >= _MOST_KEPT:
                        self._kept.clear()
                    self._kept[word] = found
            return found

    def _asked(self, word: str) -> Phrase:
        try:
            self._db = self._db or self._database()
            return _terms(self._db, word)
        except sqlite3.OperationalError as error:
            raise StoreError(
                "fts5_missing", f"the sqlite3 of this Python cannot index words: {error}"
            ) from error

    def _database(self) -> sqlite3.Connection:
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        db.execute(f'CREATE VIRTUAL TABLE words USING fts5(text, tokenize = "{self._options}")')
        db.execute("CREATE VIRTUAL TABLE instances USING fts5vocab(words, instance)")
        return db


def _terms(db: sqlite3.Connection, word: str) -> Phrase:
    db.execute("BEGIN")
    try:
        db.execute("INSERT INTO words VALUES (?)", (word,))
        return tuple(row[0] for row in db.execute(_TERMS))
    finally:
        db.execute("ROLLBACK")
