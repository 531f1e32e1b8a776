"""The table of contents: one line for each file, with its outermost symbols."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

from collated_readers.values import integer, text

__all__ = ["contents_of"]

_LABEL_CHARACTERS = 60
_PATH_CHARACTERS = 30
_FILES = """
SELECT f.id, f.path, (SELECT count(*) FROM symbols AS s WHERE s.file_id = f.id)
FROM files AS f ORDER BY f.path"""
_OUTERMOST = """
SELECT file_id, name FROM symbols WHERE qualified IS NULL OR qualified = name ORDER BY line_start, id"""


def contents_of(db: sqlite3.Connection, prefix: str | None) -> str:
    """Return the files whose path starts with *prefix*, by path, with symbols and their number."""
    names: dict[int, list[str]] = defaultdict(list)
    for file, name in db.execute(_OUTERMOST):
        names[integer(file)].append(text(name))
    lines: list[str] = []
    symbols = 0
    for file, path, count in db.execute(_FILES):
        if text(path).startswith(prefix or ""):
            lines.append(_line(path, ", ".join(dict.fromkeys(names[integer(file)])), integer(count)))
            symbols += count
    of = f" · {prefix}" if prefix else ""
    return "\n".join([f"codebase-index{of} · {len(lines)} files · {symbols} symbols", *lines])


def _line(path: str, label: str, count: int) -> str:
    if len(label) > _LABEL_CHARACTERS:
        label = label[: _LABEL_CHARACTERS - 1].rstrip() + "…"
    return f"{path:<{_PATH_CHARACTERS}}  {label}  ({count})"
