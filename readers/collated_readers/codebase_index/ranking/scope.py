"""Where the lists look, and how deep: what is the same for all three."""

from __future__ import annotations

import sqlite3

from msgspec import Struct

from collated_readers.codebase_index.kept import kept
from collated_readers.codebase_index.places import IN_FILTER
from collated_readers.codebase_index.schema import has_column

__all__ = ["Scope", "escaped", "scope_of"]


class Scope(Struct, frozen=True):
    """A path filter as JSON, how many rows a list has at most, and SQL for columns that may be missing."""

    within: str | None
    depth: int
    generated: str
    callers: str
    callees: str

    @property
    def condition(self) -> str:
        """Return what a file `f` has to fulfil, with the parameter `:within`."""
        return "1" if self.within is None else IN_FILTER.replace("?", ":within")

    def filled(self, statement: str, **more: object) -> str:
        """Return *statement* with the SQL of the columns and the condition in their places, and *more*."""
        columns = {"generated": self.generated, "callers": self.callers, "callees": self.callees}
        return statement.format(condition=self.condition, **columns, **more)


def scope_of(db: sqlite3.Connection, within: str | None, depth: int) -> Scope:
    """Return the scope of one query in a store."""
    return Scope(within, depth, *_numbers(db))


def escaped(word: str) -> str:
    """Return *word* as a part of a LIKE pattern with the escape character `!`; it has no `%`. Pure."""
    return word.replace("_", "!_")


@kept
def _numbers(db: sqlite3.Connection) -> tuple[str, ...]:
    columns = (("files", "f", "is_generated"), ("symbols", "s", "in_degree"), ("symbols", "s", "out_degree"))
    return tuple(_number(db, *column) for column in columns)


def _number(db: sqlite3.Connection, table: str, alias: str, column: str) -> str:
    """Return a count that decides little: whatever else a store has there counts as none."""
    number = f"max(0, CAST(coalesce({alias}.{column}, 0) AS INTEGER))"
    return number if has_column(db, table, column) else "0"
