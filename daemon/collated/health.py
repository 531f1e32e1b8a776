"""Which stores to leave alone for a while because they keep failing (DESIGN §8). No I/O, no clock."""

from msgspec import Struct

__all__ = ["Health"]

# Failures in a row before a store is backed off, then how long: 1 s doubling to a minute.
_PATIENCE = 3
_FIRST_S = 1.0
_LONGEST_S = 60.0


class _Record(Struct, frozen=True):
    fingerprint: str | None
    count: int
    until: float
    message: str


class Health:
    """Counts failures in a row for each path; a rewritten store, with another fingerprint, starts afresh."""

    def __init__(self) -> None:
        """Begin with every store in good health."""
        self._records: dict[str, _Record] = {}

    def failed(self, path: str, fingerprint: str | None, message: str, now: float) -> None:
        """Note a failure that is the store's own fault; *now* in seconds of the caller's clock."""
        before = self._records.get(path)
        count = before.count + 1 if before and before.fingerprint == fingerprint else 1
        wait = min(_LONGEST_S, _FIRST_S * 2 ** min(count - _PATIENCE, 16)) if count >= _PATIENCE else 0.0
        self._records[path] = _Record(fingerprint, count, now + wait, message)

    def answered(self, path: str) -> None:
        """Note that the store answered."""
        self._records.pop(path, None)

    @property
    def is_perfect(self) -> bool:
        """Tell whether no store has failed since it last answered."""
        return not self._records

    def forgive(self) -> None:
        """Try every store again: a person asked for a rescan."""
        self._records.clear()

    def backed_off(self, path: str, fingerprint: str | None, now: float) -> str | None:
        """Return why the store is not to be asked at *now*, None when it may be."""
        record = self._records.get(path)
        if record is None or record.fingerprint != fingerprint or record.until <= now:
            return None
        return (
            f"failed {record.count} times in a row, the last time: {record.message}; "
            f"tried again in {record.until - now:.0f} s, or at once after `collate rescan`"
        )
