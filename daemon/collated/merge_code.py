"""The order of what code stores and vector stores answer, as key tuples. Pure; see `merge` for the rest.

Each store's own list stays as it is; how lists are merged depends on their rows and stores alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import count, islice
from operator import itemgetter
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct

from collated_readers.code import DEPTH_LIMITS, How, Impact, Node, Reference, References, Symbol, Symbols
from collated_readers.vectors import Similar, VectorFacts

__all__ = [
    "MOST_BYTES",
    "Near",
    "Room",
    "are_alike",
    "merge_files",
    "merge_near",
    "merge_nodes",
    "merge_references",
    "merge_symbols",
    "size_of",
]

R = TypeVar("R", bound=Struct)

_Key = tuple[Any, ...]

MOST_BYTES = 4 * 1024 * 1024
"""What the rows of one answer take on the wire at most, half of what a frame may have."""

_HOW: Mapping[How, int] = {how: place for place, how in enumerate(get_args(How))}
_POSSIBLE = "possible_call"
_CONFIDENCE: Mapping[str | None, int] = {"extracted": 0, "inferred": 1, "ambiguous": 2}


class Near(Struct, frozen=True):
    """What one vector store found, and of what kind its vectors are."""

    facts: VectorFacts
    hits: tuple[Similar, ...]


def merge_symbols(
    answers: Mapping[str, Symbols], limit: int
) -> tuple[How | None, list[tuple[str, Symbol]], bool]:
    """Return the best way in which any store has some, the first *limit* so found, and if there are more."""
    ways: set[How] = {answer.how for answer in answers.values() if answer.symbols}
    how = min(ways, key=lambda way: _HOW[way], default=None)
    best = {store: each for store, each in answers.items() if each.symbols and each.how == how}
    rows, has_more = _merged(
        {store: map(_keyed_symbol, answer.symbols) for store, answer in best.items()}, limit
    )
    return how, rows, has_more or any(each.is_truncated for each in best.values())


def _keyed_symbol(symbol: Symbol) -> tuple[_Key, Symbol]:
    return (symbol.name, symbol.path, symbol.line_start), symbol


def merge_references(
    answers: Mapping[str, References], limit: int
) -> tuple[list[tuple[str, Reference]], bool]:
    """Return the first *limit* references of all stores, and whether there are more.

    By path, line, kind and store; then what a call may mean or not, by its place in its own store's list.
    """
    lists = {store: _keyed_references(answer.references) for store, answer in answers.items()}
    rows, has_more = _merged(lists, limit)
    return rows, has_more or any(each.is_truncated for each in answers.values())


def _keyed_references(references: Iterable[Reference]) -> Iterator[tuple[_Key, Reference]]:
    places = count()
    for each in references:
        if each.kind == _POSSIBLE:  # the likely ones first, as only their reader knows them
            yield (True, next(places), each.path, each.line), each
        else:
            yield (False, each.path, each.line, each.kind), each


def merge_nodes(answers: Mapping[str, Impact], limit: int) -> tuple[list[tuple[str, Node]], bool]:
    """Return the first *limit* nodes of all stores, and whether there are more."""
    rows, has_more = _merged(
        {store: map(_keyed_node, answer.nodes) for store, answer in answers.items()}, limit
    )
    return rows, has_more or any(each.is_truncated for each in answers.values())


def _keyed_node(node: Node) -> tuple[_Key, Node]:
    key = (
        node.distance,
        _CONFIDENCE.get(node.via_confidence, len(_CONFIDENCE)),
        node.path,
        node.kind,
        node.name,
        -1 if node.line_start is None else node.line_start,
        node.via_edge,
    )
    return key, node


def merge_files(answers: Mapping[str, Impact], limit: int) -> tuple[list[tuple[str, str]], bool]:
    """Return the first *limit* files, as store and path, and whether there are more.

    By the distance of the nearest node in them, path and store.
    """
    rows = sorted(
        (distance, path, store)
        for store, answer in answers.items()
        for path, distance in _distances(answer).items()
    )
    return [(store, path) for _, path, store in rows[:limit]], len(rows) > limit


def _distances(answer: Impact) -> Mapping[str, int]:
    distances = dict.fromkeys(answer.files, DEPTH_LIMITS[1] + 1)
    for node in answer.nodes:
        if node.path in distances:
            distances[node.path] = min(distances[node.path], node.distance)
    return distances


def are_alike(answers: Iterable[Near]) -> bool:
    """Tell whether the scores of all *answers* can be compared: one metric over one model's vectors."""
    return len({(near.facts.metric, near.facts.model.casefold()) for near in answers if near.hits}) <= 1


def merge_near(answers: Mapping[str, Near], limit: int) -> list[tuple[str, Similar]]:
    """Return the best *limit* hits: by score, id and store where scores can be compared.

    Else by reciprocal rank, which is by the place in the store's own list, then id and store (DESIGN §5).
    """
    is_by_score = are_alike(answers.values())
    lists = {store: _keyed_near(near, is_by_score=is_by_score) for store, near in answers.items()}
    return _merged(lists, limit)[0]


def _keyed_near(near: Near, *, is_by_score: bool) -> Iterator[tuple[_Key, Similar]]:
    for place, hit in enumerate(near.hits):
        yield (_score_key(near.facts, hit) if is_by_score else place, hit.id), hit


def _score_key(facts: VectorFacts, hit: Similar) -> float:
    return -hit.score if facts.direction == "higher" else hit.score


class Room:
    """The bytes that the rows of one answer may still take; `is_cut` once any were left out."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Begin with *most_bytes*."""
        self._most_bytes = self._left_bytes = most_bytes
        self.is_cut = False

    def take(self, rows: Iterable[R]) -> list[R]:
        """Return the first of *rows* that there is room for, without those that are too large by themselves.

        Names and texts of hostile stores have any length.
        """
        kept: list[R] = []
        for row in rows:
            size = size_of(row)
            if size > self._left_bytes:
                self.is_cut = True
                if size > self._most_bytes:
                    continue
                break
            self._left_bytes -= size
            kept.append(row)
        return kept


def size_of(value: object) -> int:
    """Return how many bytes *value* takes on the wire: in JSON, where one character may take six."""
    return len(msgspec.json.encode(value)) + 1  # and the comma behind it


def _merged(lists: Mapping[str, Iterable[tuple[_Key, R]]], limit: int) -> tuple[list[tuple[str, R]], bool]:
    """Return the first *limit* rows, and whether there are more; keys are made as rows are reached."""
    keyed = merge(*(_of_store(store, rows) for store, rows in sorted(lists.items())), key=itemgetter(0))
    rows = [(store, row) for _, store, row in islice(keyed, limit + 1)]
    return rows[:limit], len(rows) > limit


def _of_store(store: str, rows: Iterable[tuple[_Key, R]]) -> Iterator[tuple[_Key, str, R]]:
    return (((*key, store), store, row) for key, row in rows)
