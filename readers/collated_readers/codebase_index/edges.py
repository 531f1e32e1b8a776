"""The ties that can be followed: those whose target still bears the name that they recorded.

An update of the store gives the symbols of changed files new ids, and leaves the old ones in the edges of
files that did not change, where they may mean another symbol by now (formats/codebase-index.md T2). Of such
an edge only the recorded name is taken: for the one symbol of that name, or for none.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence, Set
from contextlib import closing
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from collated_readers.contract import Budget
from collated_readers.values import Row, integer, optional_text, text

from .definitions import module_of
from .schema import has_column

__all__ = ["Edge", "Edges", "NodeKind", "Vertex", "confidence_rank", "means_file"]

NodeKind = Literal["symbol", "file"]
Vertex = tuple[NodeKind, int]

_MOST_EDGES = 100_000
_ROWS_PER_CHECK = 1_000
_RANKS = {"extracted": 0, "inferred": 1, "ambiguous": 2}
_BETWEEN_NAMES = re.compile(r"[./]|::")

# Columns of all: where a walk stands; the other end's kind and id; the edge; the other end's name and place;
# what the edge recorded of a file, and the file's path. Only the first *most* edges, by id, are looked at.
# A + before a column keeps its index out, where another is better.
_AMONG = "IN (SELECT value FROM json_each(:ids))"
_BOUND = "ORDER BY +e.id LIMIT :most"
_IS_LOST = "e.resolved = 1 AND +e.dst_kind = 'symbol' AND was.id IS NULL"
_WAS = "LEFT JOIN symbols AS was ON was.id = e.dst_id AND was.name = e.dst_name"
_IS_LONE = "NOT EXISTS (SELECT 1 FROM symbols AS o WHERE o.name = t.name AND o.id <> t.id)"

_EDGES = "FROM edges AS e"
_SOURCE = "e.src_kind, e.src_id, e.edge_type, {confidence}, s.name, s.line_start, f.path, f.sha256"
_FROM_SOURCE = """
LEFT JOIN symbols AS s ON e.src_kind = 'symbol' AND s.id = e.src_id
JOIN files AS f ON f.id = CASE e.src_kind WHEN 'symbol' THEN s.file_id WHEN 'file' THEN e.src_id END"""
_UP_TO_SYMBOLS = f"""
SELECT e.dst_id, {_SOURCE}, NULL, NULL {_EDGES}
JOIN symbols AS t ON t.id = e.dst_id AND t.name = e.dst_name {_FROM_SOURCE}
WHERE e.resolved = 1 AND e.dst_kind = 'symbol' AND e.dst_id {_AMONG} {_BOUND}"""
_UP_TO_FILES = f"""
SELECT e.dst_id, {_SOURCE}, e.dst_name, t.path {_EDGES}
JOIN files AS t ON t.id = e.dst_id {_FROM_SOURCE}
WHERE e.resolved = 1 AND e.dst_kind = 'file' AND e.dst_id {_AMONG} {_BOUND}"""
_NAMED_EDGES = "FROM symbols AS t CROSS JOIN edges AS e ON e.dst_name = t.name"
_UP_BY_NAME = f"""
SELECT t.id, {_SOURCE}, NULL, NULL {_NAMED_EDGES} {_WAS} {_FROM_SOURCE}
WHERE t.id {_AMONG} AND {_IS_LONE} AND {_IS_LOST} {_BOUND}"""

_TARGET = "{confidence}, t.name, t.line_start, f.path, f.sha256"
_DOWN = f"""
SELECT e.src_id, e.dst_kind, e.dst_id, e.edge_type, {_TARGET},
CASE e.dst_kind WHEN 'file' THEN e.dst_name END, CASE e.dst_kind WHEN 'file' THEN f.path END
{_EDGES}
LEFT JOIN symbols AS t ON e.dst_kind = 'symbol' AND t.id = e.dst_id AND t.name = e.dst_name
JOIN files AS f ON f.id = CASE e.dst_kind WHEN 'symbol' THEN t.file_id WHEN 'file' THEN e.dst_id END
WHERE e.resolved = 1 AND e.src_kind = :kind AND e.src_id {_AMONG} {_BOUND}"""
_DOWN_BY_NAME = f"""
SELECT e.src_id, 'symbol', t.id, e.edge_type, {_TARGET}, NULL, NULL {_EDGES} {_WAS}
JOIN symbols AS t ON t.name = e.dst_name JOIN files AS f ON f.id = t.file_id
WHERE e.src_kind = :kind AND e.src_id {_AMONG} AND {_IS_LOST} AND {_IS_LONE} {_BOUND}"""


class Edge(Struct, frozen=True, gc=False):
    """A tie from *near*, where a walk stands, to what is at its other end."""

    near: Vertex
    far: Vertex
    edge_type: str
    confidence: str | None
    name: str
    line_start: int | None
    path: str
    sha256: str


class Edges:
    """The edges of a store, for one walk; `is_truncated`: some vertices had more than are looked at."""

    def __init__(self, db: sqlite3.Connection, budget: Budget) -> None:
        """Take the connection, and the *budget* of the walk."""
        self.is_truncated = False
        self._db = db
        self._budget = budget
        self._confidence = "e.confidence" if has_column(db, "edges", "confidence") else "NULL"

    def up(self, near: Sequence[Vertex], seen: Set[Vertex]) -> list[Edge]:
        """Return the edges that lead to *near* from others than those *seen*, in no particular order.

        Raises:
            StoreError: `damaged`, `deadline_exceeded`.
        """
        return [
            *self._asked(_UP_TO_SYMBOLS, "symbol", near, seen),
            *self._asked(_UP_BY_NAME, "symbol", near, seen, is_lost=True),
            *self._asked(_UP_TO_FILES, "file", near, seen),
        ]

    def down(self, near: Sequence[Vertex], seen: Set[Vertex]) -> list[Edge]:
        """Return the edges that lead from *near* to others than those *seen*, in no particular order.

        Raises:
            StoreError: `damaged`, `deadline_exceeded`.
        """
        return [
            *self._asked(_DOWN, "symbol", near, seen),
            *self._asked(_DOWN_BY_NAME, "symbol", near, seen, is_lost=True),
            *self._asked(_DOWN, "file", near, seen),
            *self._asked(_DOWN_BY_NAME, "file", near, seen, is_lost=True),
        ]

    def _asked(
        self, sql: str, kind: NodeKind, near: Sequence[Vertex], seen: Set[Vertex], *, is_lost: bool = False
    ) -> list[Edge]:
        ids = [number for of_kind, number in near if of_kind == kind]
        if not ids:
            return []
        sql = sql.format(confidence="'inferred'" if is_lost else self._confidence)
        asked = {"kind": kind, "ids": json.dumps(ids), "most": _MOST_EDGES + 1}
        found: list[Edge] = []
        with closing(self._db.execute(sql, asked)) as rows:
            for number, row in enumerate(rows):
                if number % _ROWS_PER_CHECK == 0:
                    self._budget.check()
                if number == _MOST_EDGES:
                    self.is_truncated = True
                elif (row[1], row[2]) not in seen and _is_meant(row):
                    found.append(_edge(kind, row))
        return found


def _is_meant(row: Row) -> bool:
    *_, module, path = row
    return path is None or means_file(optional_text(module), text(path))


def _edge(kind: NodeKind, row: Row) -> Edge:
    near, far_kind, far, edge_type, confidence, name, line_start, path, sha256, _, _ = row
    place = text(path)
    is_file = far_kind == "file"
    return Edge(
        near=(kind, integer(near)),
        far=("file" if is_file else "symbol", integer(far)),
        edge_type=text(edge_type),
        confidence=optional_text(confidence),
        name=PurePosixPath(place).name if is_file else text(name),
        line_start=None if is_file else integer(line_start),
        path=place,
        sha256=text(sha256),
    )


def confidence_rank(confidence: str | None) -> int:
    """Return the place of *confidence* among all, best first; one that is not known comes last. Pure."""
    return _RANKS.get(confidence or "", len(_RANKS))


def means_file(module: str | None, path: str) -> bool:
    """Tell whether an import of *module* can mean the file at *path*: their last names agree. Pure.

    Ids of files outlive updates; but the id of a file that is gone may be given to a new one.
    """
    last = next(filter(None, reversed(_BETWEEN_NAMES.split((module or "").lower()))), None)
    return last in {module_of(path.lower()), PurePosixPath(path.lower()).stem}
