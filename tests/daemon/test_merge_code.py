"""The order of what code and vector stores answer: total, and the same whatever store answers first."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated import merge_code
from collated.merge_code import Near, Room, merge_near, size_of
from collated_readers.code import Impact, Node, Reference, References, Symbol, Symbols
from collated_readers.vectors import Direction, Metric, Similar, VectorFacts

T = TypeVar("T")

names = st.sampled_from(["get", "get_all", "é", "\uffff", "\U0001f600"])
paths = st.sampled_from(["a.py", "a/b.py", "B.py", "é.py"])
lines = st.integers(1, 3)
confidences = st.sampled_from([None, "extracted", "inferred", "ambiguous", "guessed"])
stores = st.sampled_from(["s", "s-1", "t", "a.b"])
limits = st.integers(1, 12)

symbols = st.builds(
    Symbol,
    name=names,
    qualified=st.none(),
    kind=st.sampled_from(["class", "function"]),
    path=paths,
    line_start=lines,
    line_end=st.just(9),
    sha256=st.just("0"),
)
references = st.builds(
    Reference,
    path=paths,
    line=lines,
    kind=st.sampled_from(["call", "definition", "possible_call"]),
    confidence=confidences,
    target=st.none(),
    receiver=st.none(),
    caller=names,
    sha256=st.just("0"),
)
nodes = st.builds(
    Node,
    kind=st.sampled_from(["file", "symbol"]),
    path=paths,
    name=names,
    line_start=st.none() | lines,
    distance=st.integers(1, 2),
    via_edge=st.sampled_from(["call", "import"]),
    via_confidence=confidences,
    sha256=st.just("0"),
)


def of_stores(answers: st.SearchStrategy[T]) -> st.SearchStrategy[dict[str, T]]:
    return st.dictionaries(stores, answers)


many_symbols = of_stores(
    st.builds(
        Symbols,
        st.lists(symbols, max_size=5).map(tuple),
        how=st.sampled_from(["exact", "prefix", "member"]),
    )
)
many_references = of_stores(st.builds(References, st.lists(references, max_size=5).map(tuple)))
many_impacts = of_stores(
    st.builds(Impact, st.lists(nodes, max_size=5).map(tuple), st.lists(paths, max_size=3).map(tuple))
)

FACTS: Sequence[VectorFacts] = (
    VectorFacts("small", 2, "dot", "higher"),
    VectorFacts("Small", 2, "dot", "higher"),
    VectorFacts("small", 2, "l2", "lower"),
    VectorFacts("other", 2, "dot", "higher"),
)
similar = st.builds(
    Similar,
    id=st.sampled_from(["1", "2", "é", "\U0001f600"]),
    doc=st.just("d"),
    heading_path=st.just(""),
    text=st.just("t"),
    score=st.sampled_from([-1.0, 0.0, 0.25, 0.5]),
)
near = st.builds(
    Near, st.sampled_from(FACTS), st.lists(similar, max_size=4, unique_by=lambda s: s.id).map(tuple)
)
many_near = of_stores(near)

MERGES: list[tuple[str, st.SearchStrategy[Any]]] = [
    ("merge_symbols", many_symbols),
    ("merge_references", many_references),
    ("merge_nodes", many_impacts),
    ("merge_files", many_impacts),
    ("merge_near", many_near),
]
each_merge = pytest.mark.parametrize(("name", "answers"), MERGES)


def merged(name: str, answers: Mapping[str, Any], limit: int) -> list[tuple[str, Any]]:
    """Return the rows of a merge."""
    result = getattr(merge_code, name)(answers, limit)
    if name == "merge_near":
        return list(result)
    return list(result[-2])


# --------------------------------------------------------------------------- what holds for all of them


@each_merge
@given(data=st.data(), by=st.randoms(use_true_random=False), limit=limits)
def test_the_order_of_arrival_changes_nothing(
    name: str, answers: st.SearchStrategy[Any], data: st.DataObject, by: random.Random, limit: int
) -> None:
    every = data.draw(answers)
    order = list(every)
    by.shuffle(order)

    assert merged(name, {store: every[store] for store in order}, limit) == merged(name, every, limit)


@each_merge
@given(data=st.data(), limit=limits)
def test_a_limit_gives_the_beginning_of_what_a_larger_one_gives(
    name: str, answers: st.SearchStrategy[Any], data: st.DataObject, limit: int
) -> None:
    every = data.draw(answers)

    assert merged(name, every, limit) == merged(name, every, limit + 1)[:limit]


@each_merge
@given(data=st.data())
def test_a_store_that_is_left_out_takes_its_own_rows_along_and_no_others(
    name: str, answers: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    every = data.draw(answers.filter(bool))
    dropped = data.draw(st.sampled_from(sorted(every)))
    rest = {store: answer for store, answer in every.items() if store != dropped}
    is_of_one_kind = name not in ("merge_symbols", "merge_near")

    left = merged(name, rest, 99)

    if is_of_one_kind or _kind(name, rest) == _kind(name, every):
        assert left == [row for row in merged(name, every, 99) if row[0] != dropped]


def _kind(name: str, answers: Mapping[str, Any]) -> object:
    """Return how the rows were found, or whether scores are compared: one store can change that."""
    if name == "merge_symbols":
        return merge_code.merge_symbols(answers, 1)[0]
    return merge_code.are_alike(answers.values())


# --------------------------------------------------------------------------- symbols


def symbol(name: str, path: str = "a.py", line: int = 1, qualified: str | None = None) -> Symbol:
    return Symbol(name, qualified, "function", path, line, line + 1, "0")


def test_only_what_was_found_in_the_best_way_is_shown() -> None:
    answers = {
        "a": Symbols((symbol("get_all"),), "prefix"),
        "b": Symbols((symbol("get"),), "exact"),
        "c": Symbols((), "exact"),
    }

    assert merge_code.merge_symbols(answers, 9) == ("exact", [("b", symbol("get"))], False)
    del answers["b"]
    assert merge_code.merge_symbols(answers, 9) == ("prefix", [("a", symbol("get_all"))], False)
    assert merge_code.merge_symbols({}, 9) == (None, [], False)


def test_symbols_come_by_name_path_line_and_store() -> None:
    same = symbol("get", "b.py", 3)
    answers = {
        "z": Symbols((symbol("get", "a.py", 5), same)),
        "a": Symbols((symbol("get", "a.py", 40), same)),
    }

    rows = merge_code.merge_symbols(answers, 9)[1]

    assert [(store, each.path, each.line_start) for store, each in rows] == [
        *[("z", "a.py", 5), ("a", "a.py", 40)],
        *[("a", "b.py", 3), ("z", "b.py", 3)],
    ]


def test_symbols_that_differ_in_nothing_that_orders_keep_their_stores_order() -> None:
    first, second = symbol("get", qualified="B.get"), symbol("get", qualified="A.get")

    assert [each for _, each in merge_code.merge_symbols({"s": Symbols((first, second))}, 9)[1]] == [
        first,
        second,
    ]


@pytest.mark.parametrize(
    ("limit", "is_truncated", "more"), [(2, False, False), (1, False, True), (2, True, True)]
)
def test_whether_there_are_more_is_told(limit: int, is_truncated: bool, more: bool) -> None:
    two = Symbols((symbol("a"), symbol("b")), is_truncated=is_truncated)

    assert merge_code.merge_symbols({"s": two}, limit)[2] is more


# --------------------------------------------------------------------------- the graph


def node_key(each: Node) -> tuple[Any, ...]:
    order = ["extracted", "inferred", "ambiguous"]
    confidence = order.index(each.via_confidence) if each.via_confidence in order else 3
    line = -1 if each.line_start is None else each.line_start
    return (each.distance, confidence, each.path, each.kind, each.name, line, each.via_edge)


@given(many_impacts)
def test_nodes_come_by_distance_and_confidence_first(answers: dict[str, Impact]) -> None:
    in_order = {
        store: msgspec.structs.replace(answer, nodes=tuple(sorted(answer.nodes, key=node_key)))
        for store, answer in answers.items()
    }

    keys = [(*node_key(each), store) for store, each in merge_code.merge_nodes(in_order, 99)[0]]

    assert all(first <= second for first, second in pairwise(keys))


@given(many_impacts, stores)
def test_a_stores_own_list_stays_as_it_is(answers: dict[str, Impact], store: str) -> None:
    own = [each for name, each in merge_code.merge_nodes(answers, 99)[0] if name == store]

    assert own == list(answers[store].nodes if store in answers else ())


def test_a_file_of_two_projects_is_named_for_each_and_once() -> None:
    answers = {"b": Impact((), ("x.py", "x.py")), "a": Impact((), ("x.py", "y.py"))}

    assert merge_code.merge_files(answers, 2) == ([("a", "x.py"), ("b", "x.py")], True)
    assert merge_code.merge_files(answers, 3)[1] is False


def test_files_come_nearest_first() -> None:
    far, near = (
        Node("symbol", path, "f", 1, at, "call", None, "0") for path, at in (("a.py", 2), ("z.py", 1))
    )
    answers = {"s": Impact((far, near), ("a.py", "z.py", "unknown.py"))}

    assert [path for _, path in merge_code.merge_files(answers, 9)[0]] == ["z.py", "a.py", "unknown.py"]


def test_calls_that_may_mean_something_else_come_last_in_their_stores_order() -> None:
    def call(path: str, kind: str = "possible_call") -> Reference:
        return Reference(path, 1, kind, None, None, None, None, "0")

    answers = {
        "b": References((call("m.py", "call"), call("z.py"), call("b.py"))),
        "a": References((call("n.py", "call"), call("y.py"))),
    }

    assert [(store, each.path) for store, each in merge_code.merge_references(answers, 9)[0]] == [
        *[("b", "m.py"), ("a", "n.py")],
        *[("a", "y.py"), ("b", "z.py"), ("b", "b.py")],
    ]


# --------------------------------------------------------------------------- vectors


def found(metric: Metric, direction: Direction, *scores: float, model: str = "small") -> Near:
    hits = (Similar(f"{model}{score}", "d", "", "t", score) for score in scores)
    return Near(VectorFacts(model, 2, metric, direction), tuple(hits))


@pytest.mark.parametrize(
    ("metric", "direction", "expected"),
    [("cosine", "higher", [0.9, 0.8, 0.2, 0.1]), ("l2", "lower", [0.1, 0.2, 0.8, 0.9])],
)
def test_scores_of_one_kind_are_compared_in_their_own_direction(
    metric: Metric, direction: Direction, expected: list[float]
) -> None:
    is_falling = direction == "higher"
    answers = {
        "a": found(metric, direction, *sorted([0.1, 0.9], reverse=is_falling)),
        "b": found(metric, direction, *sorted([0.2, 0.8], reverse=is_falling)),
    }

    assert [hit.score for _, hit in merge_near(answers, 9)] == expected


def test_scores_of_two_kinds_are_never_compared() -> None:
    answers = {
        "a": found("dot", "higher", 0.2, 0.1),
        "b": found("dot", "higher", 90.0, 80.0, model="other"),
        "c": found("l2", "lower", 1.0),
    }

    assert [(store, hit.score) for store, hit in merge_near(answers, 9)] == [
        *[("b", 90.0), ("a", 0.2), ("c", 1.0)],
        *[("b", 80.0), ("a", 0.1)],
    ]


# --------------------------------------------------------------------------- sizes


def test_rows_are_taken_while_there_is_room_for_them() -> None:
    rows = [symbol("x" * 100), symbol("y" * 100), symbol("z")]
    size = size_of(rows[0])
    for most, expected in ((3 * size, rows), (2 * size, rows[:2]), (2 * size - 1, rows[:1])):
        room = Room(most)
        assert (room.take(rows), room.is_cut) == (expected, len(expected) < 3)
    assert Room(0).take([]) == []


def test_a_row_that_never_fits_hides_no_other() -> None:
    rows = [symbol("x" * 1_000), symbol("y"), symbol("z")]
    room = Room(size_of(rows[0]) - 1)
    assert (room.take(rows), room.is_cut) == (rows[1:], True)


def test_two_lists_share_the_room() -> None:
    rows = [symbol("x"), symbol("y"), symbol("z")]
    room = Room(3 * size_of(rows[0]))
    assert (room.take(rows[:2]), room.is_cut) == (rows[:2], False)
    assert (room.take(rows), room.is_cut) == (rows[:1], True)


def test_a_control_character_counts_as_what_it_takes() -> None:
    assert size_of("\x01" * 100) == len(msgspec.json.encode("\x01" * 100)) + 1 > 600
