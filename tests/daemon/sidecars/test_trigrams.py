"""The index of trigrams and joints: it misses no record, and leaves few that do not match."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from collated.sidecars import trigrams
from collated.sidecars.trigrams import candidates, combine_grams, index_texts

pytestmark = pytest.mark.slow

Arrays = dict[str, NDArray[np.generic]]

LETTERS = st.lists(st.sampled_from([b"a", b"b", b" ", b"\n", b"\x00", b"\xff", "ß".encode()]), max_size=24)
TEXT = st.one_of(
    LETTERS.map(b"".join), st.binary(max_size=12), st.sampled_from([b"", b"ab", b"aaaa", b"abab"])
)
TEXTS = st.lists(TEXT, max_size=14)
NEEDLE = LETTERS.map(lambda letters: b"".join(letters[:7]))


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Texts, and needles many of which stand in one of them."""
    texts = draw(TEXTS)
    needles: list[bytes] = []
    for _ in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(texts)) if texts else b""
        start = draw(st.integers(0, len(text)))
        needles.append(draw(st.one_of(NEEDLE, st.just(text[start : start + draw(st.integers(0, 12))]))))
    return texts, needles


@st.composite
def parts_and_ranges(draw: st.DrawFn) -> list[tuple[list[bytes], list[tuple[int, int]]]]:
    """Several parts' texts, and which ranges of rows are kept, in any order."""
    parts: list[tuple[list[bytes], list[tuple[int, int]]]] = []
    for texts in draw(st.lists(TEXTS, max_size=4)):
        cuts = sorted(draw(st.sets(st.integers(0, len(texts)), max_size=5)))
        ranges = list(pairwise(cuts))
        parts.append((texts, draw(st.permutations(ranges))[: draw(st.integers(0, len(ranges)))]))
    return parts


def trigrams_of(text: bytes) -> set[bytes]:
    return {text[start : start + 3] for start in range(len(text) - 2)}


def rows_with_trigrams(texts: Sequence[bytes], needles: Sequence[bytes]) -> list[int]:
    wanted = set[bytes]().union(*map(trigrams_of, needles))
    return [row for row, text in enumerate(texts) if wanted <= trigrams_of(text)]


def rows_with(texts: Sequence[bytes], needles: Sequence[bytes]) -> set[int]:
    return {row for row, text in enumerate(texts) if all(needle in text for needle in needles)}


def rows_for(arrays: Arrays, *needles: bytes, enough: int = 0) -> list[int]:
    rows = candidates(arrays, needles, enough=enough)
    assert rows is not None
    assert rows.dtype == np.uint32
    return [int(row) for row in rows]


def assert_same(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        assert array.tolist() == other[name].tolist()


def whole(texts: Sequence[bytes]) -> tuple[Arrays, list[tuple[int, int]]]:
    return index_texts(texts), [(0, len(texts))]


def prose(records: int) -> list[bytes]:
    """Records of some 450 bytes whose words are common and rare, as words are."""
    chance = random.Random(20_261)  # noqa: S311 - the same text each time
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(200)
    ]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    return [" ".join(chance.choices(words, weights, k=72)).encode() for _ in range(records)]


@settings(deadline=None)
@given(asked())
@example(([b"", b"ab", b"abc", b"\x00\x00\x00", b"\xff\xff\xff\xff"], [b"\xff\xff\xff", b""]))
def test_no_record_is_missed_and_all_hold_the_trigrams(case: tuple[list[bytes], list[bytes]]) -> None:
    texts, needles = case
    rows = candidates(index_texts(texts), needles, enough=0)
    if rows is None:
        assert all(len(needle) < 3 for needle in needles)
    else:
        assert rows_with(texts, needles) <= set(rows.tolist())
        assert rows.tolist() == sorted(set(rows.tolist()) & set(rows_with_trigrams(texts, needles)))


@settings(deadline=None)
@given(asked())
def test_without_a_space_the_rows_are_those_with_all_trigrams(case: tuple[list[bytes], list[bytes]]) -> None:
    texts, needles = case
    needles = [needle.replace(b" ", b"b") for needle in needles] + [b"aba"]
    assert rows_for(index_texts(texts), *needles) == rows_with_trigrams(texts, needles)


@settings(deadline=None)
@given(asked(), st.integers(0, 20))
def test_a_few_rows_are_enough(case: tuple[list[bytes], list[bytes]], enough: int) -> None:
    texts, needles = case
    arrays = index_texts(texts)
    exact, rows = candidates(arrays, needles, enough=0), candidates(arrays, needles, enough=enough)
    if exact is None or rows is None:
        assert exact is rows
    else:
        assert rows.tolist() == sorted(set(rows.tolist()) | set(exact.tolist()))
        assert rows.size in {exact.size, *range(enough + 1)}


