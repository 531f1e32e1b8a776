"""Filters against sets of terms: never no to what a store holds, seldom yes to what it does not."""

from __future__ import annotations

import hashlib
import random
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.filters import Filters, make_filter

Phrases = Sequence[tuple[bytes, ...]]
Vocabulary = frozenset[bytes]
Step = tuple[str, Vocabulary | None, bool]


def numbers(seed: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(seed * count, seed * count + count)]


def words(seed: int, count: int) -> list[bytes]:
    return [hashlib.blake2b(number, digest_size=6).hexdigest().encode() for number in numbers(seed, count)]


terms = st.binary(max_size=2)
phrases = st.lists(st.lists(terms, max_size=3).map(tuple), max_size=6)
# Small ones share terms; large ones have filters of other sizes.
vocabularies = st.frozensets(terms, max_size=8) | st.integers(1, 500).map(lambda n: frozenset(numbers(0, n)))
paths = st.sampled_from([f"/{number}" for number in range(12)])
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(paths, st.none() | vocabularies, st.booleans()), max_size=20
)


def filled(stores: dict[str, Vocabulary | None]) -> Filters:
    filters = Filters()
    for path, vocabulary in stores.items():
        filters.put(path, None if vocabulary is None else make_filter(vocabulary))
    return filters


def says_yes(filters: Filters, path: str, asked: Phrases) -> bool:
    return bool(filters.may_match(asked)[filters.slots_of([path])[0]])


def holds(vocabulary: Vocabulary | None, asked: Phrases) -> bool:
    return vocabulary is None or any(phrase and vocabulary.issuperset(phrase) for phrase in asked)


# --------------------------------------------------------------------------- one filter


@given(vocabularies, st.randoms(use_true_random=False))
def test_a_filter_depends_on_the_terms_alone(vocabulary: Vocabulary, order: random.Random) -> None:
    shuffled = sorted(vocabulary)
    order.shuffle(shuffled)

    assert make_filter(shuffled) == make_filter(iter(sorted(vocabulary)))


def test_a_filter_is_what_it_was_in_the_state_files_of_this_version() -> None:
    assert make_filter([]) == bytes(8)
    assert make_filter([b"alpha", b"beta", "γ".encode()]).hex() == "06520808b001c400"


@pytest.mark.parametrize(
    ("count", "size"),
    [(0, 8), (1, 8), (6, 8), (7, 16), (204, 256), (205, 512), (1_154, 2_048), (1_638, 2_048), (1_639, 4_096)],
)
def test_a_filter_is_a_power_of_two_of_bits_and_ten_or_more_for_a_term(count: int, size: int) -> None:
    assert len(make_filter(numbers(0, count))) == size


def test_the_filter_of_a_store_of_very_many_terms_stays_within_two_mebibytes_and_says_no_too() -> None:
    vocabulary = numbers(0, 1_800_000)
    term_filter = make_filter(vocabulary)
    filters = Filters()
    filters.put("/s", term_filter)

    assert len(term_filter) == 1 << 21
    assert all(says_yes(filters, "/s", [(term,)]) for term in vocabulary[::100_000])
    assert not all(says_yes(filters, "/s", [(term,)]) for term in words(0, 20))


@pytest.mark.parametrize("made", [numbers, words])
@pytest.mark.parametrize("count", [6, 51, 409, 819, 1_154, 1_638, 3_276])
def test_a_filter_says_yes_to_no_more_than_one_in_a_hundred_of_other_terms(
    made: Callable[[int, int], list[bytes]], count: int
) -> None:
    filters = filled({f"/{seed}": frozenset(made(seed, count)) for seed in range(64)})

    wrong = sum(int(filters.may_match([(term,)]).sum()) for term in made(1_000, 400))

    assert wrong <= 0.01 * 64 * 400


# --------------------------------------------------------------------------- those of all stores


@given(st.dictionaries(paths, st.none() | vocabularies), st.data())
def test_no_store_that_holds_a_phrase_is_said_not_to(
    stores: dict[str, Vocabulary | None], data: st.DataObject
) -> None:
    known = sorted({term for vocabulary in stores.values() for term in vocabulary or ()})
    term = st.sampled_from(known) | terms if known else terms
    asked = data.draw(st.lists(st.lists(term, max_size=3).map(tuple), max_size=8))
    filters = filled(stores)

    for path, vocabulary in stores.items():
        assert says_yes(filters, path, asked) or not holds(vocabulary, asked)


@given(st.dictionaries(paths, st.none() | vocabularies), phrases)
def test_a_store_is_answered_for_as_if_it_were_alone(
    stores: dict[str, Vocabulary | None], asked: Phrases
) -> None:
    together = filled(stores)

    for path, vocabulary in stores.items():
        assert says_yes(together, path, asked) == says_yes(filled({path: vocabulary}), path, asked)


@given(phrases, phrases, vocabularies)
def test_one_phrase_more_takes_no_yes_away_and_one_term_more_gives_none(
    some: Phrases, more: Phrases, vocabulary: Vocabulary
) -> None:
    filters = filled({"/s": vocabulary})

    either = says_yes(filters, "/s", [*some, *more])
    assert either == (says_yes(filters, "/s", some) or says_yes(filters, "/s", more))
    for phrase in some:
        assert says_yes(filters, "/s", [phrase]) == (
            bool(phrase) and all(says_yes(filters, "/s", [(term,)]) for term in phrase)
        )


