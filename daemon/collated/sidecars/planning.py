"""What to do next about the files of segments: build, combine, drop, or nothing. Pure.

Files are sorted into tiers by what lives in them, each tier eight times the one below. As soon as a
tier holds eight files, or as much as a file of the next tier, its smallest are combined into one: so
there are a few files for each tier, and a store is written again once for each tier that it rises.
When nothing is left to build, files of much the same size become one: each costs every query its own
array operations, whose number is most of what a query over few stores takes.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

__all__ = [
    "BATCH_BYTES",
    "BATCH_STORES",
    "COLD_S",
    "Build",
    "Combine",
    "Drop",
    "Limits",
    "Plan",
    "Present",
    "Step",
    "Wanted",
    "live_slots",
    "plan",
]

BATCH_STORES = 32
BATCH_BYTES = 8 << 20
"""How much is built at a time, so that the first stores are served soon; a larger store by itself."""

COLD_S = 3_600.0
"""A store that was not used for so long makes room for one that was."""

_SMALLEST_TIER_BYTES = 32 << 10
_FANOUT = 8
_ALIKE = 4  # a file that is at least this part of those above it is joined with them
# Where the budget is full, what is dead may fill the rest before a file is written again for it alone.
_ROOM = 7 / 8


class Wanted(Struct, frozen=True, gc=False):
    """An open store: how large its sidecar is, or will be as far as one can tell, and when it was last used.

    One that is *alone* is built by itself, for it has brought others down.
    """

    format: str
    size_bytes: float
    used: float = 0.0
    is_alone: bool = False


class Present(Struct, frozen=True):
    """A file that is there: the fingerprint and rows of each of its slots. The higher serial is newer."""

    name: str
    serial: int
    size_bytes: int
    format: str
    pieces: tuple[tuple[str, int], ...]

    def shares(self) -> list[float]:
        """Return how many of the file's bytes are those of each slot."""
        whole = sum(rows + 1 for _, rows in self.pieces)
        return [self.size_bytes * (rows + 1) / whole for _, rows in self.pieces]

    def share(self, slots: Iterable[int]) -> float:
        """Return how many of the file's bytes are those of *slots*."""
        shares = self.shares()
        return sum(shares[slot] for slot in slots)


class Limits(Struct, frozen=True):
    """What bounds a plan: the budget, the largest file that may be made, and the time that `used` is in."""

    budget_bytes: int
    file_bytes: int
    now: float = 0.0


class Build(Struct, frozen=True):
    """Make one file of these stores."""

    fingerprints: tuple[str, ...]


class Combine(Struct, frozen=True):
    """Make one file of these slots of these files, which go then."""

    parts: tuple[tuple[str, tuple[int, ...]], ...]


class Drop(Struct, frozen=True):
    """Remove these files."""

    names: tuple[str, ...]


Step = Build | Combine | Drop


class Plan(Struct, frozen=True):
    """What to do next, None when all is as it should be, and the stores for which there is no room."""

    step: Step | None
    left_out: frozenset[str]


_Slots = Mapping[str, tuple[int, ...]]


def plan(
    wanted: Mapping[str, Wanted], files: Sequence[Present], refused: frozenset[str], limits: Limits
) -> Plan:
    """Return what to do next.

    *wanted* maps fingerprints to stores; those of *refused* are kept where they are there but not built.
    Doing what it says and asking again comes to an end, with no more than the budget in all files.
    """
    slots = live_slots(wanted, files)
    admitted, absent = _admitted(wanted, files, slots, limits)
    kept = {
        file.name: tuple(slot for slot in slots[file.name] if file.pieces[slot][0] in admitted)
        for file in files
    }
    step = (
        _without_living(files, kept)
        or _within_budget(files, kept, limits)
        or _without_waste(files, kept, limits)
        or _tidied(files, kept, limits)
        or _batch(wanted, [each for each in absent if each not in refused])
        or _joined(files, kept, limits)
    )
    return Plan(step, frozenset(wanted.keys() - admitted))


def live_slots(wanted: Iterable[str], files: Sequence[Present]) -> dict[str, tuple[int, ...]]:
    """Return the slots of each file that hold a wanted store which no newer file holds."""
    left = set(wanted)
    slots: dict[str, tuple[int, ...]] = {}
    for file in sorted(files, key=lambda file: (-file.serial, file.name)):
        found: list[int] = []
        for slot, (fingerprint, _) in enumerate(file.pieces):
            if fingerprint in left:
                left.discard(fingerprint)
                found.append(slot)
        slots[file.name] = tuple(found)
    return slots