@settings(deadline=None)
@given(parts_and_ranges())
def test_a_combined_index_is_that_of_the_kept_texts(
    parts: list[tuple[list[bytes], list[tuple[int, int]]]],
) -> None:
    combined = combine_grams([(index_texts(texts), ranges) for texts, ranges in parts])
    kept = [text for texts, ranges in parts for first, end in ranges for text in texts[first:end]]
    assert_same(combined, index_texts(kept))


@settings(deadline=None, max_examples=60)  # tens of merges in one case
@given(TEXTS, st.integers(1, 40), st.integers(1, 40))
@example([b"a b c d e f g h"], 1, 1)
@example([b"ab cd", b"", b"ab cd ab cd ab cd", b"cd"], 6, 3)
def test_an_index_is_the_same_however_little_is_looked_at_at_a_time(
    texts: list[bytes], batch_bytes: int, chunk_pairs: int
) -> None:
    at_once = index_texts(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trigrams, "_BATCH_BYTES", batch_bytes)
        patch.setattr(trigrams, "_CHUNK_PAIRS", chunk_pairs)
        assert_same(index_texts(texts), at_once)
        assert_same(combine_grams([whole(texts[:5]), whole(texts[5:])]), at_once)


def test_more_text_than_is_looked_at_at_a_time_is_indexed_whole() -> None:
    once, long = b"needle in a haystack", b"abc cab abc " * 200_000
    texts = [b"abc", long + once + long, *[long[:700_000]] * 4, b"", once]
    arrays = index_texts(iter(texts))
    assert rows_for(arrays, b"needle") == [1, 7]
    assert rows_for(arrays, b"haystack", b"in a") == [1, 7]
    assert rows_for(arrays, b"abc") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("needles", [[], [b""], [b"ab"], [b"ab", b" ", b"\xff\xff"]])
def test_needles_of_fewer_than_three_bytes_say_nothing(needles: list[bytes]) -> None:
    assert candidates(index_texts([b"abc"]), needles) is None


def test_short_needles_beside_a_long_one_do_not_matter() -> None:
    assert rows_for(index_texts([b"xyz abc", b"abd"]), b"q", b"abc", b"") == [0]


@pytest.mark.parametrize("texts", [[], [b""], [b"", b"ab", b""]])
def test_an_index_without_trigrams_has_no_candidates(texts: list[bytes]) -> None:
    assert rows_for(index_texts(texts), b"abc") == []
    assert_same(combine_grams([whole(texts), whole([])]), index_texts([]))


def test_combining_nothing_is_the_index_of_no_texts() -> None:
    assert_same(combine_grams([]), index_texts([]))
    assert_same(combine_grams([(index_texts([b"abc"]), [])]), index_texts([]))


def test_common_words_in_another_order_are_no_candidates() -> None:
    texts = [b"on the contrary", b"the one contrary con to the end", b"the contents"]
    assert rows_with_trigrams(texts, [b"the con"]) == [0, 1, 2]
    assert rows_for(index_texts(texts), b"the con") == [0, 2]


def test_rows_far_apart_are_found() -> None:
    far = [
        0,
        1,
        254,
        255,
        256,
        509,
        510,
        511,
        65_533,
        65_534,
        65_535,
        65_536,
        131_069,
        131_070,
        131_071,
        200_000,
    ]
    texts = [b"every row"] * 200_001
    for row in far:
        texts[row] = b"every far row"
    arrays = index_texts(texts)
    assert rows_for(arrays, b"far") == far
    assert rows_for(arrays, b"every far row") == far
    assert len(rows_for(arrays, b"every")) == len(texts)
    kept = [(row, row + 1) for row in reversed(far)]
    assert rows_for(combine_grams([(arrays, kept), (arrays, [(1, 3)])]), b"far") == list(range(len(far) + 1))


def test_an_index_may_be_read_only_and_lie_at_any_address() -> None:
    texts = prose(300)
    moved: Arrays = {}
    for name, array in index_texts(texts).items():
        buffer = bytes(1) + array.tobytes()
        moved[name] = np.frombuffer(buffer, np.uint8)[1:].view(array.dtype)
    needle = texts[200][40:60]
    assert 200 in rows_for(moved, needle)
    assert_same(combine_grams([(moved, [(0, 300)])]), index_texts(texts))


def test_an_index_is_smaller_than_its_text() -> None:
    texts = prose(2_000)
    parts = [whole(texts[first : first + 200]) for first in range(0, 2_000, 200)]
    text_bytes = sum(map(len, texts))
    apart_bytes = sum(array.nbytes for arrays, _ in parts for array in arrays.values())
    together_bytes = sum(array.nbytes for array in combine_grams(parts).values())
    pairs = sum(len(trigrams_of(text)) for text in texts)
    assert together_bytes < 0.6 * text_bytes
    assert together_bytes < pairs
    assert together_bytes < apart_bytes < text_bytes
