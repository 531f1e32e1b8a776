"""A segment of one store says what the store's postings say."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collated.sidecars.segment import narrow, packed, ranges, widened
from collated_readers.postings import COLUMN_SHIFT

if TYPE_CHECKING:
    from tests.daemon.sidecars.conftest import Model


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_segment_says_what_the_store_says(model: Model, data: st.DataObject) -> None:
    store = data.draw(model.stores)[0]
    segment = store.segment(has_texts=data.draw(st.booleans()))

    assert model.told(segment) == model.expected([store])
    assert segment.format == "plain"
    assert segment.size == len(store.records)
    assert segment.totals.tolist() == [[len(store.records)], [sum(store.lengths)]]
    assert [segment.id(row) for row in range(segment.size)] == store.ids

    terms = segment.terms()
    assert sorted(terms) == sorted({term for term, _, _ in store.instances()})
    for term in model.TERMS:
        place = segment.find(term)
        assert place == (terms.index(term) if term in terms else -1)
        assert place < 0 or segment.term(place) == term
    assert segment.find(b"absent") == segment.find(b"") == -1


def test_terms_of_one_crc_are_told_apart(model: Model) -> None:
    one, other = b"plumless", b"buckeroo"
    assert crc32(one) == crc32(other)
    both = model.Store("f", {"1": ("a.md", [{0: one, 1: other, 2: b"whale"}])}).segment()
    assert both.term(both.find(one)) == one
    assert both.term(both.find(other)) == other
    assert both.find(one) != both.find(other)

    alone = model.Store("f", {"1": ("a.md", [{0: one}])}).segment()
    assert alone.find(one) == 0
    assert alone.find(other) == -1


@pytest.mark.parametrize(
    ("column", "offset", "width"),
    [(0, 32766, 2), (1, 32766, 2), (0, 32767, 4), (1, 32767, 4), (2, 0, 4), (3, (1 << 24) - 2, 4), (0, 0, 2)],
)
def test_positions_take_two_bytes_where_they_fit(model: Model, column: int, offset: int, width: int) -> None:
    columns = [{offset: b"whale"} if number == column else {} for number in range(column + 1)]
    store = model.Store("f", {"1": ("a.md", columns)}, weights=(5, 4, 3, 2))
    segment = store.segment()
    assert segment.positions.dtype.itemsize == width
    assert widened(segment.positions).tolist() == [column << COLUMN_SHIFT | offset]
    assert segment.freqs.tolist() == [store.weights[column]]
    assert model.told(segment) == model.expected([store])


@pytest.mark.parametrize("has_texts", [True, False])
def test_a_store_of_no_records_is_a_segment_too(model: Model, has_texts: bool) -> None:
    store = model.Store("f", {})
    segment = store.segment(has_texts=has_texts)
    assert model.told(segment) == model.expected([store])
    assert segment.size == 0
    assert [*segment.terms(), *segment.ids(), *segment.docs()] == []
    assert segment.find(b"whale") == -1
    assert segment.rows_within(("a.md",), lambda path: True).tolist() == []
    assert segment.has_texts is has_texts


def test_many_instances_in_one_record_are_counted(model: Model) -> None:
    often = dict.fromkeys(range(300), b"whale")
    segment = model.Store("f", {"1": ("a.md", [often, often])}, weights=(1000, 1)).segment()
    assert segment.counts.tolist() == [600]
    assert segment.freqs.tolist() == [300 * 1000 + 300]


def test_ids_are_ordered_as_their_bytes(model: Model) -> None:
    ids = ["#10", "#2", "é", "\ud800", "\ue000", "\U0001f40b"]
    segment = model.Store("f", {each: ("\udcff.md", [{}]) for each in reversed(ids)}).segment()
    assert [segment.id(row) for row in range(len(ids))] == ids
    assert segment.docs() == ["\udcff.md"]


def test_a_path_filter_tells_of_each_row_and_is_remembered_a_while(model: Model) -> None:
    segment = model.Store("f", {"1": ("a.md", [{}]), "2": ("b.md", [{}]), "3": ("a.md", [{}])}).segment()
    asked: list[str] = []

    def is_a(path: str) -> bool:
        asked.append(path)
        return path == "a.md"

    assert segment.rows_within(("a.md",), is_a).tolist() == [True, False, True]
    assert segment.rows_within(("a.md",), is_a).tolist() == [True, False, True]
    assert asked == ["a.md", "b.md"]  # each document once, and not again
    for number in range(20):
        assert not segment.rows_within((f"{number}",), lambda path: False).any()
    assert segment.rows_within(("b.md",), lambda path: path == "b.md").tolist() == [False, True, False]
    assert segment.rows_within(("a.md",), is_a).tolist() == [True, False, True]
    assert asked == ["a.md", "b.md"] * 2


# --------------------------------------------------------------------------- its parts


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5))))
def test_ranges_are_laid_one_after_the_other(drawn: list[tuple[int, int]]) -> None:
    starts, lengths = (np.array(each, np.int64) for each in ([d[0] for d in drawn], [d[1] for d in drawn]))
    expected = [at for start, length in drawn for at in range(start, start + length)]
    assert ranges(starts, lengths).tolist() == expected
    assert ranges(starts.astype(np.uint32), lengths).tolist() == expected


@pytest.mark.parametrize(
    ("largest", "size"), [(0, 1), (255, 1), (256, 2), (65535, 2), (65536, 4), (2**32 - 1, 4), (2**32, 8)]
)
def test_numbers_take_no_more_bytes_than_they_need(largest: int, size: int) -> None:
    values = np.array([0, largest])
    assert narrow(values).itemsize == size
    assert narrow(values).tolist() == values.tolist()
    assert narrow(values, np.uint32).itemsize == max(4, size)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.binary(max_size=3)))
def test_strings_are_packed_end_to_end(values: list[bytes]) -> None:
    arrays = packed("x", values)
    starts = arrays["x_starts"].tolist()
    data = arrays["x_bytes"].tobytes()
    assert [data[first:last] for first, last in pairwise(starts)] == values
