"""The program's list of files, by the words in their paths."""

from __future__ import annotations

import json
import sqlite3

from collated_readers.values import integer, text

from .found import Found
from .query import Asked
from .scope import Scope, escaped

__all__ = ["paths"]

_PATHS = """
SELECT f.id, f.path, {generated}, count(*) AS hits
FROM json_each(:patterns) AS pattern CROSS JOIN files AS f ON f.path LIKE pattern.value ESCAPE '!'
WHERE {condition} GROUP BY f.id ORDER BY hits DESC, length(f.path), f.path LIMIT :most"""


def paths(db: sqlite3.Connection, asked: Asked, scope: Scope) -> list[Found]:
    """Return the files with most of the words in their paths, the shortest first; each stands for its line 1.

    Raises:
        StoreError: `damaged`.
    """
    words = dict.fromkeys((*(term.text for term in asked.terms), *asked.synonyms))
    if not words:
        return []
    arguments = {
        "patterns": json.dumps([f"%{escaped(word)}%" for word in words]),
        "within": scope.within,
        "most": scope.depth,
    }
    return [
        Found("path", text(path), integer(file), 1, 1, float(hits), bool(generated))
        for file, path, generated, hits in db.execute(scope.filled(_PATHS), arguments)
    ]
