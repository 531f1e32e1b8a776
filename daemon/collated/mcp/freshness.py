"""How old what a store says is, in one short phrase. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

from collated.protocol import StoreStatus

__all__ = ["freshness"]

_WORDS: Mapping[str, str] = {
    "updated_at": "indexed",
    "built_at": "indexed",
    "ingested_at": "ingested",
    "committed_at": "committed",
}
"""Details that are instants, the first of which that is there counts, and what happened then."""

_UNITS = (("year", 31_536_000), ("month", 2_592_000), ("day", 86_400), ("hour", 3_600), ("minute", 60))


def freshness(store: StoreStatus, now: float) -> str | None:
    """Return such as "indexed 3 days ago, 12 files changed since" at *now*; None where nothing is known."""
    when, changed = _when(store, now), _changed(store)
    if changed and not when:
        return f"{changed} it was indexed"
    return ", ".join(each for each in (when, changed) if each) or None


def _when(store: StoreStatus, now: float) -> str | None:
    for key, words in _WORDS.items():
        said = store.details.get(key)
        instant = _instant(said) if isinstance(said, str) else None
        if instant is not None:
            return f"{words} {_ago(now - instant)}"
    return None


def _changed(store: StoreStatus) -> str | None:
    changed = store.details.get("files_changed")
    if not isinstance(changed, int):
        return None
    files = {0: "no file", 1: "1 file"}.get(changed, f"{changed} files")
    return f"{files} changed since"


@lru_cache(4_096)
def _instant(value: str) -> float | None:
    """Return the seconds since 1970 of an ISO 8601 instant, which is UTC where it does not say."""
    try:
        instant = datetime.fromisoformat(value)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):  # the store says what it likes
        return None


def _ago(seconds: float) -> str:
    for unit, size in _UNITS:
        count = int(seconds // size)
        if count > 0:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
