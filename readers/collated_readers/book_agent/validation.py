"""Is all of a store sound? Each passage, its source and its vector, in one walk (book-agent.md §2, §3).

This module brings in numpy.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from msgspec import Struct

from collated_readers.contract import Budget, StoreError
from collated_readers.vectors import MEMORY_BYTES

from .decoding import item_bytes, matrix_of, row_bytes, selected_vector, squared_norms
from .layout import BGE, Layout, Warned, quoted
from .lossless import Reconstruction, Source
from .passages import Row, named, passage_of, selected, source_of
from .scan import exceeded
from .shapes import count_of

__all__ = ["Rules", "outcome", "validate"]

_UNIT_FAILS, _UNIT_WARNS = 1e-2, 1e-3
_ROWS = 256


class Rules(Struct, frozen=True):
    """What a validation is held to; *source* is the text that the passages must make up."""

    budget: Budget
    memory_bytes: int = MEMORY_BYTES
    is_strict: bool = False
    source: Source | None = None


def validate(db: sqlite3.Connection, layout: Layout, rules: Rules) -> tuple[Warned, ...]:
    """Return what is odd about a sound store.

    Raises:
        StoreError: the first fault that is found, naming the record.
    """
    count_of(db, layout)
    seen = _Seen(layout, rules)
    for row, vectors in _walk(db, layout, rules):
        if row is not None:
            seen.take(row)
        else:
            seen.measure(*vectors)
    return (*layout.warned, *seen.warned())


def _walk(
    db: sqlite3.Connection, layout: Layout, rules: Rules
) -> Generator[tuple[Row | None, tuple[list[Any], list[Any]]], None, None]:
    """Yield each row, and now and then the ids and vectors of those before, which then are forgotten."""
    columns = layout.columns
    # Only the order of a lossless store says anything, and it may be another than that of the rows.
    order = f"ORDER BY {quoted(columns.id)}" if layout.contract == BGE else ""
    sql = f"SELECT {selected(columns)}, {selected_vector(layout)} FROM {quoted(columns.table)} {order}"  # noqa: S608 - quoted
    # The numbers once more, in float64, when their length is taken.
    vector_bytes = row_bytes(layout) + 2 * 8 * layout.dimensions
    most = max(1, min(_ROWS, rules.memory_bytes // vector_bytes))
    ids: list[Any] = []
    vectors: list[Any] = []
    with closing(db.execute(sql)) as rows:
        for *row, vector in rows:
            rules.budget.check()
            yield row, ([], [])
            ids.append(row[0])
            vectors.append(vector)
            if len(ids) == most:
                yield None, (ids, vectors)
                ids, vectors = [], []
    if ids:
        yield None, (ids, vectors)


class _Seen:
    """What the walk has seen so far."""

    def __init__(self, layout: Layout, rules: Rules) -> None:
        self._layout = layout
        self._rules = rules
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._whole = Reconstruction(is_strict=rules.is_strict) if layout.contract == BGE else None

    def take(self, row: Row) -> None:
        """Check all of a row but its vector."""
        passage = passage_of(self._layout, row)
        vector_bytes = item_bytes(self._layout) * self._layout.dimensions
        size = len(passage.text.encode()) + sum(len(f"{value}") for value in row[2:]) + vector_bytes
        if size > self._rules.memory_bytes:
            raise exceeded("record", named(passage.id), self._rules.memory_bytes)
        if self._whole is not None:
            for code in self._whole.take(passage):
                self._count(code, passage.id)
            return
        if not passage.source:
            self._count("source_metadata_missing", passage.id)
        for code in _conflicts(self._layout, row, passage.source):
            self._count(code, passage.id)

    def measure(self, ids: list[Any], vectors: list[Any]) -> None:
        """Check vectors."""
        matrix = matrix_of(self._layout, ids, vectors)
        squared_norms(matrix, ids)
        if not self._layout.is_normalized:
            return
        with np.errstate(over="ignore"):
            apart = np.abs(np.sqrt(np.square(matrix, dtype=np.float64).sum(axis=1)) - 1.0)
        for row in np.flatnonzero(apart > _UNIT_WARNS):
            if apart[row] > _UNIT_FAILS:
                raise StoreError(
                    "normalization_mismatch",
                    f"the vector of {named(ids[row])} is {apart[row]:.4g} away from unit length",
                )
            self._count("norm_tolerance", ids[row])

    def warned(self) -> Iterator[Warned]:
        """Yield what was odd, once the walk is over.

        Raises:
            StoreError: `reconstruction_mismatch`.
        """
        if self._whole is not None:
            stated = self._layout.stated
            sources = [Source.stated(stated), self._rules.source]
            if not self._whole.compare([source for source in sources if source is not None]):
                yield Warned("source_text_unverified", _MEANINGS["source_text_unverified"])
        for code, count in sorted(self._counts.items()):
            yield Warned(code, f"{_MEANINGS[code]}: {count} of them, first {self._first[code]}")

    def _count(self, code: str, record_id: object) -> None:
        self._counts[code] += 1
        self._first.setdefault(code, named(record_id))


_MEANINGS = {
    "source_metadata_missing": "records that do not say where they are from",
    "source_conflict": "records of which a column says one thing and the JSON another; the column wins",
    "source_text_unverified": "nothing states the hash or length of the whole text",
    "overlapping_chunks": "chunks that begin within the one before",
    "ordinal_hole": "chunks whose ordinal is not the one after that before, though no text is missing",
    "norm_tolerance": f"vectors more than {_UNIT_WARNS} away from unit length",
}


def _conflicts(layout: Layout, row: Row, source: Any) -> Iterator[str]:
    if layout.columns.source_json is None or row[2] is None or not layout.columns.source_columns:
        return
    without = (*row[:3], *([None] * len(layout.columns.source_columns)))
    json = source_of(layout.columns, without)
    if any(source[name] != value for name, value in json.items()):
        yield "source_conflict"


def outcome(db: sqlite3.Connection, layout: Layout, budget: Budget) -> dict[str, Any]:
    """Return what people are told of a store's validation; a store that fails it is no failure here.

    Raises:
        StoreError: `deadline_exceeded`.
    """
    try:
        warned = validate(db, layout, Rules(budget))
    except StoreError as error:
        if error.code == "deadline_exceeded":
            raise
        return {"validation": error.code, "message": error.message}
    return {
        "validation": "valid",
        "warnings": [{"code": each.code, "message": each.message} for each in warned],
    }
