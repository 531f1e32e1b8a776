"""What stands at a line of a file, as it was when the file was indexed, and the symbol around it."""

from __future__ import annotations

import sqlite3

from collated_readers.code import Chunk
from collated_readers.contract import RequestError, clamped
from collated_readers.values import integer, text

from .bodies import whole
from .definitions import COLUMNS, FROM, definition_of, symbol_of
from .places import places_at, row_at

__all__ = ["chunk_of"]

_FILE = "SELECT id, sha256 FROM files WHERE path = ?"
_CONTENT = "SELECT content FROM chunks WHERE id = ?"
# Of two symbols with the same lines the one with the longer qualified name is inside.
_AROUND = f"""
SELECT {COLUMNS} {FROM}
WHERE s.file_id = :file AND s.line_start <= :line AND s.line_end >= :line
ORDER BY s.line_end - s.line_start, length(s.qualified) DESC, s.id LIMIT 1"""
_LINES = (0, 2**31)


def chunk_of(db: sqlite3.Connection, path: str, line: int) -> Chunk:
    """Return the smallest chunk of the text of the file at *path* around *line*, and its innermost symbol.

    Raises:
        RequestError: `unknown_id`: no such file in the store, or no text at the line.
        StoreError: `damaged`.
    """
    file = db.execute(_FILE, (path,)).fetchone()
    if file is None:
        raise RequestError(
            "unknown_id", f"the store has no file '{path}'", "paths are relative to the project"
        )
    number = row_at(db, path, line)
    if number is None:
        raise RequestError(
            "unknown_id",
            f"the store has no text at line {line} of '{path}'",
            "empty lines may be in no chunk",
        )
    chunk = places_at(db, [number])[number]
    (content,) = db.execute(_CONTENT, (number,)).fetchone()
    around = db.execute(_AROUND, {"file": integer(file[0]), "line": clamped(line, _LINES)}).fetchone()
    return Chunk(
        id=chunk.id,
        path=chunk.path,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        kind=chunk.kind,
        text=whole(content),
        sha256=text(file[1]),
        symbol=None if around is None else symbol_of(definition_of(around)),
    )
