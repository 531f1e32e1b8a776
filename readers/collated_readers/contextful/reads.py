"""What tools and ranked retrieval need of a session, so that each can be built and tested by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from .model import Bounds, Column, ContextStore, FileList

__all__ = ["Page", "Reads"]


class Page(Struct, frozen=True):
    """A result whose cells are JSON already, by the SQL type of their column (guard.md §6).

    *is_more* when a row beyond the *limit* that was asked for exists.
    """

    columns: tuple[str, ...]
    rows: list[list[Any]]
    is_more: bool = False


class Reads(Protocol):
    """One state of one store under one set of bounds, ready to be asked. Blocking, for one thread.

    All text given to `query` and `fetch` is ours or was judged by the guard before.
    """

    @property
    def store(self) -> ContextStore:
        """Return the store's state."""
        ...

    @property
    def bounds(self) -> Bounds:
        """Return the bounds that are built into the relations."""
        ...

    @property
    def relations(self) -> frozenset[str]:
        """Return the names of all relations: tables that are served, and open ledgers."""
        ...

    @property
    def closed(self) -> Mapping[str, str]:
        """Return why ledgers that exist are closed, by name."""
        ...

    def columns(self, relation: str) -> tuple[Column, ...]:
        """Return the columns of a relation as it is registered, in order."""
        ...

    def files(self, table: str) -> FileList:
        """Return the files that a table's relation reads."""
        ...

    def touch(self, relations: Sequence[str]) -> None:
        """Raise what stands against reading one of *relations* (RequestError), the first by name.

        A damaged manifest, an undeclared valid time under `valid_as_of`, a part that is gone.
        """
        ...

    def tree(self, text: str) -> Any:
        """Return the engine's own serialized tree of *text*, decoded; runs nothing of it."""
        ...

    def query(
        self, sql: str, values: Mapping[str, Any] | Sequence[Any] = (), limit: int | None = None
    ) -> Page:
        """Return at most *limit* rows of one statement, JSON cells.

        Raises:
            RequestError: `engine_error`, without any path; `ReadPartUnavailable`.
        """
        ...

    def fetch(self, sql: str, values: Mapping[str, Any] | Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return all rows as Python values by column, for what we compose of them ourselves.

        Raises:
            RequestError: as `query`.
        """
        ...

    def interrupting(self, ms: int | None, source: str = "request") -> AbstractContextManager[None]:
        """Stop what is asked within the block *ms* after it was entered; None never stops.

        *source* is who declared the ceiling: `table` or `request` (see `responses.Ceilings`).

        Raises:
            RequestError: `ReadDurationExceeded`, also when all was asked but past the deadline.
        """
        ...
