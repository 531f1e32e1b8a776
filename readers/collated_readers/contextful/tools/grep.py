"""Grep over the text columns of all tables: the first matching line of each row, in the order of ids."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from msgspec import Struct

from collated_readers.codes import RequestError
from collated_readers.contextful.model import Bounds
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.schemas import quoted
from collated_readers.contextful.wire import GrepParams, Line
from collated_readers.contract import Budget, Pattern
from collated_readers.matching.lines import FindLine, line_finder, needles_of
from collated_readers.matching.within import path_matcher_of

from .call import Call
from .rows import NAME

__all__ = ["Pages", "grep", "text_columns"]

_GROWTH = 8
# Letters outside of ASCII that a pattern takes for one in it, as `matching.literals.fold` does.
_FOLDED = "lower(translate({}, 'İıſ\u212a', 'iisk'))"


class Pages(Struct, frozen=True):
    """How many rows are looked at in one statement. Each looks at the whole table, so they grow."""

    first: int = 1_000
    largest: int = 64_000


class _Wanted(Struct, frozen=True):
    """What is looked for, however many tables there are."""

    find_line: FindLine
    needles: tuple[str, ...]
    among: list[str] | None
    budget: Any
    pages: Pages


def grep(call: Call, params: GrepParams, budget: Budget, pages: Pages = Pages()) -> list[Line]:  # noqa: B008 - frozen
    """Return a line for each of the first `limit` rows in which the pattern is found.

    A table that cannot be read is left out; what is wrong with it stands in `stores`.

    Raises:
        RequestError: `pattern_rejected`, `invalid_params` (path filter), `engine_error`.
        StoreError: `deadline_exceeded`.
    """
    pattern = Pattern(params.pattern, params.is_regex)
    wanted = _Wanted(
        line_finder(pattern, budget),
        tuple(needle.decode() for needle in needles_of(pattern)),
        params.among,
        budget,
        pages,
    )
    reads = call.reads_of(Bounds())
    passes = path_matcher_of(params.within)
    names = [name for name in _readable(reads) if passes is None or passes(name)]
    return list(islice(_lines(reads, names, wanted), params.limit))


def text_columns(reads: Reads, table: str) -> list[str]:
    """Return the columns of a table that hold text of its own."""
    return [one.name for one in reads.columns(table) if one.is_text and not one.name.startswith("_")]


def _readable(reads: Reads) -> list[str]:
    """Return the tables that can be read, in the order of their rows' ids."""
    names: list[str] = []
    for name in sorted(reads.relations & reads.store.tables.keys(), key=_prefix):
        try:
            reads.touch([name])
        except RequestError:
            continue
        names.append(name)
    return names


def _prefix(name: str) -> str:
    return f"{name}/"


def _lines(reads: Reads, names: Sequence[str], wanted: _Wanted) -> Iterator[Line]:
    """Yield the lines of all tables; rows of `a` and of `a/b` may have to take turns."""
    roots: list[str] = []
    for name in names:
        if not roots or not _prefix(name).startswith(_prefix(roots[-1])):
            roots.append(name)
    for root in roots:
        family = [name for name in names if _prefix(name).startswith(_prefix(root))]
        yield from heapq.merge(*(_table(reads, name, wanted) for name in family), key=lambda line: line.id)


def _table(reads: Reads, name: str, wanted: _Wanted) -> Iterator[Line]:
    columns = text_columns(reads, name)
    among = wanted.among
    if not columns or (among is not None and not any(one.startswith(_prefix(name)) for one in among)):
        return
    for (run_id, row_seq), rows in groupby(_rows(reads, name, columns, wanted), key=lambda row: row[:2]):
        # One id on two nodes is two rows; the first of them that matches shows its line.
        found = next(filter(None, (_first(row[2:], wanted) for row in rows)), None)
        if found is not None:
            yield Line(f"{name}/{run_id}/{row_seq}", name, run_id, found.strip())


def _first(texts: Sequence[str | None], wanted: _Wanted) -> str | None:
    wanted.budget.check()
    lines = (wanted.find_line(text) for text in texts if text is not None)
    return next((line for line in lines if line is not None), None)


def _rows(reads: Reads, name: str, columns: Sequence[str], wanted: _Wanted) -> Iterator[list[Any]]:
    """Yield run, number and texts of rows in which the pattern may be found, in the order of their names."""
    conditions, values = _conditions(name, columns, wanted)
    shown = ", ".join(['"_run_id"', '"_row_seq"', *map(quoted, columns)])
    order = ", ".join([NAME, *map(quoted, columns)])
    after, is_from, size = "", ">=", wanted.pages.first
    while True:
        where = " AND ".join([f"{NAME} {is_from} ?", *conditions])
        sql = f"SELECT {shown} FROM {quoted(name)} WHERE {where} ORDER BY {order}"  # noqa: S608
        page = reads.query(sql, [after, *values], limit=size)
        if not page.is_more:
            yield from page.rows
            return
        after = _name(page.rows[-1])
        whole = [row for row in page.rows if _name(row) != after]
        yield from whole or page.rows  # where one name fills a page, the rest of it is left out
        is_from = ">=" if whole else ">"
        size = min(size * _GROWTH, wanted.pages.largest)


def _name(row: Sequence[Any]) -> str:
    return f"{row[0]}/{row[1]}"


def _conditions(name: str, columns: Sequence[str], wanted: _Wanted) -> tuple[list[str], list[Any]]:
    """Return what rows must be like; a needle must be in one of the columns, for a line is in one."""
    conditions: list[str] = []
    values: list[Any] = []
    for needle in wanted.needles:
        each = [f"contains({_FOLDED.format(quoted(column))}, lower(?))" for column in columns]
        conditions.append(f"({' OR '.join(each)})")
        values += [needle] * len(columns)
    if wanted.among is not None:
        conditions.append(f"list_contains(?, {NAME})")
        prefix = _prefix(name)
        values.append([one.removeprefix(prefix) for one in wanted.among if one.startswith(prefix)])
    return conditions, values
