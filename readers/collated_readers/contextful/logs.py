"""The commit logs of a store's nodes: what a logged run must stand in before it is read (layout §2.2)."""

from __future__ import annotations

import re

from .folders import Folder, Unusable
from .manifests import Commit, Landed, commit_of

__all__ = ["CommitLogs"]

_ENTRY = re.compile(r"\d+\.json", re.ASCII)
_LARGEST_ENTRY = 1024 * 1024


class CommitLogs:
    """Reads each node's log once, when a run asks for it."""

    def __init__(self, cursors: Folder | None) -> None:
        """Read below *cursors*, the store's folder of logs, None where it has none."""
        self._cursors = cursors
        self._read: dict[tuple[str, str], tuple[frozenset[Commit], str | None]] = {}

    def is_committed(self, landed: Landed) -> bool:
        """Tell whether *landed* may be read; a run that needs no entry may.

        Raises:
            ValueError: its entry is not found, and may be one that cannot be read.
        """
        if landed.entry is None or landed.pipeline is None:
            return True
        entries, damage = self._log(landed.pipeline, landed.run.node_id)
        if landed.entry in entries:
            return True
        if damage is not None:
            log = f"{landed.pipeline}/{landed.run.node_id}"
            raise ValueError(f"the commit log of {log} cannot be read: {damage}")
        return False

    def is_overtaken(self, landed: Landed) -> bool:
        """Tell whether *landed*, which is not committed, never will be: its table was acquired since."""
        if landed.entry is None or landed.pipeline is None:
            return False
        entries, _ = self._log(landed.pipeline, landed.run.node_id)
        mine = landed.entry
        return any(
            one.kind == "acquire" and one.table == mine.table and one.fence > mine.fence for one in entries
        )

    def _log(self, pipeline: str, node: str) -> tuple[frozenset[Commit], str | None]:
        place = (pipeline, node)
        if place not in self._read:
            self._read[place] = self._entries(pipeline, node)
        return self._read[place]

    def _entries(self, pipeline: str, node: str) -> tuple[frozenset[Commit], str | None]:
        """Return the entries of one node's log, and what is wrong with it, if anything is."""
        if self._cursors is None:
            return frozenset(), None
        try:
            with self._cursors.folder(pipeline) as nodes:
                if nodes is None:
                    return frozenset(), None
                with nodes.folder(node) as log:
                    return (frozenset(), None) if log is None else _entries(log)
        except Unusable as error:
            return frozenset(), str(error)


def _entries(log: Folder) -> tuple[frozenset[Commit], str | None]:
    found: list[Commit] = []
    damage: str | None = None
    for entry in log.entries():
        if _ENTRY.fullmatch(entry.name):
            try:
                found.append(commit_of(log.read(entry.name, _LARGEST_ENTRY) or b""))
            except (ValueError, Unusable) as error:
                damage = f"{entry.name}: {error}"
    return frozenset(found), damage
