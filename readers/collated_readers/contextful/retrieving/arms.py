"""How each table takes part in a ranked read: its columns by what they are for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from collated_readers.contextful.model import Column, Table
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.refusals import refused

from .columns import SEPARATOR, joined, publication_column, scored_columns, snippet_columns
from .dates import instant_of, published
from .tokens import length_of

__all__ = ["EMBEDDING", "ORDER", "Arm", "Row", "arm_of", "names_of"]

EMBEDDING = "embedding"
_NEWEST = ("_ingested_at", "_run_id", "_row_seq")
ORDER = ", ".join(f'"{name}" DESC NULLS LAST' for name in _NEWEST)
"""Newest first; where a node's run has the name of another's, `Arm.order` says which comes first."""


class Arm(Struct, frozen=True):
    """A table as a ranked read sees it.

    *selected* are the columns that are read of a row. The *scored* ones are matched against; without any
    a row has no lexical score. *key* tells which rows are versions of the same, *dated* when they appeared.
    """

    table: str
    types: Mapping[str, str]
    selected: tuple[str, ...]
    scored: tuple[str, ...]
    shown: tuple[str, ...]
    dated: str
    key: str | None
    is_volatile: bool = False  # what it holds depends on the wall clock

    @property
    def order(self) -> str:
        """Return the order in SQL, newest rows first, which is total."""
        return f'{ORDER}, "_site_id" DESC NULLS LAST' if "_site_id" in self.types else ORDER

    def at(self) -> dict[str, int]:
        """Return where each column is in a row."""
        return {name: place for place, name in enumerate(self.selected)}


class Row(Struct, eq=False):
    """A candidate; *cells* are JSON, in the order of `Arm.selected`, and then the text of its key, if any.

    *text* is what is matched, in lower case, None without any. What else is derived is derived once.
    """

    arm: Arm
    at: Mapping[str, int]
    cells: Sequence[Any]
    text: str | None
    is_newest: bool | None = None  # of the rows with its key; None until somebody asks
    _words: int = -1

    def cell(self, column: str) -> Any:
        """Return a cell, None too where the table has no such column."""
        place = self.at.get(column)
        return None if place is None else self.cells[place]

    @property
    def key(self) -> str | None:
        """Return what versions of the same share, None for what is like nothing else."""
        return None if self.arm.key is None else self.cells[len(self.arm.selected)]

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return what tells rows of one table apart: run, number in the run, and node."""
        return (str(self.cell("_run_id")), str(self.cell("_row_seq")), str(self.cell("_site_id")))

    @property
    def id(self) -> str:
        """Return the identifier that breaks ties, compared as text: so row 10 comes before row 2."""
        return "\x1f".join((self.arm.table, *self.identity[:2]))

    @property
    def snippet(self) -> str | None:
        """Return what the row is shown by, None where its table has nothing to show."""
        return joined(map(self.cell, self.arm.shown)) if self.arm.shown else None

    def words(self) -> int:
        """Return how many words the text has."""
        if self._words < 0:
            # What stands between two columns is part of no word, and would make all texts slow to count.
            self._words = sum(map(length_of, (self.text or "").split(SEPARATOR)))
        return self._words

    def published(self) -> tuple[int | None, str]:
        """Return when the row appeared, and the column that says so or what is wrong with it."""
        return published(self.cell(self.arm.dated), self.arm.dated)

    def recency(self) -> int:
        """Return when the row appeared, else when it was taken in."""
        at = self.published()[0]
        if at is None:
            at = instant_of(str(self.cell("_ingested_at")))
        return at if at is not None else -(1 << 63)


def names_of(reads: Reads, prefix: str, tables: Sequence[str] | None) -> list[str]:
    """Return the relations to retrieve from: those under *prefix*, and among *tables* where they are given.

    A relation without the columns that order rows, such as a ledger, holds nothing to be ranked.

    Raises:
        RequestError: `RetrieveTableUnavailable`, naming all of *tables* that are no relations.
    """
    missing = [name for name in tables or () if name not in reads.relations]
    if missing:
        raise refused("RetrieveTableUnavailable", ", ".join(missing), "context.describe lists the tables")
    chosen = reads.relations if tables is None else reads.relations & set(tables)
    return sorted(name for name in chosen if name.startswith(prefix) and name in reads.store.tables)


def arm_of(table: Table, columns: Sequence[Column], *, with_vectors: bool) -> Arm | None:
    """Return how *table*, registered with these *columns*, takes part; None where its rows have no order."""
    types = {column.name: column.type for column in columns}
    if not types.keys() >= set(_NEWEST):
        return None
    key = table.declared.content_hash_column
    return Arm(
        table=table.name,
        types=types,
        selected=tuple(name for name in types if with_vectors or name != EMBEDDING),
        scored=scored_columns(columns, table.declared),
        shown=snippet_columns(columns, table.declared),
        dated=publication_column(columns),
        key=key if key in types else None,
        is_volatile=table.declared.retain_rows is not None,
    )
