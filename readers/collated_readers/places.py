"""One hit for each place: of hits whose lines overlap in one document, the first is shown."""

from __future__ import annotations

from msgspec import UNSET

from .contract import Hit

__all__ = ["Places"]


class Places:
    """The places of a list so far, best hit first; a hit without lines is a place of its own."""

    def __init__(self) -> None:
        """Begin a list."""
        self._taken: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def take(self, store: str, hit: Hit) -> bool:
        """Tell whether no hit of *store* before overlaps *hit*, and remember it then."""
        first, last = hit.line_start, hit.line_end
        if first is UNSET or last is UNSET:
            return True
        taken = self._taken.setdefault((store, hit.doc), [])
        if any(first <= end and start <= last for start, end in taken):
            return False
        taken.append((first, last))
        return True
