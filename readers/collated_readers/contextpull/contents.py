"""The table of contents: `index_text`, or one line for each document (store-format: Index)."""

from __future__ import annotations

import sqlite3

from collated_readers.values import integer, optional_text, text

__all__ = ["contents_of", "meta_of"]

_LABEL_CHARACTERS = 60
_PATH_CHARACTERS = 30
_DOCUMENTS = "SELECT path, title, summary, n_sections FROM documents ORDER BY path"


def meta_of(db: sqlite3.Connection, key: str) -> str | None:
    """Return one value of `meta`, None where the key is missing."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else text(row[0])


def contents_of(db: sqlite3.Connection, prefix: str | None) -> str:
    """Return `index_text` verbatim, or the documents whose path starts with *prefix*, by path."""
    if not prefix:
        return meta_of(db, "index_text") or ""
    lines: list[str] = []
    sections = 0
    for path, title, summary, n_sections in db.execute(_DOCUMENTS):
        if text(path).startswith(prefix):
            lines.append(_line(path, optional_text(summary) or text(title), integer(n_sections)))
            sections += n_sections
    head = f"ContextPull index · {prefix} · {len(lines)} documents · {sections} sections"
    return "\n".join([head, *lines])


def _line(path: str, label: str, n_sections: int) -> str:
    label = label.strip()
    if len(label) > _LABEL_CHARACTERS:
        label = label[: _LABEL_CHARACTERS - 1].rstrip() + "…"
    return f"{path:<{_PATH_CHARACTERS}}  {label}  ({n_sections})"
