"""The commit logs of a store's nodes: what a logged run must stand in before it is read (layout §2.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from msgspec import Struct

from .folders import Folder, Unusable
from .manifests import Commit, Landed, commit_of

__all__ = ["CommitLogs"]

_ENTRY = re.compile(r"\d+\.json", re.ASCII)
_LARGEST_ENTRY = 1024 * 1024


class _Log(Struct, frozen=True):
    """One node's log: its entries, the highest fence at which each table was acquired, what is wrong."""

    entries: Set[Commit] = frozenset()
    acquired: Mapping[str, int] = {}
    damage: str | None = None


class CommitLogs:
    """Reads each node's log once, when a run asks for it."""

    def __init__(self, cursors: Folder | None) -> None:
        """Read below *cursors*, the store's folder of logs, None where it has none."""
        self._cursors = cursors
        self._read: dict[tuple[str, str], _Log] = {}

    def is_committed(self, landed: Landed) -> bool:
        """Tell whether *landed* may be read; a run that needs no entry may.

        Raises:
            ValueError: its entry is not found, and may be one that cannot be read.
        """
        if landed.entry is None or landed.pipeline is None:
            return True
        log = self._log(landed.pipeline, landed.run.node_id)
        if landed.entry in log.entries:
            return True
        if log.damage is not None:
            place = f"{landed.pipeline}/{landed.run.node_id}"
            raise ValueError(f"the commit log of {place} cannot be read: {log.damage}")
        return False

    def is_overtaken(self, landed: Landed) -> bool:
        """Tell whether *landed*, which is not committed, never will be: its table was acquired since."""
        if landed.entry is None or landed.pipeline is None:
            return False
        log = self._log(landed.pipeline, landed.run.node_id)
        return log.acquired.get(landed.entry.table, landed.entry.fence) > landed.entry.fence

    def _log(self, pipeline: str, node: str) -> _Log:
        place = (pipeline, node)
        if place not in self._read:
            self._read[place] = self._open(pipeline, node)
        return self._read[place]

    def _open(self, pipeline: str, node: str) -> _Log:
        if self._cursors is None:
            return _Log()
        try:
            with self._cursors.folder(pipeline) as nodes:
                if nodes is None:
                    return _Log()
                with nodes.folder(node) as folder:
                    return _Log() if folder is None else _log_of(folder)
        except Unusable as error:
            return _Log(damage=str(error))


def _log_of(folder: Folder) -> _Log:
    entries = set[Commit]()
    acquired = dict[str, int]()
    damage: str | None = None
    for file in folder.entries():
        if not _ENTRY.fullmatch(file.name):
            continue
        try:
            entry = commit_of(folder.read(file.name, _LARGEST_ENTRY) or b"")
        except (ValueError, Unusable) as error:
            damage = f"{file.name}: {error}"
            continue
        entries.add(entry)
        if entry.kind == "acquire":
            acquired[entry.table] = max(entry.fence, acquired.get(entry.table, entry.fence))
    return _Log(entries, acquired, damage)
