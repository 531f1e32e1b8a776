"""What a change of a file or a symbol touches, or what it rests on: a walk over the ties of the program."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence, Set

from msgspec import Struct

from collated_readers.code import Direction, Impact, Node
from collated_readers.contract import Budget
from collated_readers.values import integer, optional_text, text

from .coverage import coverage_of, unmatched
from .definitions import check_symbols, definitions_of
from .edges import Edge, Edges, Vertex, confidence_rank

__all__ = ["impact_of"]

_MOST_NODES = 10_000

_FILE = "SELECT id, lang, parser FROM files WHERE path = ?"
_ENDING = """
SELECT id, lang, parser FROM files
WHERE lower(path) = lower(:ending) OR lower(substr(path, -length(:ending) - 1)) = lower('/' || :ending)
LIMIT 2"""
_IN_FILE = "SELECT id FROM symbols WHERE file_id = ? ORDER BY line_start, id LIMIT ?"


class _Start(Struct, frozen=True):
    """Where a walk begins, in the order in which it goes on from there."""

    vertices: tuple[Vertex, ...] = ()
    languages: tuple[tuple[str | None, str], ...] = ()


def impact_of(
    db: sqlite3.Connection, target: str, direction: Direction, depth: int, budget: Budget
) -> Impact:
    """Return what a walk of *depth* edges comes to, by (distance, confidence, path, kind, name, line, edge).

    *target* is, the first that fits: a file's path, a symbol's name, `Owner.member`, the end of one
    file's path. From a file the walk begins at the file and at all its symbols. Each node comes with the
    best of the shortest edges to it.

    Raises:
        StoreError: `symbols_missing`, `deadline_exceeded`, `damaged`.
    """
    check_symbols(db)
    start = _start_of(db, target)
    if not start.vertices:
        return Impact((), (), unmatched(target), is_known=False)
    edges = Edges(db, budget)
    reached, is_truncated = _walk(edges, start.vertices, direction, depth)
    nodes = tuple(sorted((_node(edge, distance) for edge, distance in reached), key=_order))
    return Impact(
        nodes, _files(nodes), coverage_of(start.languages), is_truncated=is_truncated or edges.is_truncated
    )


def _start_of(db: sqlite3.Connection, target: str) -> _Start:
    file = db.execute(_FILE, (target,)).fetchone()
    if file is None:
        found, _ = definitions_of(db, target)
        if found:
            languages = tuple((one.language, one.parser) for one in found)
            return _Start(tuple(("symbol", one.id) for one in found), languages)
        ending = db.execute(_ENDING, {"ending": target}).fetchall()
        if len(ending) != 1:
            return _Start()
        file = ending[0]
    number = integer(file[0])
    symbols = db.execute(_IN_FILE, (number, _MOST_NODES))
    vertices: list[Vertex] = [("file", number), *(("symbol", integer(one)) for (one,) in symbols)]
    return _Start(tuple(vertices), ((optional_text(file[1]), text(file[2])),))


def _walk(
    edges: Edges, start: Sequence[Vertex], direction: Direction, depth: int
) -> tuple[list[tuple[Edge, int]], bool]:
    """Return the best shortest edge to each vertex with its length, and whether there are more vertices."""
    seen = set(start)
    nearest: list[tuple[Edge, int]] = []
    front = list(start)
    for distance in range(1, depth + 1):
        step = _step(_leading(edges, front, seen, direction), front)
        room = _MOST_NODES - len(nearest)
        nearest += [(edge, distance) for edge in step[:room]]
        if len(step) > room:
            return nearest, True
        front = [edge.far for edge in step]
        seen.update(front)
        if not front:
            break
    return nearest, False


def _leading(edges: Edges, front: Sequence[Vertex], seen: Set[Vertex], direction: Direction) -> list[Edge]:
    up = edges.up(front, seen) if direction != "down" else []
    return up + edges.down(front, seen) if direction != "up" else up


def _step(edges: Iterable[Edge], front: Sequence[Vertex]) -> list[Edge]:
    """Return the best edge to each vertex, in the order in which the program comes to them.

    It goes through the *front* one by one, through the edges of each by confidence, kind and id, and
    prefers a later edge for a better confidence only. Pure.
    """
    places = {vertex: place for place, vertex in enumerate(front)}
    best: dict[Vertex, Edge] = {}
    for edge in sorted(edges, key=lambda edge: (places[edge.near], *_preference(edge))):
        known = best.get(edge.far)
        if known is None or confidence_rank(edge.confidence) < confidence_rank(known.confidence):
            best[edge.far] = edge
    return list(best.values())


def _preference(edge: Edge) -> tuple[int, Vertex, str, str]:
    return confidence_rank(edge.confidence), edge.far, edge.edge_type, edge.confidence or ""


def _node(edge: Edge, distance: int) -> Node:
    return Node(
        kind=edge.far[0],
        path=edge.path,
        name=edge.name,
        line_start=edge.line_start,
        distance=distance,
        via_edge=edge.edge_type,
        via_confidence=edge.confidence,
        sha256=edge.sha256,
    )


def _order(node: Node) -> tuple[int, int, str, str, str, int, str]:
    line = -1 if node.line_start is None else node.line_start
    rank = confidence_rank(node.via_confidence)
    return node.distance, rank, node.path, node.kind, node.name, line, node.via_edge


def _files(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the files of *nodes*, nearest first, then by path. Pure."""
    nearest: dict[str, int] = {}
    for node in nodes:
        nearest.setdefault(node.path, node.distance)  # nodes are by distance
    return tuple(sorted(nearest, key=lambda path: (nearest[path], path)))
