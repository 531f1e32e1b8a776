"""The candidates of all tables: windows and what sidecars add, above the floor, the newest of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from collated_readers.contextful.reads import Reads
from collated_readers.contextful.responses import admits

from .arms import EMBEDDING, Arm, Row, arm_of
from .candidates import Kept, newest, window_of, window_sql
from .filters import Filter, Where, where_of
from .keys import newest_only
from .matching import counter, counts_of

if TYPE_CHECKING:
    from .sidecars import Sidecars

__all__ = ["Asked", "Gathered", "Scored", "floor_of", "gather", "scored"]

_LONG_QUERY = 3  # tokens, of which two must be found


class Asked(Struct, frozen=True):
    """What a ranked read asks of every table; *floor* is None where nothing is looked for."""

    tokens: tuple[str, ...]
    vector: tuple[float, ...] | None
    filter: Filter
    limit: int
    floor: int | None


class Scored(Struct, eq=False):
    """A candidate, how often its text holds each token, and the cosine of its vector, None without."""

    row: Row
    counts: list[int]
    cosine: float | None = None

    @property
    def score(self) -> int | None:
        """Return how many tokens the text holds, None where the table has no text."""
        return None if self.row.text is None else sum(1 for count in self.counts if count)

    def passes(self, floor: int | None) -> bool:
        """Tell whether enough tokens stand in the text, or the vectors point the same way at all."""
        score = self.score
        return floor is None or (score is not None and score >= floor) or (self.cosine or 0.0) > 0


class Gathered(Struct, frozen=True):
    """The candidates that are left and how many there were; *is_short* where a sidecar gave too few.

    *statements* are those that read the windows.
    """

    rows: list[Scored]
    statements: tuple[str, ...]
    before_floor: int
    deduped: int
    is_short: bool


def floor_of(tokens: Sequence[str], least: int | None) -> int | None:
    """Return how many tokens a row must hold: *least* if given, None where nothing is looked for."""
    if not tokens:
        return None
    return least if least is not None else 2 if len(tokens) >= _LONG_QUERY else 1


def gather(
    reads: Reads, names: Sequence[str], asked: Asked, kept: Kept, sidecars: Sidecars | None
) -> Gathered:
    """Return the candidates of the tables *names*; one that lacks a filtered column has none."""
    found: list[Row] = []
    wheres: dict[str, Where] = {}
    statements: list[str] = []
    is_short = False
    window = window_of(asked.limit)
    for arm, where in _arms(reads, names, asked):
        wheres[arm.table] = where
        statements.append(window_sql(arm, where, window))
        rows = newest(reads, arm, where, window, kept)
        more, lacks = _probed(reads, arm, where, asked, sidecars)
        found += _distinct([*rows, *more]) if more else rows
        is_short = is_short or lacks
    survivors = [one for one in scored(found, asked.tokens, asked.vector) if one.passes(asked.floor)]
    left = survivors if asked.floor is None else _newest_only(reads, survivors, found, wheres)
    return Gathered(left, tuple(statements), len(found), len(survivors) - len(left), is_short)


def scored(rows: Sequence[Row], tokens: Sequence[str], vector: Sequence[float] | None = None) -> list[Scored]:
    """Return *rows* with what *tokens* and the *vector* of a query find in them."""
    counters = [counter(token) for token in tokens]
    none = [0] * len(counters)
    found = [Scored(row, counts_of(counters, row.text) if row.text else none) for row in rows]
    if vector is not None:
        from .cosines import cosine_with  # numpy

        cosine = cosine_with(vector)
        for one in found:
            one.cosine = cosine(one.row.cell(EMBEDDING))
    return found


def _arms(reads: Reads, names: Sequence[str], asked: Asked) -> Iterator[tuple[Arm, Where]]:
    for name in names:
        arm = arm_of(reads.store.tables[name], reads.columns(name), with_vectors=asked.vector is not None)
        where = None if arm is None else where_of(asked.filter, arm.types)
        if arm is not None and where is not None:
            yield arm, where


def _probed(
    reads: Reads, arm: Arm, where: Where, asked: Asked, sidecars: Sidecars | None
) -> tuple[list[Row], bool]:
    declared = reads.store.tables[arm.table].declared
    if not declared.indexes or not admits(declared.zone_allow):
        return [], False
    from .sidecars import Question, Sidecars, probed  # numpy

    question = Question(asked.tokens, asked.vector, asked.limit)
    found = probed(reads, arm, where, question, Sidecars() if sidecars is None else sidecars)
    return found.rows, found.is_short


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """Return *rows*, of those that are the same the first."""
    first: dict[tuple[str, ...], Row] = {}
    for row in rows:
        first.setdefault(row.identity, row)
    return list(first.values())


def _newest_only(
    reads: Reads, survivors: Sequence[Scored], found: Sequence[Row], wheres: Mapping[str, Where]
) -> list[Scored]:
    left = {id(row) for row in newest_only(reads, [one.row for one in survivors], found, wheres)}
    return [one for one in survivors if id(one.row) in left]
