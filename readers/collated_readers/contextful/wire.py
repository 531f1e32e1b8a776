"""What the reader and its worker process tell each other of the federation's own questions."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from collated_readers.contract import Tier

__all__ = [
    "BACKENDS",
    "TOOLS",
    "Counted",
    "Found",
    "GrepParams",
    "Line",
    "MatchesParams",
    "Row",
    "RowParams",
    "TextsParams",
]

BACKENDS = ("duckdb", "fts", "hnsw")
"""The seed's names of the engine, and of the sidecars that are read where there is one (build-identity)."""

TOOLS = (
    "context.describe",
    "context.query",
    "context.reference",
    "context.execute_query",
    "context.files",
    "context.file",
    "context.lineage",
    "context.subscribe",
    "corpus.retrieve",
    "memory.recall",
)
"""The tools of the read face, in the seed's order (tool-set)."""


class Counted(Struct, frozen=True):
    """`store.counts`: the state's digest, how many tables are served, and rows in their files."""

    digest: str
    tables: int
    rows: int
    details: dict[str, Any] = {}


class MatchesParams(Struct, frozen=True):
    """`store.matches`: the best rows of all tables; *within* filters by table as paths are filtered."""

    query: str
    limit: int
    within: list[str] = []


class Found(Struct, frozen=True):
    """A row that matched; its id is `TABLE/RUN/ROW`, its document the table."""

    id: str
    tier: Tier
    rank: float
    doc: str
    heading_path: str
    snippet: str


class RowParams(Struct, frozen=True):
    """`store.row`: one row, by `TABLE/RUN/ROW`."""

    id: str


class Row(Struct, frozen=True):
    """A row as a record: its cells as text, one a line."""

    id: str
    doc: str
    heading_path: str
    text: str


class GrepParams(Struct, frozen=True):
    """`store.grep`: the first matching line of each row, by id."""

    pattern: str
    is_regex: bool
    within: list[str]
    limit: int
    among: list[str] | None = None


class Line(Struct, frozen=True):
    """A matching line."""

    id: str
    doc: str
    heading_path: str
    line: str


class TextsParams(Struct, frozen=True):
    """`store.texts`: the next rows' texts, in the order of ids, after the id *after*."""

    after: str | None = None
