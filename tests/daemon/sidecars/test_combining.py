"""Segments made into one say what they said apart, in whatever order and grouping they were combined."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collated.sidecars.combining import combine
from collated.sidecars.segment import Segment
from collated.sidecars.trigrams import candidates

if TYPE_CHECKING:
    from tests.daemon.sidecars.conftest import Grouped, Model, Plain


def _whole(segments: list[Segment], chunk: int | None = None) -> Segment:
    parts = [(segment, range(len(segment.pieces))) for segment in segments]
    return combine(parts) if chunk is None else combine(parts, chunk=chunk)


def _stores_in(segment: Segment, stores: list[Plain]) -> list[Plain]:
    by_fingerprint = {store.fingerprint: store for store in stores}
    return [by_fingerprint[piece.fingerprint] for piece in segment.pieces]


def _rows_that_may_hold(segment: Segment, needle: str) -> list[str]:
    found = candidates(segment.arrays, [needle.encode()], enough=0)
    assert found is not None
    return [segment.id(row) for row in found.tolist()]


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_segments_say_the_same_in_whatever_steps_they_are_combined(
    model: Model, grouped: Grouped, data: st.DataObject
) -> None:
    stores = data.draw(model.stores)
    parts = grouped(data, [store.segment() for store in stores])
    for part in [*parts, _whole(parts, data.draw(st.sampled_from([None, 1, 2, 3, 7])))]:
        assert model.told(part) == model.expected(_stores_in(part, stores))


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_what_is_dropped_leaves_no_trace(model: Model, grouped: Grouped, data: st.DataObject) -> None:
    stores = data.draw(model.stores)
    parts = grouped(data, [store.segment() for store in stores])
    slots = [st.lists(st.sampled_from(range(len(part.pieces))), unique=True) for part in parts]
    kept = [data.draw(each) for each in slots]

    left = combine(list(zip(parts, kept, strict=True)))

    expected = [
        _stores_in(part, stores)[slot] for part, slots in zip(parts, kept, strict=True) for slot in slots
    ]
    assert model.told(left) == model.expected(expected)
    # Also when it is combined again.
    assert model.told(_whole([left, left])) == model.expected(expected * 2)


def test_terms_of_dropped_stores_go_with_them(model: Model) -> None:
    one = model.Store("one", {"1": ("a.md", [{0: b"plumless", 1: b"whale"}])})
    other = model.Store("other", {"1": ("a.md", [{0: b"buckeroo", 1: b"whale"}])})
    both = _whole([one.segment(), other.segment()])
    assert len(both.terms()) == 3
    left = combine([(both, [1])])
    assert sorted(left.terms()) == [b"buckeroo", b"whale"]
    assert left.find(b"plumless") == -1
    assert model.told(left) == model.expected([other])


def test_slots_are_taken_in_the_order_given(model: Model) -> None:
    stores = [model.Store(each, {each: (f"{each}.md", [{0: b"whale", 1: each.encode()}])}) for each in "abc"]
    whole = _whole([each.segment(has_texts=True) for each in stores])
    for slots in permutations(range(3)):
        assert model.told(combine([(whole, slots)])) == model.expected([stores[slot] for slot in slots])


@pytest.mark.parametrize("parts", [1, 2])
def test_nothing_left_is_a_segment_of_no_store(model: Model, parts: int) -> None:
    store = model.Store("f", {"1": ("a.md", [{0: b"whale"}])})
    dropped: list[int] = []
    left = combine([(store.segment(has_texts=True), dropped)] * parts)
    assert model.told(left) == model.expected([])
    assert left.find(b"whale") == -1
    again = _whole([left, store.segment(has_texts=True)])
    assert model.told(again) == model.expected([store])


def test_stores_of_no_records_take_a_slot_each(model: Model) -> None:
    empty = model.Store("empty", {})
    store = model.Store("f", {"1": ("a.md", [{0: b"whale"}]), "2": ("a.md", [{}])})
    stores = [empty, store, empty, empty, store, empty]
    whole = _whole([each.segment() for each in stores])
    assert model.told(whole) == model.expected(stores)
    assert whole.slots_of(np.arange(whole.size)).tolist() == [1, 1, 4, 4]
    assert model.told(_whole([empty.segment(), empty.segment()])) == model.expected([empty, empty])


def test_positions_of_two_bytes_and_of_four_become_one_kind(model: Model) -> None:
    short = model.Store("short", {"1": ("a.md", [{0: b"whale", 7: b"a"}, {32766: b"whale"}])})
    wide = model.Store("wide", {"1": ("a.md", [{0: b"whale"}, {32767: b"whale"}])})
    assert short.segment().positions.dtype == np.uint16
    mixed = _whole([short.segment(), wide.segment()])
    assert mixed.positions.dtype == np.uint32
    assert model.told(mixed) == model.expected([short, wide])
    assert model.told(combine([(mixed, [0])])) == model.expected([short])
    assert _whole([short.segment(), short.segment()]).positions.dtype == np.uint16


@pytest.mark.parametrize("chunk", [1, 2, 63, 64, 65, 191, 192, 193, 1000])
def test_it_is_moved_in_chunks_of_any_size(model: Model, chunk: int) -> None:
    stores = [
        model.Store(f"f{number}", {f"{row}": ("a.md", [{0: b"whale", 1: b"a"}]) for row in range(32)})
        for number in range(3)
    ]
    assert model.told(_whole([each.segment() for each in stores], chunk)) == model.expected(stores)


def test_many_stores_take_slots_of_two_bytes(model: Model) -> None:
    one = model.Store("f", {"1": ("a.md", [{0: b"whale"}])})
    whole = _whole([one.segment()] * 300)
    assert model.told(whole) == model.expected([one] * 300)


# --------------------------------------------------------------------------- texts


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_it_is_still_known_which_texts_may_hold_a_literal(
    model: Model, grouped: Grouped, data: st.DataObject
) -> None:
    words = st.text("abc", min_size=3, max_size=6)
    every = data.draw(st.lists(st.sets(words, max_size=4), min_size=1, max_size=4))
    stores = [
        model.Store(f"f{number}", {each: ("a.md", [{}]) for each in ids}) for number, ids in enumerate(every)
    ]
    needle = data.draw(words)[:3]
    for part in grouped(data, [store.segment(has_texts=True) for store in stores]):
        assert part.has_texts
        texts = [each for store in _stores_in(part, stores) for each in store.ids]
        assert _rows_that_may_hold(part, needle) == [each for each in texts if needle in each]


def test_where_one_store_is_without_texts_so_is_the_whole(model: Model) -> None:
    stores = [model.Store(name, {"whale": ("a.md", [{0: b"whale"}])}) for name in ("one", "other")]
    one, other = stores
    for flags in ((True, False), (False, True), (False, False)):
        parts = [each.segment(has_texts=flag) for each, flag in zip((one, other), flags, strict=True)]
        whole = _whole(parts)
        assert not whole.has_texts
        assert model.told(whole) == model.expected(stores)
