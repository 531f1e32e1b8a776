import random
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from collated.merge import contract_key, dedupe, merge_contract, merge_fused, merge_matches
from collated_readers import TIERS, Match, Ranked
from collated_readers.contract import RRF_K

Lists = dict[str, list[Ranked]]

# Few of each, so that ranks tie and ids repeat; ids and names beyond ASCII, where orders could differ.
ids = st.sampled_from(["a", "b", "B", "é", "\uffff", "\U0001f600", "a:1", ""])
stores = st.sampled_from(["s", "s-1", "t", "a.b"])
ranks = st.sampled_from([-2.5, -1.0, -1e-9, 0.0, 3.0])
ranked = st.builds(Ranked, id=ids, tier=st.sampled_from(TIERS), rank=ranks, row=st.just(0))
limits = st.integers(1, 12)


def in_order(hits: list[Ranked]) -> list[Ranked]:
    """Return what a reader would give: each id once, where it is best, tiers in order."""
    best: dict[str, Ranked] = {}
    for hit in sorted(hits, key=lambda hit: contract_key("", hit)):
        best.setdefault(hit.id, hit)
    return list(best.values())


lists = st.dictionaries(stores, st.lists(ranked, max_size=8).map(in_order))


def shuffled(every: Lists, by: random.Random) -> Lists:
    order = list(every)
    by.shuffle(order)
    return {store: every[store] for store in order}


# --------------------------------------------------------------------------- the contract's order


@given(lists, st.randoms(use_true_random=False), limits)
def test_the_order_of_arrival_changes_nothing(every: Lists, by: random.Random, limit: int) -> None:
    mixed = shuffled({store: by.sample(hits, len(hits)) for store, hits in every.items()}, by)

    assert merge_contract(mixed, limit) == merge_contract(every, limit)
    assert merge_fused(shuffled(every, by), limit) == merge_fused(every, limit)


@given(lists)
def test_no_two_hits_compare_equal_and_the_list_ascends(every: Lists) -> None:
    merged = merge_contract(every, 99)

    keys = [contract_key(store, hit) for store, hit in merged]
    assert all(first < second for first, second in pairwise(keys))
    assert len(merged) == sum(len(hits) for hits in every.values())


def test_ids_and_names_compare_as_their_utf8_bytes() -> None:
    texts = ["\uffff", "\U0001f600", "é", "z", "B", "a"]
    hits = [Ranked(text, "all", 1.0, 0) for text in texts]

    merged = merge_contract({"s": hits}, 99)

    assert [hit.id for _, hit in merged] == sorted(texts, key=lambda text: text.encode())


def test_tier_goes_before_rank_and_rank_before_id_and_id_before_store() -> None:
    order = [
        ("z", Ranked("z", "phrase", 9.0, 0)),
        ("z", Ranked("z", "all", -9.0, 0)),
        ("z", Ranked("a", "all", 0.0, 0)),
        ("a", Ranked("b", "all", 0.0, 0)),
        ("b", Ranked("b", "all", 0.0, 0)),
    ]
    every: Lists = {}
    for store, hit in reversed(order):
        every.setdefault(store, []).append(hit)

    assert merge_contract(every, 9) == order


@given(lists, limits)
def test_merging_what_was_merged_changes_nothing(every: Lists, limit: int) -> None:
    once = merge_contract(every, limit)

    again: Lists = {}
    for store, hit in once:
        again.setdefault(store, []).append(hit)
    assert merge_contract(again, limit) == once


@given(lists, limits)
def test_a_limit_is_a_prefix_of_the_next(every: Lists, limit: int) -> None:
    for merge in merge_contract, merge_fused:
        assert merge(every, limit) == merge(every, limit + 1)[:limit]


@given(lists, stores)
def test_dropping_a_store_removes_its_hits_and_moves_nothing_else(every: Lists, dropped: str) -> None:
    rest = {store: hits for store, hits in every.items() if store != dropped}

    for merge in merge_contract, merge_fused:
        assert merge(rest, 99) == [pair for pair in merge(every, 99) if pair[0] != dropped]


