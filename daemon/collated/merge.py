"""The order of the federation (DESIGN §5), as key tuples. Pure.

Python compares strings by code point, which is the order of their UTF-8 bytes. Nothing about
arrival, threads, hash seed, locale or clock enters a key, and no two different hits compare equal.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Literal

from msgspec.structs import replace

from collated_readers import TIERS, Match, Ranked
from collated_readers.contract import RRF_K

__all__ = [
    "Order",
    "contract_key",
    "dedupe",
    "global_key",
    "merge_contract",
    "merge_fused",
    "merge_global",
    "merge_hybrid",
    "merge_matches",
    "path_key",
]

Order = Literal["contract", "global"]


_TIER = {tier: position for position, tier in enumerate(TIERS)}


def contract_key(store: str, hit: Ranked) -> tuple[int, float, str, str]:
    """Return the key of `ranking = "contract"`: tier, rank, id, store."""
    return (_TIER[hit.tier], hit.rank, hit.id, store)


def dedupe(tiers: Iterable[Sequence[Ranked]], limit: int) -> list[Ranked]:
    """Return one store's list: its tiers in order, an id only where it is first found, cut at *limit*."""
    first: dict[str, Ranked] = {}
    for tier in tiers:
        for hit in tier:
            first.setdefault(hit.id, hit)
    return list(first.values())[:limit]


def path_key(store: str) -> str:
    """Return what orders stores as their records' paths are in one store that holds all, `STORE/PATH`."""
    return f"{store}/"


def global_key(store: str, hit: Ranked) -> tuple[int, float, str, str]:
    """Return the key of `ranking = "global"`: tier, rank, store, id, as in one store that holds all."""
    return (_TIER[hit.tier], hit.rank, path_key(store), hit.id)


def merge_contract(lists: Mapping[str, Sequence[Ranked]], limit: int) -> list[tuple[str, Ranked]]:
    """Return the best *limit* of all stores' lists, by tier, rank, id and store."""
    return _merged(lists, limit, contract_key)


def merge_global(lists: Mapping[str, Sequence[Ranked]], limit: int) -> list[tuple[str, Ranked]]:
    """Return the best *limit* of all stores' lists, by tier, rank, store and id."""
    return _merged(lists, limit, global_key)


def _merged(
    lists: Mapping[str, Sequence[Ranked]],
    limit: int,
    key: Callable[[str, Ranked], tuple[int, float, str, str]],
) -> list[tuple[str, Ranked]]:
    every = [(key(store, hit), store, hit) for store, hits in lists.items() for hit in hits]
    return [(store, hit) for _, store, hit in sorted(every, key=lambda each: each[0])[:limit]]


def merge_fused(lists: Mapping[str, Sequence[Ranked]], limit: int) -> list[tuple[str, Ranked]]:
    """Return the best *limit* by reciprocal rank, Σ 1/(60 + position), then id, then store.

    A record stands in its own store's list only, so the sum has one term.
    """
    every = [
        ((-1 / (RRF_K + position), hit.id, store), store, hit)
        for store, hits in lists.items()
        for position, hit in enumerate(hits, start=1)
    ]
    return [(store, hit) for _, store, hit in sorted(every, key=lambda each: each[0])[:limit]]


def merge_hybrid(
    lists: Mapping[str, Sequence[Ranked]], fused: Set[str], limit: int
) -> list[tuple[str, Ranked]]:
    """Return the best *limit* by reciprocal rank, id and store, with that as rank.

    The ranks of the stores in *fused* are such sums of two lists already. Any other store's list counts
    twice, as if a second one agreed with it: else nothing of a store without vectors would be seen.
    """
    every = [
        (store, hit if store in fused else replace(hit, rank=-2 / (RRF_K + position)))
        for store, hits in lists.items()
        for position, hit in enumerate(hits, start=1)
    ]
    return sorted(every, key=lambda each: (each[1].rank, each[1].id, each[0]))[:limit]


def merge_matches(lists: Mapping[str, Sequence[Match]], limit: int) -> tuple[list[tuple[str, Match]], bool]:
    """Return grep's best *limit* matches by id and store, and whether there are more."""
    every = sorted(((match.id, store), store, match) for store, found in lists.items() for match in found)
    return [(store, match) for _, store, match in every[:limit]], len(every) > limit
