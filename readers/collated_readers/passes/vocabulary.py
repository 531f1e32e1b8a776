"""The store's index: whether it is the format's, and its terms."""

from __future__ import annotations

import re
import sqlite3

from collated_readers.fts.vocabularies import is_declared, terms_in

from .terms import TOKENIZER

__all__ = ["has_known_index", "vocabulary_of"]

# Any other option, or only other spelling, may make an index that says something else.
_DECLARATION = re.compile(
    r"CREATE VIRTUAL TABLE (?:IF NOT EXISTS )?sections_fts USING fts5\s*"
    rf'\(\s*id UNINDEXED\s*,\s*heading_path\s*,\s*text\s*,\s*tokenize\s*=\s*"{re.escape(TOKENIZER)}"\s*\)'
)


def has_known_index(db: sqlite3.Connection) -> bool:
    """Tell whether the index is declared as the format has it, so that its terms are those of `phrases`."""
    return is_declared(db, "sections_fts", _DECLARATION, ("content", "data", "docsize"))


def vocabulary_of(db: sqlite3.Connection) -> list[bytes] | None:
    """Return every term, ascending; None for an index that is not the format's."""
    return terms_in(db, "sections_fts") if has_known_index(db) else None
