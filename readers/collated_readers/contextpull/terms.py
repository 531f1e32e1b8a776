"""The words of a query as the index has them (formats/contextpull.md §3.4).

What FTS5's tokenizer makes of a letter is in SQLite's own tables, so it is asked: a word goes through
a private index in memory.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from functools import lru_cache

from collated_readers.contract import Phrase, StoreError

__all__ = ["TOKENIZER", "phrases_of"]

TOKENIZER = "unicode61 remove_diacritics 2 tokenchars '-_.'"
"""The tokenizer of every ContextPull index, as `tokenize` names it."""

_LONGEST_TERM_BYTES = 32_768  # FTS5_MAX_TOKEN_SIZE: the rest of a token is left out
_LONGEST_KEPT = 64  # characters of a word that is remembered

_CREATE = (
    f'CREATE VIRTUAL TABLE words USING fts5(text, tokenize = "{TOKENIZER}")',
    "CREATE VIRTUAL TABLE instances USING fts5vocab(words, instance)",
)
_TERMS = "SELECT CAST(term AS BLOB) FROM instances ORDER BY offset"


def phrases_of(words: Sequence[str]) -> tuple[Phrase, ...]:
    """Return the terms of each of *words*, which are those of a query and so of lower case.

    Raises:
        StoreError: `fts5_missing`; never for ASCII.
    """
    return tuple(_phrase(word) for word in words)


def _phrase(word: str) -> Phrase:
    if word.isascii():  # letters, digits and `-_.` alone: one token, which is the word itself
        return (word.encode()[:_LONGEST_TERM_BYTES],)
    return _kept(word) if len(word) <= _LONGEST_KEPT else _TOKENIZER.terms(word)


class _Tokenizer:
    """FTS5's tokenizer, reached through a database in memory that is made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def terms(self, word: str) -> Phrase:
        """Return the terms of *word*, in order."""
        with self._lock:
            try:
                self._db = self._db or _database()
                return _terms(self._db, word)
            except sqlite3.OperationalError as error:
                raise StoreError(
                    "fts5_missing", f"the sqlite3 of this Python cannot index words: {error}"
                ) from error


def _database() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for statement in _CREATE:
        db.execute(statement)
    return db


def _terms(db: sqlite3.Connection, word: str) -> Phrase:
    db.execute("BEGIN")
    try:
        db.execute("INSERT INTO words VALUES (?)", (word,))
        return tuple(row[0] for row in db.execute(_TERMS))
    finally:
        db.execute("ROLLBACK")


_TOKENIZER = _Tokenizer()


@lru_cache(maxsize=4096)
def _kept(word: str) -> Phrase:
    return _TOKENIZER.terms(word)
