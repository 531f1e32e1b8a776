"""What the keeper remembers of stores: their sizes and uses, what failed and when it is tried again."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from collated.catalog import Store, opened, without
from collated.sidecars.jobs import Refusal
from collated.sidecars.ledger import Ledger, backoff_s
from collated_readers import StoreError, StoreFacts
from collated_readers.opening import Signature

SIGNATURE = Signature(device=1, inode=2, size=1_000, mtime_ns=5, wal_size=0, wal_mtime_ns=0)
NO_SHARES: list[Mapping[str, float]] = []


def a_store(name: str = "s", *, inode: int = 2, size: int = 1_000, wal_mtime_ns: int = 0) -> Store:
    signature = replace(SIGNATURE, inode=inode, size=size, wal_mtime_ns=wal_mtime_ns)
    return opened(Store(f"/{name}", name, None), "contextpull", StoreFacts("1.0", "", 1, 7), signature)


def name_of(store: Store) -> str:
    assert store.fingerprint is not None
    return store.fingerprint


def stocked(*stores: Store, shares: list[Mapping[str, float]] = NO_SHARES) -> Ledger:
    ledger = Ledger()
    ledger.take_stock(stores, shares)
    return ledger


def refusal(store: Store, code: str) -> Refusal:
    return Refusal(name_of(store), code, f"it is {code}")


# --------------------------------------------------------------------------- what is wanted


def test_open_stores_are_wanted_with_their_last_use() -> None:
    one, other = a_store("one"), a_store("other", inode=3)
    closed = without(a_store("closed", inode=4), StoreError("not_sqlite", ""), SIGNATURE)
    wanted = stocked(one, other, closed).wanted({"one": 5.0}, 3.0)
    assert {name: store.used for name, store in wanted.items()} == {name_of(one): 5.0, name_of(other): 3.0}
    assert {store.format for store in wanted.values()} == {"contextpull"}


def test_sizes_are_those_of_the_files_and_else_guessed_by_their_like() -> None:
    known, new = a_store("known", size=1_000), a_store("new", inode=3, size=5_000)
    assert stocked(new).wanted({}, 0.0)[name_of(new)].size_bytes == 2_000
    wanted = stocked(known, new, shares=[{name_of(known): 100.0}]).wanted({}, 0.0)
    assert wanted[name_of(known)].size_bytes == 100.0
    assert wanted[name_of(new)].size_bytes == 500.0


def test_a_size_is_remembered_when_its_file_has_gone_and_forgotten_with_its_store() -> None:
    store = a_store()
    ledger = stocked(store, shares=[{name_of(store): 123.0}])
    ledger.take_stock([store], NO_SHARES)
    assert ledger.wanted({}, 0.0)[name_of(store)].size_bytes == 123.0
    ledger.take_stock([], NO_SHARES)
    ledger.take_stock([store], NO_SHARES)
    assert ledger.wanted({}, 0.0)[name_of(store)].size_bytes == 400.0


@pytest.mark.parametrize("code", ["locked", "opening", "building", "permission_denied"])
def test_a_store_that_cannot_be_read_just_now_keeps_what_was_made_of_it_and_is_not_built(code: str) -> None:
    store = a_store()
    ledger = stocked(store)
    ledger.take_stock([without(store, StoreError(code, ""), None)], NO_SHARES)
    assert list(ledger.wanted({}, 0.0)) == [name_of(store)]
    assert ledger.refused(0.0)[0] == {name_of(store)}
    ledger.take_stock([store], NO_SHARES)
    assert ledger.refused(0.0)[0] == frozenset()


def test_a_store_that_is_refused_or_rewritten_does_not_keep_what_was_made_of_it() -> None:
    store, rewritten = a_store(), a_store(inode=9)
    ledger = stocked(store)
    ledger.take_stock([rewritten], NO_SHARES)
    assert list(ledger.wanted({}, 0.0)) == [name_of(rewritten)]
    ledger.take_stock([without(store, StoreError("not_sqlite", ""), None)], NO_SHARES)
    assert ledger.wanted({}, 0.0) == {}


def test_of_two_paths_to_the_same_bytes_the_open_one_is_built() -> None:
    one, other = a_store("one"), a_store("other")
    ledger = stocked(one, other)
    ledger.take_stock([without(one, StoreError("locked", ""), None), other], NO_SHARES)
    assert ledger.refused(0.0)[0] == frozenset()
    source = ledger.source(name_of(one))
    assert source is not None
    assert (source.path, source.format) == (b"/other", "contextpull")


def test_a_copy_of_a_store_that_is_never_at_rest_is_not_built() -> None:
    store = a_store(wal_mtime_ns=-5)
    assert stocked(store).refused(0.0)[0] == {name_of(store)}


# --------------------------------------------------------------------------- what failed


def test_a_failure_is_tried_again_after_a_pause_that_grows() -> None:
    store = a_store()
    ledger = stocked(store)
    now = 100.0
    for pause in (1.0, 2.0, 4.0, 8.0):
        ledger.note([refusal(store, "locked")], now)
        assert ledger.refused(now) == (frozenset([name_of(store)]), pause)
        now += pause
        assert ledger.refused(now) == (frozenset(), math.inf)
    ledger.built([name_of(store)])
    ledger.note([refusal(store, "locked")], now)
    assert ledger.refused(now)[1] == 1.0


def test_pauses_have_an_end() -> None:
    assert [backoff_s(attempts) for attempts in (1, 2, 11, 1_000)] == [1.0, 2.0, 600.0, 600.0]


@pytest.mark.parametrize("code", ["too_large", "not_offered", "damaged", "internal"])
def test_what_will_not_change_is_refused_for_good_until_it_is_forgiven(code: str) -> None:
    store = a_store()
    ledger = stocked(store)
    ledger.note([refusal(store, code)], 0.0)
    assert ledger.refused(1e9) == (frozenset([name_of(store)]), math.inf)
    reason, is_for_good = ledger.reason(name_of(store))
    assert reason is not None
    assert (reason.code, is_for_good) == (code, True)
    ledger.forgive()
    assert ledger.refused(1e9)[0] == frozenset()
    assert ledger.reason(name_of(store)) == (None, False)


def test_other_contents_are_tried_at_once() -> None:
    store, rewritten = a_store(), a_store(inode=9)
    ledger = stocked(store)
    ledger.note([refusal(store, "damaged")], 0.0)
    ledger.take_stock([rewritten], NO_SHARES)
    assert ledger.refused(0.0)[0] == frozenset()
    ledger.take_stock([store], NO_SHARES)
    assert ledger.refused(0.0)[0] == frozenset()


def test_what_did_not_fit_among_others_is_tried_by_itself_at_once() -> None:
    store = a_store()
    ledger = stocked(store)
    ledger.note([refusal(store, "memory")], 5.0)
    assert ledger.refused(5.0)[0] == frozenset()
    assert ledger.wanted({}, 0.0)[name_of(store)].is_alone
    ledger.built([name_of(store)])
    assert not ledger.wanted({}, 0.0)[name_of(store)].is_alone


def test_those_that_were_there_when_a_worker_died_are_tried_one_by_one() -> None:
    one, other = a_store("one"), a_store("other", inode=3)
    ledger = stocked(one, other)
    ledger.suspect([name_of(one), name_of(other)], "it died", 0.0)
    assert ledger.refused(0.0)[0] == frozenset()
    assert all(store.is_alone for store in ledger.wanted({}, 0.0).values())
    ledger.suspect([name_of(one)], "it died", 0.0)
    assert ledger.refused(0.0) == (frozenset([name_of(one)]), 1.0)
    reason, is_for_good = ledger.reason(name_of(one))
    assert reason is not None
    assert (reason.code, is_for_good) == ("worker_died", False)
