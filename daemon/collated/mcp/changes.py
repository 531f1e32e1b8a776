"""What an agent has to be told when the stores change: nothing of what stayed as it was. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from collated.protocol import StoreStatus
from collated_readers import State

from .tools import announced

__all__ = ["Changed", "changed"]


class Changed(NamedTuple):
    """Whether the tools are others, whether open stores came or went, whether one holds something else."""

    tools: bool
    stores: bool
    contents: bool


def changed(before: Mapping[str, StoreStatus], now: Mapping[str, StoreStatus]) -> Changed:
    """Return what changed for an agent who knows the stores as they were *before*."""
    had, has = _fingerprints(before), _fingerprints(now)
    return Changed(
        announced(list(before.values())) != announced(list(now.values())),
        had.keys() != has.keys(),
        had != has,
    )


def _fingerprints(known: Mapping[str, StoreStatus]) -> dict[str, str | None]:
    return {name: store.fingerprint for name, store in known.items() if store.state == State.OPEN}
