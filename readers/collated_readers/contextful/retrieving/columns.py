"""Which columns of a table are searched, shown and dated (retrieve.md §4, §10). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from collated_readers.contextful.model import Column, Declared

__all__ = [
    "LABELS",
    "SEPARATOR",
    "heading_column",
    "is_identifier",
    "joined",
    "publication_column",
    "scored_columns",
    "snippet_columns",
    "text_of",
]

LABELS = ("title", "headline", "name", "subject", "summary", "abstract", "description", "thesis")
SEPARATOR = " — "
_MOST_IN_SNIPPET = 3
_PUBLICATION = ("published_at", "publication_date", "published", "pub_date", "date", "created_at")
_IDENTIFIERS = ("id", "date", "time")
_IDENTIFIER_ENDS = ("_id", "_key", "hash", "url", "uri", "link", "_at", "_date", "_time", "email")


def is_identifier(name: str) -> bool:
    """Tell whether a column of this name holds no prose: an id, an address, an instant, a digest."""
    lower = name.lower()
    return lower.startswith("_") or lower in _IDENTIFIERS or lower.endswith(_IDENTIFIER_ENDS)


def snippet_columns(columns: Sequence[Column], declared: Declared) -> tuple[str, ...]:
    """Return the columns that a row is shown by: three at most, labels first.

    They are taken from `retrieve.text` where it is declared, else from all text columns.
    """
    chosen = declared.retrieve_text
    return _labels_first(
        column.name
        for column in columns
        if column.is_text
        and not is_identifier(column.name)
        and column.name not in declared.partition_by
        and (chosen is None or column.name in chosen)
    )[:_MOST_IN_SNIPPET]


def scored_columns(columns: Sequence[Column], declared: Declared) -> tuple[str, ...]:
    """Return the columns that tokens are matched against: `retrieve.text`, else those of the snippet."""
    if declared.retrieve_text is None:
        return snippet_columns(columns, declared)
    there = {column.name for column in columns}
    return _labels_first(name for name in dict.fromkeys(declared.retrieve_text) if name in there)


def publication_column(columns: Sequence[Column]) -> str:
    """Return the column that says when a row was published; `_ingested_at` where none does."""
    types = {column.name: column for column in columns}
    for name in _PUBLICATION:
        column = types.get(name)
        if column is not None and (column.is_text or column.type.upper().startswith("TIMESTAMP")):
            return name
    return "_ingested_at"


def heading_column(shown: Sequence[str]) -> str | None:
    """Return the label among the columns *shown* of a table, if one is."""
    return next((name for name in shown if name in LABELS), None)


def text_of(cell: Any) -> str:
    """Return a cell, which is not null, as text: strings as they are, everything else as JSON."""
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, separators=(",", ":"))


def joined(cells: Iterable[Any]) -> str:
    """Return the text of *cells* that are not null, one after another."""
    return SEPARATOR.join(text_of(cell) for cell in cells if cell is not None)


def _labels_first(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=_place))


def _place(name: str) -> int:
    return LABELS.index(name) if name in LABELS else len(LABELS)
