from collections import OrderedDict
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.cache import ENTRY_BYTES, Cache
from collated_readers import Query

LIMIT = 3 * ENTRY_BYTES + 100  # room for three small entries

keys = st.integers(0, 5)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("get"), keys, st.just(0)),
        st.tuples(st.just("put"), keys, st.integers(0, 2 * ENTRY_BYTES)),
        st.tuples(st.just("resize"), st.just(0), st.integers(0, 2 * LIMIT)),
    ),
    max_size=30,
)
Operations = list[tuple[str, int, int]]


@given(operations)
def test_the_cache_holds_the_most_recently_used_that_fit_and_never_exceeds_its_limit(
    steps: Operations,
) -> None:
    cache, limit = Cache(LIMIT), LIMIT
    model: OrderedDict[int, tuple[int, int]] = OrderedDict()  # key -> value, cost; the last used last
    for number, (kind, key, size) in enumerate(steps):
        if kind == "resize":
            limit = size
            cache.resize(limit)
        elif kind == "get":
            assert cache.get(key) == (model[key][0] if key in model else None)
            if key in model:
                model.move_to_end(key)
        elif size + ENTRY_BYTES <= limit:
            cache.put(key, number, size)
            model.pop(key, None)
            model[key] = (number, size + ENTRY_BYTES)
        else:
            cache.put(key, number, size)
        while sum(cost for _, cost in model.values()) > limit:
            model.popitem(last=False)
        stats = cache.stats()
        assert stats["bytes"] == sum(cost for _, cost in model.values()) <= limit
        assert (stats["entries"], stats["limit_bytes"]) == (len(model), limit)


def test_a_limit_of_nothing_turns_the_cache_off() -> None:
    cache = Cache(0)
    cache.put("k", "v", 0)

    assert cache.get("k") is None
    assert cache.stats() == {"entries": 0, "bytes": 0, "limit_bytes": 0, "hits": 0, "misses": 1}


def test_what_was_read_last_is_kept_longest() -> None:
    cache = Cache(2 * ENTRY_BYTES)
    cache.put(1, "a", 0)
    cache.put(2, "b", 0)
    cache.get(1)
    cache.put(3, "c", 0)

    assert [cache.get(key) for key in (1, 2, 3)] == ["a", None, "c"]


def test_an_entry_over_the_limit_pushes_nothing_out() -> None:
    cache = Cache(2 * ENTRY_BYTES)
    cache.put("a", 1, 0)
    cache.put("b", 2, ENTRY_BYTES + 1)

    assert cache.get("a") == 1
    assert cache.get("b") is None


def test_a_smaller_limit_forgets_what_no_longer_fits() -> None:
    cache = Cache(10 * ENTRY_BYTES)
    for key in range(10):
        cache.put(key, key, 0)
    cache.resize(2 * ENTRY_BYTES)

    assert [key for key in range(10) if cache.get(key) is not None] == [8, 9]


def test_hits_and_misses_are_counted() -> None:
    cache = Cache(LIMIT)
    cache.put("a", 1, 10)
    for key in "aab":
        cache.get(key)

    assert (cache.stats()["hits"], cache.stats()["misses"]) == (2, 1)


@pytest.mark.parametrize("key", ["k" * 1_000, (1, "method", b"k" * 1_000), (Query("k" * 1_000), "any")])
def test_what_was_asked_counts_as_well_as_what_was_answered(key: Hashable) -> None:
    cache = Cache(10 * ENTRY_BYTES)
    cache.put(key, "v", 0)

    assert cache.get(key) == "v"
    assert cache.stats()["bytes"] >= 1_000 + ENTRY_BYTES
