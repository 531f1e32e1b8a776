"""`graph.bin`: all vectors compared, and never trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.model import IndexEntry
from collated_readers.contextful.retrieving.sidecars import Unusable
from collated_readers.contextful.retrieving.sidecars.graph import Graph

Make = Callable[..., tuple[dict[str, Any], str, bytes]]
EntryOf = Callable[[Mapping[str, Any]], IndexEntry]

OF = {
    "a1": [1.0, 0.0, 0.0],
    "a2": [0.0, 1.0, 0.0],
    "a3": [0.6, 0.8, 0.0],
    "é": [0.0, 0.0, -1.0],
    "5": [1.0, 1.0, 1.0],
}


def test_nodes_come_nearest_first_whatever_layers_there_are(vectors: Make, entry_of: EntryOf) -> None:
    for levels in ((), (2,), (3, 1)):
        entry, _, data = vectors(OF, levels=levels)
        graph = Graph(data, entry_of(entry))
        assert graph.ids(graph.ranking([2.0, 0.0, 0.0]).tolist()) == ["a1", "a3", "5", "a2", "é"]


def test_a_question_without_a_direction_finds_nothing(vectors: Make, entry_of: EntryOf) -> None:
    entry, _, data = vectors(OF)
    graph = Graph(data, entry_of(entry))
    assert not len(graph.ranking([0.0, 0.0, 0.0]))
    assert not len(graph.ranking([1e308, 1e308, 1e308]))


FINITE = st.floats(-10, 10).filter(lambda number: abs(number) > 0.01)


@given(
    st.lists(st.lists(FINITE, min_size=2, max_size=2), min_size=1, max_size=20),
    st.lists(FINITE, min_size=2, max_size=2),
)
def test_the_order_is_that_of_exact_cosines(
    vectors: Make, entry_of: EntryOf, some: list[list[float]], query: list[float]
) -> None:
    of = {str(number): vector for number, vector in enumerate(some)}
    entry, _, data = vectors(of)
    graph = Graph(data, entry_of(entry))
    wanted = np.array(query) / np.linalg.norm(query)
    cosines = [
        float(np.array(of[name]) / np.linalg.norm(of[name]) @ wanted)
        for name in graph.ids(graph.ranking(query).tolist())
    ]
    assert len(cosines) == len(of)
    assert all(after <= before + 1e-6 for before, after in pairwise(cosines))


@pytest.mark.rule("sidecar-falls-back")
def test_whatever_byte_is_damaged_it_is_unusable_or_names_what_it_likes(
    vectors: Make, entry_of: EntryOf
) -> None:
    entry, _, data = vectors(OF, levels=(2, 1))
    for place in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF, data[place] ^ 0x10):
            damaged = bytearray(data)
            damaged[place] = value
            with suppress(Unusable):
                graph = Graph(bytes(damaged), entry_of(entry))
                graph.ids(graph.ranking([1.0, 2.0, 3.0]).tolist())


@pytest.mark.rule("sidecar-falls-back")
def test_a_file_that_ends_before_its_identifiers_do_is_unusable(vectors: Make, entry_of: EntryOf) -> None:
    entry, _, data = vectors(OF, levels=(2,))
    for length in range(len(data)):
        with pytest.raises(Unusable):
            graph = Graph(data[:length], entry_of(entry))
            graph.ids(graph.ranking([1.0, 0.0, 0.0]).tolist())


@pytest.mark.rule("sidecar-falls-back")
@pytest.mark.parametrize("other", [{"dim": 4}, {"row_count": 4}])
def test_another_dimension_or_count_than_the_manifest_says_is_unusable(
    vectors: Make, entry_of: EntryOf, other: dict[str, int]
) -> None:
    entry, _, data = vectors(OF)
    with pytest.raises(Unusable):
        Graph(data, entry_of({**entry, **other}))
