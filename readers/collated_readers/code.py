"""What a reader of code stores offers beside `Reader`: symbols, references, impact, the text at a line.

Results name places (path, lines, the file's hash when it was indexed), never a store's row ids, which
change with every rebuild (formats/codebase-index.md T3). Lines count from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from .contract import Budget

__all__ = [
    "DEPTH_LIMITS",
    "SYMBOL_LIMITS",
    "Chunk",
    "CodeReader",
    "Coverage",
    "Direction",
    "How",
    "Impact",
    "Node",
    "Reference",
    "ReferenceKind",
    "References",
    "Symbol",
    "SymbolTable",
    "Symbols",
    "TabledReader",
]

How = Literal["exact", "prefix", "member", "parts"]
"""How symbols were found, best first: by their name, by its beginning, as `Owner.member`, or by its parts,
spelled with other separators and capitals."""

ReferenceKind = Literal["all", "callers", "definitions"]
Direction = Literal["up", "down", "both"]
"""Up is towards those who depend on the target, down towards what it depends on."""

SYMBOL_LIMITS = (1, 1_000)
DEPTH_LIMITS = (1, 10)
"""Smallest and largest `limit` and `depth`; a number outside is clamped, never refused."""


class Symbol(Struct, frozen=True):
    """A definition; `qualified` names what encloses it in its file, `Class.method`."""

    name: str
    qualified: str | None
    kind: str
    path: str
    line_start: int
    line_end: int
    sha256: str
    signature: str | None = None


class Symbols(Struct, frozen=True):
    """Definitions by (name, path, line), all found in the same way; `more` others begin with an exact name.

    `is_truncated` says that there are more than the limit let through.
    """

    symbols: tuple[Symbol, ...]
    how: How = "exact"
    more: int = 0
    is_truncated: bool = False


class SymbolTable(Struct, frozen=True):
    """All symbols of a store, held so that they are found without it; good as long as its bytes are."""

    @property
    def size(self) -> int:
        """Return how many symbols there are."""
        raise NotImplementedError

    def find(self, name: str, limit: int, *, exact: bool) -> Symbols:
        """Return what `CodeReader.symbols` does; any thread may ask.

        It takes microseconds, and some for each symbol that is shown, or looked at as `Owner.member`.
        """
        raise NotImplementedError


class Reference(Struct, frozen=True):
    """A place where a name is used or defined.

    `kind` is `definition`, `call`, `reference` or `possible_call`; `target` and `caller` are qualified
    names; `receiver` is what the name was called on. None where the store does not say.
    """

    path: str
    line: int
    kind: str
    confidence: str | None
    target: str | None
    receiver: str | None
    caller: str | None
    sha256: str


class Coverage(Struct, frozen=True):
    """Whether the store's graph knows its languages in part only, which, and why."""

    is_partial: bool = False
    languages: tuple[str, ...] = ()
    reason: str | None = None


class References(Struct, frozen=True):
    """References by (path, line, kind) as the program has them."""

    references: tuple[Reference, ...]
    coverage: Coverage = Coverage()
    is_truncated: bool = False


class Node(Struct, frozen=True):
    """What a walk over the graph came to: `kind` is `symbol` or `file`, which has no line.

    `via_edge` and `via_confidence` are those of the edge that led there, `distance` edges from the target.
    """

    kind: str
    path: str
    name: str
    line_start: int | None
    distance: int
    via_edge: str
    via_confidence: str | None
    sha256: str


class Impact(Struct, frozen=True):
    """Nodes by (distance, confidence, path, kind, name, line, edge); not `is_known`: no such target."""

    nodes: tuple[Node, ...]
    files: tuple[str, ...]
    coverage: Coverage = Coverage()
    is_known: bool = True
    is_truncated: bool = False


class Chunk(Struct, frozen=True):
    """What stands at a line: the smallest chunk of the file's own text there, and the symbol around it.

    The text is that of the time when the file was indexed. `id` names the chunk as a record of the store.
    """

    id: str
    path: str
    line_start: int
    line_end: int
    kind: str
    text: str
    sha256: str
    symbol: Symbol | None = None


class CodeReader(Protocol):
    """Answers questions about a program's structure; the methods of a reader with these capabilities.

    Every method raises StoreError `symbols_missing` where the store was made without symbols, so that
    nobody takes that for "none" (formats/codebase-index.md T5). Text that is sent is free of secrets.
    """

    def symbols(self, db: sqlite3.Connection, name: str, limit: int, *, exact: bool) -> Symbols:
        """Return the definitions called *name*; unless *exact* those that begin so, or `Owner.member`."""
        ...

    def references(
        self, db: sqlite3.Connection, name: str, kind: ReferenceKind, path: str | None, limit: int
    ) -> References:
        """Return where *name* (or `Owner.member`) is used and defined, in the file *path* only if given."""
        ...

    def impact(
        self, db: sqlite3.Connection, target: str, direction: Direction, depth: int, budget: Budget
    ) -> Impact:
        """Return what a walk from *target* (file, symbol, `Owner.member`, unique path suffix) comes to."""
        ...

    def chunk(self, db: sqlite3.Connection, path: str, line: int) -> Chunk:
        """Return what stands at *line* of the file at *path*; needs no symbols.

        Raises:
            RequestError: `unknown_id`: the store has no such file, or no text at the line.
        """
        ...

    def architecture(self, db: sqlite3.Connection) -> Mapping[str, Any] | None:
        """Return the report on modules and their ties that the program left in the store, if any."""
        ...


@runtime_checkable
class TabledReader(Protocol):
    """What a reader of code offers too whose symbols can be held in memory."""

    def symbol_table(self, db: sqlite3.Connection) -> SymbolTable:
        """Return all symbols of the store.

        Raises:
            StoreError: as `CodeReader.symbols`.
        """
        ...
