"""The order of what code stores and vector stores answer, as key tuples. Pure; see `merge` for the rest.

A row's place depends on the row, its store and its place in that store's own list, and on nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct

from collated_readers.code import DEPTH_LIMITS, How, Impact, Node, Reference, References, Symbol, Symbols
from collated_readers.vectors import Similar, VectorFacts

__all__ = [
    "MOST_BYTES",
    "Near",
    "are_alike",
    "bounded",
    "merge_files",
    "merge_near",
    "merge_nodes",
    "merge_references",
    "merge_symbols",
]

T = TypeVar("T", bound=Struct)
R = TypeVar("R", bound=Struct)

MOST_BYTES = 4 * 1024 * 1024
"""What the rows of one answer take on the wire at most, but for a single row that is larger."""

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
    rows = _in_order({store: answer.symbols for store, answer in best.items()}, _symbol_key)
    return how, rows[:limit], len(rows) > limit or any(each.is_truncated for each in best.values())


def _symbol_key(symbol: Symbol) -> tuple[Any, ...]:
    return (symbol.name, symbol.path, symbol.line_start)


def merge_references(
    answers: Mapping[str, References], limit: int
) -> tuple[list[tuple[str, Reference]], bool]:
    """Return the first *limit* references of all stores, and whether there are more.

    By path, line, kind and store; then what a call may mean or not, by its place in its own store's list.
    """
    every = [
        (place, store, reference)
        for store, answer in answers.items()
        for place, reference in _placed(answer.references)
    ]
    rows = [(store, row) for _, store, row in sorted(every, key=lambda each: _reference_key(*each))]
    return rows[:limit], len(rows) > limit or any(each.is_truncated for each in answers.values())


def _placed(references: Sequence[Reference]) -> Iterable[tuple[int, Reference]]:
    """Return each reference with its place among those that are sure, or among those that are not."""
    sure = [each for each in references if each.kind != _POSSIBLE]
    yield from enumerate(sure)
    yield from enumerate(each for each in references if each.kind == _POSSIBLE)


def _reference_key(place: int, store: str, reference: Reference) -> tuple[Any, ...]:
    if reference.kind == _POSSIBLE:  # likely ones first, as their reader knows them
        return (True, place, reference.path, reference.line, store)
    return (False, reference.path, reference.line, reference.kind, store, place)


def merge_nodes(answers: Mapping[str, Impact], limit: int) -> tuple[list[tuple[str, Node]], bool]:
    """Return the first *limit* nodes of all stores, and whether there are more."""
    rows = _in_order({store: answer.nodes for store, answer in answers.items()}, _node_key)
    return rows[:limit], len(rows) > limit or any(each.is_truncated for each in answers.values())


def _node_key(node: Node) -> tuple[Any, ...]:
    return (
        node.distance,
        _CONFIDENCE.get(node.via_confidence, len(_CONFIDENCE)),
        node.path,
        node.kind,
        node.name,
        -1 if node.line_start is None else node.line_start,
        node.via_edge,
    )


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
    return len({(near.facts.metric, near.facts.model.casefold()) for near in answers}) <= 1


def merge_near(answers: Mapping[str, Near], limit: int) -> list[tuple[str, Similar]]:
    """Return the best *limit* hits: by score, id and store where scores can be compared.

    Else by reciprocal rank, which is by the place in the store's own list, then id and store (DESIGN §5).
    """
    is_by_score = are_alike(near for near in answers.values() if near.hits)
    every = [
        (_score_key(near.facts, hit) if is_by_score else place, hit.id, store, hit)
        for store, near in answers.items()
        for place, hit in enumerate(near.hits)
    ]
    return [(store, hit) for _, _, store, hit in sorted(every, key=lambda each: each[:3])[:limit]]


def _score_key(facts: VectorFacts, hit: Similar) -> float:
    return -hit.score if facts.direction == "higher" else hit.score


def bounded(rows: Iterable[R], most_bytes: int = MOST_BYTES) -> tuple[list[R], bool]:
    """Return the first of *rows* that take no more than *most_bytes* encoded, one at least.

    And whether any were left out: names and texts of hostile stores have any length.
    """
    kept: list[R] = []
    for row in rows:
        most_bytes -= len(msgspec.msgpack.encode(row))
        if most_bytes < 0 and kept:
            return kept, True
        kept.append(row)
    return kept, False


def _in_order(lists: Mapping[str, Sequence[T]], key: Callable[[T], tuple[Any, ...]]) -> list[tuple[str, T]]:
    every = [
        ((*key(row), store, place), store, row)
        for store, rows in lists.items()
        for place, row in enumerate(rows)
    ]
    return [(store, row) for _, store, row in sorted(every, key=lambda each: each[0])]