@given(steps, phrases)
def test_what_came_changed_and_went_leaves_what_is_there(taken: list[Step], asked: Phrases) -> None:
    filters = Filters()
    there: dict[str, Vocabulary | None] = {}
    slots: dict[str, int] = {}
    for path, vocabulary, is_removed in taken:
        if is_removed and path in there:
            filters.remove(path)
            del there[path], slots[path]
        else:
            filters.put(path, None if vocabulary is None else make_filter(vocabulary))
            there[path] = vocabulary
            slots.setdefault(path, int(filters.slots_of([path])[0]))

        assert filters.slots_of(list(there)).tolist() == list(slots.values())
        assert len(set(slots.values())) == len(slots)
        alone = filled(there)
        answers = filters.may_match(asked)
        assert answers[filters.slots_of(list(there))].tolist() == [
            says_yes(alone, path, asked) for path in there
        ]
        assert answers.sum() == alone.may_match(asked).sum()
    assert len(filters.may_match(asked)) <= 12


@pytest.mark.parametrize(("size", "stores"), [(8, 300), (1_024, 300), (16_384, 30)])
def test_many_filters_of_one_size_come_and_go(size: int, stores: int) -> None:
    count = 8 * size // 10
    own = {f"/{number}": b"only in %d" % number for number in range(stores)}
    filters = Filters()
    for path, term in own.items():
        filters.put(path, make_filter([term, *numbers(0, count - 1)]))
    for path in list(own)[::3]:
        filters.remove(path)
        del own[path]
    for path, term in list(own.items())[::2]:
        filters.put(path, make_filter([term]))

    assert all(says_yes(filters, path, [(term,)]) for path, term in own.items())
    for path in own:
        filters.remove(path)
    assert not filters.may_match([(b"0",)]).any()
    assert len(filters.may_match([])) == stores


def test_a_store_that_is_rewritten_says_nothing_of_what_it_held() -> None:
    filters = filled({"/other": frozenset(numbers(0, 1_000))})
    for seed in range(1, 200):
        filters.put("/s", make_filter(numbers(seed, 1_000)))

    assert sum(says_yes(filters, "/s", [(term,)]) for term in numbers(0, 1_000)) <= 10
    assert says_yes(filters, "/s", [(b"199999",)])


@pytest.mark.parametrize("others", [0, 1])
def test_the_thousandth_change_of_a_store_takes_no_more_room_than_the_first(others: int) -> None:
    term_filter = make_filter([b"1"])
    filters = Filters()
    for number in range(others):
        filters.put(f"/{number}", term_filter)

    def peak_bytes(changes: int) -> int:
        tracemalloc.start()
        for _ in range(changes):
            filters.put("/s", term_filter)
            filters.may_match([(b"1",)])
            filters.remove("/s")
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    first = peak_bytes(1)
    assert peak_bytes(2_000) < first + 4_000


def test_the_slot_of_a_store_that_was_removed_goes_to_the_next() -> None:
    filters = filled({"/a": frozenset({b"x"}), "/b": frozenset({b"y"})})
    before = filters.slots_of(["/b", "/a"]).tolist()
    filters.remove("/a")
    assert not filters.may_match([(b"x",)]).any()

    filters.put("/c", None)

    assert filters.slots_of(["/b", "/c"]).tolist() == before
    assert filters.may_match([(b"x",)])[before].tolist() == [False, True]


def test_a_store_that_is_not_here_has_no_slot() -> None:
    with pytest.raises(KeyError):
        filled({"/a": None}).slots_of(["/a", "/b"])


# --------------------------------------------------------------------------- what says nothing


@pytest.mark.parametrize("asked", [[], [()], [(b"x",)], [(), (b"x", b"y")]])
def test_a_store_without_a_filter_may_always_match(asked: Phrases) -> None:
    assert says_yes(filled({"/s": None, "/other": frozenset({b"z"})}), "/s", asked)


@pytest.mark.parametrize("other", [b"", b"\0", bytes(7), bytes(24), bytes(1 << 22)])
def test_bytes_that_are_no_filter_say_nothing(other: bytes) -> None:
    filters = Filters()
    filters.put("/s", make_filter([b"y"]))
    filters.put("/s", other)

    assert says_yes(filters, "/s", [(b"x",)])


@pytest.mark.parametrize("asked", [[], [()], [(), ()]])
def test_phrases_without_terms_are_held_by_no_store(asked: Phrases) -> None:
    assert not says_yes(filled({"/s": frozenset(numbers(0, 100))}), "/s", asked)


def test_a_store_without_terms_holds_nothing() -> None:
    assert not says_yes(filled({"/s": frozenset()}), "/s", [(b"",), (b"x",)])


def test_no_store_at_all_is_no_reason_to_fail() -> None:
    assert Filters().may_match([(b"x",)]).tolist() == []
    assert Filters().slots_of([]).tolist() == []