@given(lists, limits)
def test_one_store_alone_keeps_its_own_order(every: Lists, limit: int) -> None:
    for store, hits in every.items():
        for merge in merge_contract, merge_fused:
            assert merge({store: hits}, limit) == [(store, hit) for hit in hits[:limit]]


@given(st.lists(ranked, max_size=12), limits)
def test_splitting_a_store_in_two_changes_nothing_but_its_name(hits: list[Ranked], limit: int) -> None:
    whole = in_order(hits)
    halves = {"s": whole[::2], "t": whole[1::2]}

    assert [hit for _, hit in merge_contract(halves, limit)] == whole[:limit]


@given(lists, limits)
def test_merging_tier_by_tier_gives_the_same_as_merging_whole_lists(every: Lists, limit: int) -> None:
    by_tier = [
        merge_contract({store: [h for h in hits if h.tier == tier] for store, hits in every.items()}, limit)
        for tier in TIERS
    ]

    assert [pair for tier in by_tier for pair in tier][:limit] == merge_contract(every, limit)


# --------------------------------------------------------------------------- one store's list


@given(st.lists(ranked, max_size=12), limits)
def test_an_id_stands_where_it_is_found_first(hits: list[Ranked], limit: int) -> None:
    tiers = [[hit for hit in hits if hit.tier == tier] for tier in TIERS]

    found = dedupe(tiers, limit)

    every = [hit for tier in tiers for hit in tier]
    firsts = [hit for n, hit in enumerate(every) if hit.id not in {other.id for other in every[:n]}]
    assert found == firsts[:limit]


@given(st.lists(ranked, max_size=12), limits)
def test_a_tier_that_was_not_asked_cannot_change_a_list_that_is_full_without_it(
    hits: list[Ranked], limit: int
) -> None:
    tiers = [[hit for hit in hits if hit.tier == tier] for tier in TIERS]

    for asked in range(len(tiers)):
        if len(full := dedupe(tiers[:asked], limit)) == limit:
            assert dedupe(tiers, limit) == full


# --------------------------------------------------------------------------- reciprocal rank


@given(lists)
def test_fused_hits_are_ordered_by_reciprocal_rank_then_id_then_store(every: Lists) -> None:
    fused = merge_fused(every, 99)

    def sum_of(store: str, hit: Ranked) -> float:
        return sum(1 / (60 + place) for place, other in enumerate(every[store], start=1) if other is hit)

    keys = [(-sum_of(store, hit), hit.id.encode(), store.encode()) for store, hit in fused]
    assert RRF_K == 60
    assert keys == sorted(keys)
    assert len(fused) == sum(len(hits) for hits in every.values())


def test_fused_lists_take_turns() -> None:
    every = {
        "s": [Ranked("b", "phrase", -9.0, 0), Ranked("c", "phrase", -8.0, 0)],
        "t": [Ranked("a", "any", -0.1, 0), Ranked("c", "any", 0.0, 0)],
    }

    assert [(store, hit.id) for store, hit in merge_fused(every, 9)] == [
        ("t", "a"),
        ("s", "b"),
        ("s", "c"),
        ("t", "c"),
    ]


# --------------------------------------------------------------------------- grep

matches = st.builds(Match, id=ids, doc=st.just("d"), heading_path=st.just(""), line=st.just("l"))
match_lists = st.dictionaries(stores, st.lists(matches, max_size=6, unique_by=lambda match: match.id))


@given(match_lists, st.randoms(use_true_random=False), limits)
def test_matches_come_by_id_and_store_whatever_the_order_of_arrival(
    every: dict[str, list[Match]], by: random.Random, limit: int
) -> None:
    found, is_cut = merge_matches(every, limit)

    keys = [(match.id.encode(), store.encode()) for store, match in found]
    everything = sorted((m.id.encode(), store.encode()) for store, found in every.items() for m in found)
    assert keys == everything[:limit]
    assert is_cut == (len(everything) > limit)
    assert merge_matches({s: every[s] for s in by.sample(sorted(every), len(every))}, limit) == (
        found,
        is_cut,
    )


def test_two_stores_may_hold_the_same_match() -> None:
    match = Match("a", "d", "h", "l")
    other = msgspec.structs.replace(match, line="m")

    assert merge_matches({"t": [match], "s": [other]}, 9) == ([("s", other), ("t", match)], False)
