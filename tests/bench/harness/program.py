"""The other side of part `code`: `codebase_index`'s own functions, in one process, store after store."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any, NamedTuple

from .answers import LIMIT

# The package has no types.
_storage, _searchers, _pipeline = (
    import_module(f"codebase_index.{name}")
    for name in ("storage.db", "retrieval.searchers", "retrieval.pipeline")
)

__all__ = ["MOST", "Place", "Program"]

MOST = 1_000
"""How many symbols and references the daemon is asked for at most; the program knows no limit."""

_SNIPPET_TOKENS = 1_500  # what the program's command line gives them


class Place(NamedTuple):
    """Where a symbol or a reference stands, in the daemon's order of both."""

    key: str
    path: str
    line: int
    store: str


class Program:
    """The program on each store, all open. It writes to them, so they must be copies."""

    def __init__(self, stores: Iterable[Path]) -> None:
        """Open *stores*; a store's name is its file's stem."""
        self._open: list[tuple[str, Any]] = [(path.stem, _storage.Database(path).open()) for path in stores]

    def close(self) -> None:
        """Close all stores."""
        for _, database in self._open:
            database.close()

    def symbols(self, name: str) -> list[Place]:
        """Return the definitions of *name*; where a store has it exactly, others' longer names are none."""
        found = [
            Place(each.name, each.path, each.line_start, store)
            for store, database in self._open
            for each in _searchers.symbol_lookup(database.conn, name, kind=None, exact=False).symbols
        ]
        exact = [place for place in found if place.key == name]
        return sorted(exact or found)

    def references(self, name: str, stores: Sequence[str]) -> list[Place]:
        """Return where *name* is used and defined in *stores*; the key is what it is there."""
        return sorted(
            (
                Place(site.kind, site.path, site.line, store)
                for store, database in self._open
                if store in stores
                for site in _searchers.refs_lookup(database.conn, name, kind="all").sites
            ),
            key=lambda place: (place.path, place.line, place.key, place.store),
        )

    def with_references(self) -> list[str]:
        """Return the stores that have all columns which the program reads for references."""
        return [store for store, database in self._open if _has_references(database.conn)]

    def search(self, query: str) -> list[tuple[float, str, int, str]]:
        """Return the best results of all stores by the score that the program gives them.

        Snippets as they are: to shorten them takes grammars, which may be missing and are then waited for.
        """
        found = [
            (-hit["score"], hit["path"], hit["line_start"], store)
            for store, database in self._open
            for hit in _pipeline.search(
                database.conn,
                query,
                mode="hybrid",
                limit=LIMIT,
                token_budget=_SNIPPET_TOKENS,
                no_fallback=False,
                compact=False,
            )["results"]
        ]
        return sorted(found)[:LIMIT]


def _has_references(connection: Any) -> bool:
    try:
        _searchers.refs_lookup(connection, "x", kind="all")
    except OperationalError:  # no such column: the program reads older stores in part only
        return False
    return True
