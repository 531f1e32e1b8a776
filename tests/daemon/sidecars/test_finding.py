"""What phrases share, and their largest frequencies, are what looking at each of their postings gives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collated.sidecars.combining import combine
from collated.sidecars.finding import Finder, Found, begins
from collated_readers.contract import Phrase

if TYPE_CHECKING:
    from tests.daemon.sidecars.conftest import Model


def _by_slot(found: Found) -> dict[int, list[int]]:
    """Return the frequencies in each slot."""
    freqs = iter(found.freqs.tolist())
    sizes = zip(found.slots.tolist(), found.sizes.tolist(), strict=True)
    return {slot: [next(freqs) for _ in range(size)] for slot, size in sizes}


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_shared_rows_are_those_that_each_phrase_has(model: Model, data: st.DataObject) -> None:
    segment = combine([(store.segment(), [0]) for store in data.draw(model.texts)])
    mask = data.draw(
        st.none() | st.lists(st.booleans(), min_size=len(segment.pieces), max_size=len(segment.pieces))
    )
    finder = Finder(segment, None if mask is None else np.array(mask))
    terms = st.lists(st.sampled_from(model.TERMS[:3]), min_size=1, max_size=2).map(tuple)
    phrases: list[Phrase] = data.draw(st.lists(terms, min_size=1, max_size=3))
    every = [finder.found(phrase) for phrase in phrases]
    shared = finder.shared(phrases)
    rows: list[int] = every[0].rows.tolist()
    assert shared.rows.tolist() == [row for row in rows if all(row in found.rows for found in every)]
    for phrase, found in zip(phrases, every, strict=True):
        if len(shared.rows):
            assert found.every_row[shared.places[phrase]].tolist() == shared.rows.tolist()
        if found.count:
            assert found.peaks().tolist() == [max(freqs) for freqs in _by_slot(found).values()]
        assert found.count == len(found.rows) == len(found.freqs)


@pytest.mark.parametrize("slots", [None, [True, False, True]])
def test_a_rare_word_and_a_common_one_share_their_rows(model: Model, slots: list[bool] | None) -> None:
    def records(first: int) -> dict[str, tuple[str, list[dict[int, bytes]]]]:
        has = {0: b"a", 1: b"gnu"}
        return {
            f"{row:03}": ("a.md", [has if row in (first, first + 70) else {0: b"a"}]) for row in range(100)
        }

    stores = [model.Store(f"f{first}", records(first)) for first in (3, 5, 7)]
    segment = combine([(store.segment(), [0]) for store in stores])
    finder = Finder(segment, None if slots is None else np.array(slots))
    shared = finder.shared([(b"a",), (b"gnu",)])
    expected = [3, 73, 105, 175, 207, 277] if slots is None else [3, 73, 207, 277]
    assert shared.rows.tolist() == expected
    for phrase, places in shared.places.items():
        assert finder.found(phrase).every_row[places].tolist() == expected
    assert finder.found((b"a", b"gnu")).rows.tolist() == expected
    assert finder.shared([(b"a",), (b"absent",)]).rows.tolist() == []
    assert finder.shared([(b"a",), (b"gnu", b"a")]).rows.tolist() == []


def _runs(values: list[int]) -> Iterator[tuple[int, int]]:
    """Yield where each run of equal *values* begins, and how long it is."""
    first = 0
    for _, run in groupby(values):
        length = len(list(run))
        yield first, length
        first += length


@given(st.lists(st.integers(0, 2), min_size=1))
def test_runs_of_equal_values_begin_where_the_value_changes(values: list[int]) -> None:
    expected = list(_runs(values))
    assert [each.tolist() for each in begins(np.array(values))] == list(
        map(list, zip(*expected, strict=True))
    )
