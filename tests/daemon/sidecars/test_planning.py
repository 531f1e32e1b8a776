"""Plans, followed until there is nothing more to do, on a disk that is only made of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from collated.sidecars.planning import (
    BATCH_BYTES,
    BATCH_STORES,
    COLD_S,
    Build,
    Combine,
    Drop,
    Limits,
    Present,
    Step,
    Wanted,
    live_slots,
    plan,
)

KIB, MIB = 1 << 10, 1 << 20
AMPLE = Limits(budget_bytes=1 << 40, file_bytes=256 * MIB)
TIERS = 6  # 32 KiB, eight times that, and so on, up to half of 256 MiB
NOTHING: frozenset[str] = frozenset()

stores = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(
        Wanted,
        format=st.sampled_from(["contextpull", "other"]),
        size_bytes=st.integers(1, 40 * MIB) | st.integers(1, 200 * KIB),
        used=st.sampled_from([0.0, 1.0, 2.0, 5_000.0]),
        is_alone=st.booleans(),
    ),
    max_size=40,
)


class Disk:
    """What is there, and all that was ever written; files take about what their stores do."""

    def __init__(self, limits: Limits = AMPLE, growth: float = 1.0, *, guesses_right: bool = False) -> None:
        self.limits = limits
        self.guesses_right = guesses_right
        self.growth = growth  # of a file that is made of others
        self.files: dict[str, Present] = {}
        self.sizes: dict[str, float] = {}
        self.written = 0.0
        self.serial = 0
        self.done: list[Step] = []
        self.left_out: frozenset[str] = NOTHING

    @property
    def total(self) -> int:
        return sum(file.size_bytes for file in self.files.values())

    @property
    def held(self) -> set[str]:
        return {fingerprint for file in self.files.values() for fingerprint, _ in file.pieces}

    def settle(self, wanted: Mapping[str, Wanted], refused: frozenset[str] = NOTHING) -> list[Step]:
        """Do what plans say until there is none, and return it."""
        before = len(self.done)
        for _ in range(50 + 10 * len(wanted) + 10 * len(self.files)):
            known = {
                name: replace(store, size_bytes=self.sizes.get(name, store.size_bytes))
                for name, store in wanted.items()
            }
            planned = plan(known, list(self.files.values()), refused, self.limits)
            step, self.left_out = planned.step, planned.left_out
            if step is None:
                return self.done[before:]
            self.follow(step, wanted)
        raise AssertionError(f"no end: {self.done[-6:]}")

    def follow(self, step: Step, wanted: Mapping[str, Wanted]) -> None:
        self.done.append(step)
        match step:
            case Drop(names):
                for name in names:
                    del self.files[name]
            case Build(fingerprints):
                guessed = {each: wanted[each].size_bytes for each in fingerprints}
                factors = {each: 1.0 if self.guesses_right else wrong(each) for each in fingerprints}
                sizes = {each: max(1, round(guessed[each] * factors[each])) for each in fingerprints}
                self.put(sizes, wanted[fingerprints[0]].format)
            case Combine(parts):
                sizes = dict[str, int]()
                for name, slots in parts:
                    file = self.files[name]
                    grown = self.growth if len(parts) > 1 else 1.0
                    sizes |= {
                        file.pieces[slot][0]: max(1, round(file.share([slot]) * grown)) for slot in slots
                    }
                formats = {self.files.pop(name).format for name, _ in parts}
                self.put(sizes, *formats)

    def put(self, sizes: Mapping[str, int], *formats: str) -> None:
        (of_format,) = formats
        self.serial += 1
        file = Present(f"{self.serial}", self.serial, sum(sizes.values()), of_format, tuple(sizes.items()))
        self.files[file.name] = file
        self.written += file.size_bytes
        self.sizes |= dict(zip(sizes, file.shares(), strict=True))


def wrong(fingerprint: str) -> float:
    """Return by how much the size of a store is guessed wrong."""
    return (0.3, 1.0, 1.0, 4.0)[crc32(fingerprint.encode()) % 4]


def a_store(size_bytes: float = 100 * KIB, used: float = 0.0) -> Wanted:
    return Wanted("contextpull", size_bytes, used)


def some_stores(names: Iterable[object], size_bytes: float = 100 * KIB) -> dict[str, Wanted]:
    return {f"s{name}": a_store(size_bytes) for name in names}


def names_in(step: Combine) -> set[str]:
    return {name for name, _ in step.parts}


# --------------------------------------------------------------------------- whatever there is


@given(
    histories=st.lists(stores, min_size=1, max_size=5),
    budget=st.sampled_from([0, 100 * KIB, 20 * MIB, 300 * MIB, 1 << 40]),
    file_bytes=st.sampled_from([1 * MIB, 64 * MIB, 256 * MIB]),
    growth=st.sampled_from([0.8, 1.0, 1.3]),
    data=st.data(),
)
@settings(deadline=None)
def test_plans_come_to_an_end_within_the_budget_whatever_becomes_of_the_stores(
    histories: list[dict[str, Wanted]], budget: int, file_bytes: int, growth: float, data: st.DataObject
) -> None:
    disk = Disk(Limits(budget, file_bytes), growth)
    for wanted in histories:
        refused = frozenset(data.draw(st.sets(st.sampled_from(sorted(wanted))))) if wanted else NOTHING
        disk.limits = replace(disk.limits, now=data.draw(st.sampled_from([0.0, 3_000.0, 9_000.0])))
        before = disk.held

        steps = disk.settle(wanted, refused)

        assert disk.total <= budget
        live = live_slots(wanted, list(disk.files.values()))
        assert all(live.values())
        for step in steps:
            assert not isinstance(step, Build) or not refused.intersection(step.fingerprints)
            assert not isinstance(step, Combine) or any(slots for _, slots in step.parts)
        if budget == AMPLE.budget_bytes:
            assert wanted.keys() - refused <= disk.held
            assert refused & before <= disk.held


@given(stores)
@settings(deadline=None)
def test_a_file_holds_stores_of_one_format_and_each_store_once(wanted: dict[str, Wanted]) -> None:
    disk = Disk()
    disk.settle(wanted)
    held = [fingerprint for file in disk.files.values() for fingerprint, _ in file.pieces]
    assert sorted(held) == sorted(wanted)
    for file in disk.files.values():
        assert {wanted[fingerprint].format for fingerprint, _ in file.pieces} == {file.format}


@given(st.integers(0, 400), st.sampled_from([1 * KIB, 100 * KIB, 3 * MIB]))
@settings(deadline=None, max_examples=25)
def test_there_are_a_few_files_for_each_tier_however_many_stores(count: int, size_bytes: int) -> None:
    disk = Disk()
    disk.settle(some_stores(range(count), size_bytes))
    largest = AMPLE.file_bytes / 2
    assert len(disk.files) <= 7 * TIERS + disk.total / largest
    assert len(disk.files) <= 2 + disk.total / (largest / 2) + math.log(1 + disk.total / KIB, 2)


# --------------------------------------------------------------------------- what is built


def test_the_smallest_are_built_first_and_not_too_many_at_once() -> None:
    wanted = {f"s{number:03}": a_store(1 * KIB + number) for number in range(100)}
    wanted["large"] = a_store(100 * MIB)
    steps = [step for step in Disk().settle(wanted) if isinstance(step, Build)]
    assert steps[0].fingerprints == tuple(f"s{number:03}" for number in range(BATCH_STORES))
    assert steps[-1].fingerprints == ("large",)


def test_a_batch_is_bounded_in_bytes() -> None:
    step = plan(some_stores(range(20), BATCH_BYTES / 4), [], NOTHING, AMPLE).step
    assert isinstance(step, Build)
    assert len(step.fingerprints) == 4


def test_one_that_brought_others_down_is_built_by_itself() -> None:
    wanted = some_stores(range(5))
    wanted["s2"] = replace(wanted["s2"], is_alone=True)
    wanted["s0"] = replace(wanted["s0"], is_alone=True)
    builds = [step for step in Disk().settle(wanted) if isinstance(step, Build)]
    assert [step.fingerprints for step in builds] == [("s0",), ("s1", "s3", "s4"), ("s2",)]


def test_what_is_there_is_not_built_again_and_what_is_refused_not_at_all() -> None:
    disk = Disk()
    wanted = some_stores("abc")
    disk.settle(wanted, frozenset({"sb"}))
    assert disk.held == {"sa", "sc"}
    assert disk.settle(wanted, frozenset({"sb", "sa"})) == []
    assert disk.held == {"sa", "sc"}
    assert [type(step) for step in disk.settle(wanted)] == [Build, Combine]


# --------------------------------------------------------------------------- what is combined


def test_eight_of_a_kind_become_one_in_the_tier_above() -> None:
    disk = Disk()
    wanted: dict[str, Wanted] = {}
    for number in range(8):
        wanted |= some_stores([number], 33 * KIB)
        disk.sizes[f"s{number}"] = 33 * KIB
        disk.follow(Build((f"s{number}",)), {f"s{number}": a_store(33 * KIB / wrong(f"s{number}"))})
    steps = disk.settle(wanted)
    assert [len(step.parts) for step in steps if isinstance(step, Combine)] == [8]
    assert len(disk.files) == 1


def test_one_change_costs_its_own_size_and_what_its_tiers_take() -> None:
    disk = Disk()
    wanted = some_stores(range(200))
    disk.settle(wanted)
    disk.written = 0.0
    changed = 0.0
    for number in range(200):
        del wanted[f"s{number}"]
        wanted[f"t{number}"] = a_store()
        disk.settle(wanted)
        changed += disk.sizes[f"t{number}"]
    assert disk.held >= wanted.keys()
    # Once when it is built, once for each tier, and as much again for the room of what died.
    assert disk.written <= changed * 2 * (1 + TIERS)
    assert disk.total <= 2 * sum(disk.sizes[name] for name in wanted)


@given(st.integers(2, 60))
@settings(deadline=None, max_examples=25)
def test_when_all_is_built_files_of_much_the_same_size_are_one(count: int) -> None:
    disk = Disk()
    disk.settle(some_stores(range(count)))
    sizes = sorted((file.size_bytes for file in disk.files.values()), reverse=True)
    assert all(4 * size < sizes[0] for size in sizes[1:])


def test_a_single_change_writes_little_beside_many_stores() -> None:
    disk = Disk()
    wanted = some_stores(range(600))
    disk.settle(wanted)
    disk.written = 0.0
    wanted["new"] = a_store()
    disk.settle(wanted)
    assert disk.written <= 8 * MIB


def test_no_file_is_made_larger_than_is_allowed() -> None:
    disk = Disk(replace(AMPLE, file_bytes=4 * MIB))
    for count in range(0, 400, 20):
        for step in disk.settle(some_stores(range(count))):
            assert isinstance(step, Build | Combine)
    assert all(file.size_bytes <= 4 * MIB or len(file.pieces) <= BATCH_STORES for file in disk.files.values())


# --------------------------------------------------------------------------- what goes


def test_a_file_without_a_living_store_is_dropped_first_of_all() -> None:
    disk = Disk()
    disk.settle(some_stores("abc"))
    steps = disk.settle(some_stores("xyz"))
    assert isinstance(steps[0], Drop)
    assert disk.held == {"sx", "sy", "sz"}


def test_a_file_that_is_mostly_dead_is_written_again_without_it() -> None:
    disk = Disk()
    wanted = some_stores("abcdef")
    disk.settle(wanted)
    (old,) = disk.files
    alive = {name: wanted[name] for name in list(wanted)[:2]}
    assert any(isinstance(step, Combine) and names_in(step) == {old} for step in disk.settle(alive))
    assert disk.held == alive.keys()


def test_what_an_interrupted_combination_left_is_dropped() -> None:
    piece = (("a", 10),)
    old = Present("old", 1, 1_000, "contextpull", piece)
    new = Present("new", 2, 2_000, "contextpull", (*piece, ("b", 10)))
    wanted = {"a": a_store(), "b": a_store()}
    assert plan(wanted, [old, new], NOTHING, AMPLE).step == Drop(("old",))
    assert plan(wanted, [new], NOTHING, AMPLE).step is None


# --------------------------------------------------------------------------- the budget


def full() -> tuple[Disk, dict[str, Wanted]]:
    """Return a disk whose budget does not hold all that is wanted, settled."""
    disk = Disk(Limits(8 * MIB, 256 * MIB, now=COLD_S * 10), guesses_right=True)
    wanted = {f"s{number:03}": a_store(used=COLD_S * 10) for number in range(200)}
    disk.settle(wanted)
    assert 0 < len(disk.held) < len(wanted)
    return disk, wanted


def test_what_does_not_fit_is_left_out_and_not_tried_again_and_again() -> None:
    disk, wanted = full()
    assert disk.total > disk.limits.budget_bytes / 2
    assert disk.settle(wanted) == []
    assert disk.left_out == wanted.keys() - disk.held
    later = COLD_S * 10 + 60
    disk.limits = replace(disk.limits, now=later)
    assert disk.settle({name: replace(store, used=later) for name, store in wanted.items()}) == []


def test_the_least_recently_used_are_left_out_first() -> None:
    disk = Disk(Limits(1 << 40, 256 * MIB), guesses_right=True)
    wanted = {f"s{number:02}": a_store(used=number) for number in range(40)}
    disk.settle(wanted)
    disk.limits = replace(disk.limits, budget_bytes=disk.total // 3)
    disk.settle(wanted)
    assert disk.total <= disk.limits.budget_bytes
    assert sorted(disk.held) == [f"s{number:02}" for number in range(40 - len(disk.held), 40)]
    assert len(disk.held) >= 10


def test_what_was_not_used_for_long_makes_room_for_what_was() -> None:
    disk, wanted = full()
    missing = sorted(wanted.keys() - disk.held)[0]
    now = disk.limits.now + COLD_S + 1
    disk.limits = replace(disk.limits, now=now)
    assert disk.settle(wanted) == []
    wanted[missing] = replace(wanted[missing], used=now)
    disk.settle(wanted)
    assert missing in disk.held
    assert disk.total <= disk.limits.budget_bytes


def test_a_store_larger_than_the_budget_is_built_at_most_once() -> None:
    disk = Disk(Limits(10 * MIB, 256 * MIB))
    guessed = {f"s{number}": a_store(8 * MIB) for number in range(10)}
    steps = disk.settle(guessed)
    built = [name for step in steps if isinstance(step, Build) for name in step.fingerprints]
    assert len(built) == len(set(built))
    assert disk.settle(guessed) == []


def test_a_full_budget_is_not_written_anew_with_every_change() -> None:
    disk, wanted = full()
    wanted = {name: wanted[name] for name in disk.held}
    disk.settle(wanted)
    disk.written = 0.0
    changed = 0.0
    for name in list(wanted):
        del wanted[name]
        wanted[f"n{name}"] = a_store(used=disk.limits.now)
        disk.settle(wanted)
        changed += disk.sizes[f"n{name}"]
        assert disk.total <= disk.limits.budget_bytes
    assert disk.written <= changed * (8 + 2 * (1 + TIERS))


def test_without_a_budget_nothing_is_kept() -> None:
    disk = Disk()
    wanted = some_stores("abc")
    disk.settle(wanted)
    disk.limits = replace(disk.limits, budget_bytes=0)
    disk.settle(wanted)
    assert disk.files == {}
