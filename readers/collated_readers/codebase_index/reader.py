"""The reader of codebase-index stores; each operation has its own module."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from collated_readers.code import Chunk, Direction, Impact, ReferenceKind, References, Symbols
from collated_readers.contract import Budget, StoreFacts

from .schema import VERSIONS, facts_of, is_codebase_index

__all__ = ["CodebaseIndex"]


def _late(name: str) -> Any:  # until the modules are there
    return import_module(f".{name}", __package__)


class CodebaseIndex:
    """Reads schema 1 to 4 of the codebase-index store format."""

    format = "codebase-index"
    versions = VERSIONS
    capabilities = frozenset(
        {
            *("search", "read", "grep", "neighbours", "index"),
            *("symbols", "references", "impact", "chunk", "architecture"),
        }
    )

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """See `Reader.recognises`."""
        return is_codebase_index(tables)

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """See `Reader.open`."""
        return facts_of(db, tables)

    # ----------------------------------------------------------------- the program's structure

    def symbols(self, db: sqlite3.Connection, name: str, limit: int, *, exact: bool) -> Symbols:
        """See `CodeReader.symbols`."""
        found: Symbols = _late("symbols").symbols_of(db, name, limit, exact=exact)
        return found

    def references(
        self, db: sqlite3.Connection, name: str, kind: ReferenceKind, path: str | None, limit: int
    ) -> References:
        """See `CodeReader.references`."""
        found: References = _late("references").references_of(db, name, kind, path, limit)
        return found

    def impact(
        self, db: sqlite3.Connection, target: str, direction: Direction, depth: int, budget: Budget
    ) -> Impact:
        """See `CodeReader.impact`."""
        found: Impact = _late("impact").impact_of(db, target, direction, depth, budget)
        return found

    def chunk(self, db: sqlite3.Connection, path: str, line: int) -> Chunk:
        """See `CodeReader.chunk`."""
        found: Chunk = _late("chunk").chunk_of(db, path, line)
        return found

    def architecture(self, db: sqlite3.Connection) -> Mapping[str, Any] | None:
        """See `CodeReader.architecture`."""
        found: Mapping[str, Any] | None = _late("graph").architecture_of(db)
        return found
