"""The store's index: whether it is the format's, and its terms; names are terms of their own."""

from __future__ import annotations

import re
import sqlite3

from collated_readers.fts.vocabularies import is_declared, terms_in

from .names import names_terms
from .words import TOKENIZER

__all__ = ["has_known_index", "vocabulary_of"]

# Any other option may make an index that says something else.
_DECLARATION = re.compile(
    r"CREATE VIRTUAL TABLE (?:IF NOT EXISTS )?fts_chunks USING fts5\s*"
    r"\(\s*content\s*,\s*symbol_names\s*,\s*path UNINDEXED\s*,"
    r"\s*content='chunks'\s*,\s*content_rowid='id'\s*,"
    rf'\s*tokenize\s*=\s*"{re.escape(TOKENIZER)}"\s*\)'
)


def has_known_index(db: sqlite3.Connection) -> bool:
    """Tell whether the index is declared as the format has it, so that its terms are those of `phrases`."""
    return is_declared(db, "fts_chunks", _DECLARATION, ("data", "docsize"))


def vocabulary_of(db: sqlite3.Connection) -> list[bytes] | None:
    """Return every term, ascending, those of names first; None for an index that is not the format's."""
    return names_terms(db) + terms_in(db, "fts_chunks") if has_known_index(db) else None
