"""Which files a table's relation reads: the explicit list of layout §4, under bounds and pins."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence, Set
from typing import Any

from collated_readers.codes import RequestError

from .instants import admits, nanoseconds
from .model import Bound, Bounds, FileList, Run, Snapshot, Table
from .refusals import refused

__all__ = ["check_parts", "collected_of", "file_list", "files_of", "pin_refused", "resolved_of"]

_NOTHING: frozenset[str] = frozenset()


def files_of(root: str, table: Table, bounds: Bounds) -> FileList:
    """Return the files of *table* in the store at *root*; that they are there is for `check_parts` to say.

    Raises:
        RequestError: as `file_list`.
    """
    is_bounded = bounds.as_of is not None or table.name in bounds.pin
    return file_list(table, bounds, collected_of(root, table) if is_bounded else _NOTHING)


def file_list(table: Table, bounds: Bounds, collected: Set[str] = _NOTHING) -> FileList:
    """Return the files of *table*; no bound and no pin leads to a snapshot in *collected*. Pure.

    Raises:
        RequestError: the table's fault, `StoreAsOfUnretained`, `PinnedBuildUnavailable`.
    """
    if table.fault is not None:
        raise table.fault.with_traceback(None)  # it is raised by every read
    pin = bounds.pin.get(table.name)
    if pin is not None:
        build = _pinned(table, pin, collected)
        if admits(bounds.as_of, build.created_at):  # the earlier of the two bounds wins
            return _listed(table, build, ())
    return _as_of(table, bounds.as_of, collected)


def _as_of(table: Table, bound: Bound | None, collected: Set[str]) -> FileList:
    admitted = [at for at, one in enumerate(table.chain) if admits(bound, one.created_at)]
    chosen = next(iter(admitted), None)
    if bound is not None:
        chosen = next((at for at in admitted if table.chain[at].snapshot_id not in collected), None)
        _check_retained(table, bound, chosen, collected)
    folded = _folded(() if chosen is None else table.chain[chosen:])
    runs = [run for run in table.runs if run.key not in folded and admits(bound, run.committed_at)]
    runs.sort(key=lambda run: (run.committed_at, run.run_id, run.node_id))
    if table.declared.write_mode == "replace":
        last = max((at for at, run in enumerate(runs) if run.parts or run.replace_frontier), default=None)
        if last is not None:
            return _listed(table, None, tuple(runs[last:]))
    return _listed(table, None if chosen is None else table.chain[chosen], tuple(runs))


def _folded(chain: Sequence[Snapshot]) -> frozenset[str]:
    """Return the runs that the first of *chain* holds; each names only those of its own fold."""
    return _NOTHING.union(*(one.includes_runs for one in chain))


def _check_retained(table: Table, bound: Bound, chosen: int | None, collected: Set[str]) -> None:
    """Refuse a bound before what is kept: runs that a snapshot stood for must be there when it does not."""
    missed = table.chain[:chosen]
    if chosen is not None:
        missed = tuple(one for one in missed if admits(bound, one.created_at))
    folded = _folded(missed)
    is_kept = folded <= {run.key for run in table.runs} and (chosen is not None or not table.is_cut)
    if is_kept or not table.chain:
        return
    later = [
        one.created_at
        for one in table.chain
        if one.snapshot_id not in collected and not admits(bound, one.created_at)
    ]
    since = f"; the oldest instant that can be answered is {nanoseconds(min(later))}" if later else ""
    raise refused(
        "StoreAsOfUnretained",
        f"what table '{table.name}' was at {nanoseconds(bound.at)} is no longer kept{since}",
    )


def _listed(table: Table, snapshot: Snapshot | None, runs: tuple[Run, ...]) -> FileList:
    files = [f"{_run_folder(table, run)}/{name}" for run in runs for name in run.parts]
    if snapshot is not None:
        files += (f"{_snapshot_folder(table, snapshot)}/{name}" for name in snapshot.parts)
    return FileList(tuple(sorted(files)), snapshot, runs)


def _run_folder(table: Table, run: Run) -> str:
    return f"{table.folder}/data/runs/{run.key}"


def _snapshot_folder(table: Table, snapshot: Snapshot) -> str:
    return f"{table.folder}/data/snapshots/{snapshot.snapshot_id}"


# ---------------------------------------------------------------------------- builds


def _pinned(table: Table, build_id: str, collected: Set[str]) -> Snapshot:
    kept = [one for one in table.chain if one.publish is not None and one.snapshot_id not in collected]
    for snapshot in kept:
        if _build_id(snapshot) == build_id:
            return snapshot
    raise pin_refused(table.name, build_id, _build_id(kept[-1]) if kept else None)


def pin_refused(table: str, build_id: str, oldest: str | None = None) -> RequestError:
    """Return the refusal of a pin; a table that nobody may see and one without builds get the same text."""
    kept = f"the oldest that is kept is {oldest}" if oldest is not None else "no build of it is kept"
    return refused("PinnedBuildUnavailable", f"no build {build_id!r:.200} of '{table:.200}'; {kept}")


def resolved_of(files: FileList) -> dict[str, Any] | None:
    """Return the build that *files* are, for `contextful.resolved`; None where they are no published build.

    The watermark is the manifest's, whatever its shape; None where the build has none.
    """
    snapshot = files.snapshot
    if snapshot is None or snapshot.publish is None or files.runs:
        return None
    return {"build_id": _build_id(snapshot), "watermark": snapshot.publish.get("watermark")}


def _build_id(snapshot: Snapshot) -> str:
    stated = (snapshot.publish or {}).get("build_id")
    return stated if isinstance(stated, str) else snapshot.snapshot_id


# ---------------------------------------------------------------------------- what is there


def collected_of(root: str, table: Table) -> frozenset[str]:
    """Return the ids of the snapshots of *table* of which a part is gone: they count as collected."""
    look = _Look(root)
    return frozenset(
        one.snapshot_id
        for one in table.chain
        if not all(look.has(f"{_snapshot_folder(table, one)}/{name}") for name in one.parts)
    )


def check_parts(root: str, table: Table, files: FileList) -> None:
    """Refuse *files* of which one is not a file in the store's own tree.

    Raises:
        RequestError: `ReadPartUnavailable`, which names the part and no path.
    """
    look = _Look(root)
    for file in files.files:
        if not look.has(file):
            part = file.removeprefix(f"{table.folder}/data/")
            raise refused("ReadPartUnavailable", f"table '{table.name}': the part {part} is not there")


class _Look:
    """Looks for files below *root*, each directory of which must be one itself and no symlink."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: dict[str, bool] = {"": True}

    def has(self, file: str) -> bool:
        folder = file.rpartition("/")[0]
        return self._is_folder(folder) and self._is(file, stat.S_IFREG)

    def _is_folder(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            known = self._is_folder(folder.rpartition("/")[0]) and self._is(folder, stat.S_IFDIR)
            self._folders[folder] = known
        return known

    def _is(self, path: str, kind: int) -> bool:
        try:
            mode = os.lstat(f"{self._root}/{path}").st_mode
        except OSError:  # gone, or not ours to read: either way nothing to be had
            return False
        return stat.S_IFMT(mode) == kind
