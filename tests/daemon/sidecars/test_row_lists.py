"""Packed lists of rows: what goes in comes out, in as few bytes as the three forms allow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from collated.sidecars.row_lists import ROW_BITS, RowLists, common, most_pairs, pack, starts_of, unpack

Lists = dict[int, set[int]]

# Gaps around the values that one and two bytes cannot hold.
ROWS = st.one_of(
    st.integers(0, 40), st.integers(250, 515), st.integers(65_530, 65_540), st.integers(131_060, 131_080)
)
KEYS = st.one_of(st.integers(0, 5), st.integers((1 << 28) - 3, (1 << 28) - 1))
LISTS = st.dictionaries(KEYS, st.sets(ROWS, min_size=1), max_size=6)


def packed(lists: Lists, total_rows: int) -> RowLists:
    pairs = sorted(key << ROW_BITS | row for key, rows in lists.items() for row in rows)
    return pack(np.array(pairs, np.int64), total_rows)


def unpacked(lists: RowLists, first: int, end: int) -> Lists:
    found: Lists = {}
    for pair in unpack(lists, first, end).tolist():
        found.setdefault(pair >> ROW_BITS, set()).add(pair & (1 << ROW_BITS) - 1)
    return found


def least_rows(lists: Lists) -> int:
    return max((row + 1 for rows in lists.values() for row in rows), default=0)


def keys_of(keys: set[int]) -> NDArray[np.int64]:
    return np.array(sorted(keys), np.int64)


def shared_rows(lists: Lists, keys: set[int]) -> list[int]:
    every_row = set[int]().union(*lists.values())
    return sorted(row for row in every_row if all(row in lists.get(key, ()) for key in keys))


@settings(deadline=None)
@given(LISTS, st.integers(0, 200_000))
@example({}, 0)
@example({3: {0}}, 0)
@example({3: set(range(300)), 4: {254}, 5: {255}, 6: {65_534}, 7: {65_535}, 8: {131_070}}, 0)
def test_lists_come_out_as_they_went_in(lists: Lists, further_rows: int) -> None:
    rows = packed(lists, least_rows(lists) + further_rows)
    assert unpacked(rows, 0, rows.heads.size) == lists
    assert rows.keys().tolist() == sorted(lists)


@settings(deadline=None)
@given(LISTS, st.data())
def test_some_of_the_lists_come_out_alone(lists: Lists, data: st.DataObject) -> None:
    rows = packed(lists, least_rows(lists))
    first = data.draw(st.integers(0, len(lists)))
    end = data.draw(st.integers(first, len(lists)))
    assert unpacked(rows, first, end) == {key: lists[key] for key in sorted(lists)[first:end]}


@settings(deadline=None)
@given(LISTS)
def test_no_list_has_more_pairs_than_is_said(lists: Lists) -> None:
    most = most_pairs(packed(lists, least_rows(lists))).tolist()
    assert all(len(lists[key]) <= bound for key, bound in zip(sorted(lists), most, strict=True))


@settings(deadline=None)
@given(LISTS, st.integers(0, 200_000))
def test_each_list_takes_the_fewest_bytes_of_three_forms(lists: Lists, further_rows: int) -> None:
    total_rows = least_rows(lists) + further_rows
    sizes = np.diff(packed(lists, total_rows).starts).tolist()
    for key, size in zip(sorted(lists), sizes, strict=True):
        last = max(lists[key])
        assert size <= (total_rows + 7) // 8
        assert size <= len(lists[key]) + last // 255
        assert size <= 2 * (len(lists[key]) + last // 65_535)


@settings(deadline=None)
@given(LISTS, st.sets(KEYS, min_size=1, max_size=4), st.integers(0, 200_000))
def test_common_rows_are_those_of_every_list(lists: Lists, keys: set[int], further_rows: int) -> None:
    rows = common(packed(lists, least_rows(lists) + further_rows), keys_of(keys), 0)
    assert rows.dtype == np.uint32
    assert rows.tolist() == shared_rows(lists, keys)


@settings(deadline=None)
@given(LISTS, st.sets(KEYS, min_size=1, max_size=4), st.integers(0, 30))
def test_common_rows_are_never_too_few_and_too_many_only_if_they_are_enough(
    lists: Lists, keys: set[int], enough: int
) -> None:
    rows = common(packed(lists, least_rows(lists)), keys_of(keys), enough).tolist()
    exact = shared_rows(lists, keys)
    assert rows == sorted(set(rows) | set(exact))
    assert rows == exact or len(rows) <= enough


@pytest.mark.parametrize(
    ("last", "kind"), [(255, np.uint8), (256, np.uint16), (65_535, np.uint16), (65_536, np.uint32)]
)
def test_starts_take_as_few_bytes_as_they_can(last: int, kind: type[np.unsignedinteger]) -> None:
    starts = starts_of(np.array([last - 3, 3]))
    assert starts.dtype == kind
    assert starts.tolist() == [0, last - 3, last]


def test_starts_beyond_four_gigabytes_are_kept() -> None:
    assert starts_of(np.array([1 << 32, 5])).tolist() == [0, 1 << 32, (1 << 32) + 5]