def _admitted(
    wanted: Mapping[str, Wanted], files: Sequence[Present], slots: _Slots, limits: Limits
) -> tuple[set[str], list[str]]:
    """Return the stores for which there is room, and those of them that are not there, smallest first.

    What was used lately comes before what was not, and then what is there before what is not, so that
    nothing is built only to make room for what it has just made room for.
    """
    shares: dict[str, float] = {}
    for file in files:
        of_slot = file.shares()
        shares |= {file.pieces[slot][0]: of_slot[slot] for slot in slots[file.name]}

    def order(fingerprint: str) -> tuple[bool, bool, float, float, str]:
        store = wanted[fingerprint]
        is_cold = limits.now - store.used > COLD_S
        if fingerprint in shares:
            return is_cold, False, -store.used, shares[fingerprint], fingerprint
        return is_cold, True, 0.0, store.size_bytes, fingerprint

    room = limits.budget_bytes * _ROOM
    admitted: set[str] = set()
    absent: list[str] = []
    for fingerprint in sorted(wanted, key=order):
        size_bytes = shares.get(fingerprint, wanted[fingerprint].size_bytes)
        if size_bytes <= room:
            room -= size_bytes
            admitted.add(fingerprint)
            if fingerprint not in shares:
                absent.append(fingerprint)
    absent.sort(key=lambda fingerprint: (wanted[fingerprint].size_bytes, fingerprint))
    return admitted, absent


def _without_living(files: Sequence[Present], kept: _Slots) -> Step | None:
    names = tuple(file.name for file in files if not kept[file.name])
    return Drop(names) if names else None


def _within_budget(files: Sequence[Present], kept: _Slots, limits: Limits) -> Step | None:
    """Return what frees most for what it costs, where the files are over the budget."""
    if sum(file.size_bytes for file in files) <= limits.budget_bytes:
        return None
    # There is one: what is kept is never as much as the budget.
    worst = min(files, key=lambda file: (file.share(kept[file.name]) / file.size_bytes, file.name))
    if worst.share(kept[worst.name]) > limits.file_bytes:
        return Drop((worst.name,))
    return Combine(((worst.name, kept[worst.name]),))


def _without_waste(files: Sequence[Present], kept: _Slots, limits: Limits) -> Step | None:
    for file in sorted(files, key=lambda file: file.name):
        share = file.share(kept[file.name])
        if share < file.size_bytes / 2 and share <= limits.file_bytes:
            return Combine(((file.name, kept[file.name]),))
    return None


def _tidied(files: Sequence[Present], kept: _Slots, limits: Limits) -> Step | None:
    tiers: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for file in files:
        share = file.share(kept[file.name])
        if share < limits.file_bytes / 2:  # beyond, a file is left as it is
            tiers.setdefault((file.format, _tier(share)), []).append((share, file.name))
    for (_, tier), members in sorted(tiers.items()):
        chosen = _due(sorted(members), min(_bound(tier), limits.file_bytes / 2))
        if chosen:
            return Combine(tuple((name, kept[name]) for name in chosen))
    return None


def _joined(files: Sequence[Present], kept: _Slots, limits: Limits) -> Step | None:
    """Return what makes each file much smaller than the one above it."""
    by_format: dict[str, list[tuple[float, str]]] = {}
    for file in files:
        by_format.setdefault(file.format, []).append((file.share(kept[file.name]), file.name))
    for _, members in sorted(by_format.items()):
        chosen: list[str] = []
        total = 0.0
        for share, name in sorted(members, reverse=True):
            fits = total + share <= limits.file_bytes
            if chosen and not (share * _ALIKE >= total and fits):
                if len(chosen) > 1:
                    break
                chosen, total = [], 0.0
            chosen.append(name)
            total += share
        if len(chosen) > 1:
            return Combine(tuple((name, kept[name]) for name in chosen))
    return None


def _due(members: Sequence[tuple[float, str]], bound: float) -> list[str]:
    """Return the smallest of a tier's files that are a file of the next tier together, or eight."""
    chosen: list[str] = []
    total = 0.0
    for share, name in members:
        chosen.append(name)
        total += share
        if len(chosen) > 1 and (total >= bound or len(chosen) == _FANOUT):
            return chosen
    return []


def _tier(share: float) -> int:
    tier = 0
    while share >= _bound(tier):
        tier += 1
    return tier


def _bound(tier: int) -> float:
    return float(_SMALLEST_TIER_BYTES * _FANOUT**tier)


def _batch(wanted: Mapping[str, Wanted], absent: Sequence[str]) -> Step | None:
    if not absent:
        return None
    first = wanted[absent[0]]
    if first.is_alone:
        return Build((absent[0],))
    chosen: list[str] = []
    left_bytes = float(BATCH_BYTES)
    for fingerprint in absent:
        store = wanted[fingerprint]
        if store.format != first.format or store.is_alone:
            continue
        left_bytes -= store.size_bytes
        if chosen and (left_bytes < 0 or len(chosen) == BATCH_STORES):
            break
        chosen.append(fingerprint)
    return Build(tuple(chosen))
