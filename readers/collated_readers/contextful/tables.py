"""The tables of a store: which there are, and each one's runs, snapshots and columns (layout §1, §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from collated_readers.codes import RequestError

from .folders import Entry, Folder, Unusable, is_segment
from .logs import CommitLogs
from .manifests import (
    LONGEST_NODE,
    LONGEST_RUN,
    Landed,
    Sealed,
    landed_of,
    pointed_to,
    snapshot_of,
    unreadable,
)
from .model import Column, Declared, Run, Snapshot, Table
from .names import is_table_name
from .refusals import refused
from .schemas import columns_of_schema

__all__ = ["tables_in"]

_LARGEST_MANIFEST = 16 * 1024 * 1024
_MANIFEST = "_manifest.json"
_SCHEMA = "schema.json"
_POINTER = "_pointer.json"

_T = TypeVar("_T")


def tables_in(tables: Folder, declared: Mapping[str, Declared], logs: CommitLogs) -> Iterator[Table]:
    """Yield every table that lies in the store's folder *tables*, those with faults too.

    Raises:
        OSError: the system has no room for this; nothing of it is the store's fault.
    """
    yield from _Walk(declared, logs).below(tables, "")


class _Walk:
    """Goes through the tree of tables; one can lie below another."""

    def __init__(self, declared: Mapping[str, Declared], logs: CommitLogs) -> None:
        self._declared = declared
        self._logs = logs

    def below(self, folder: Folder, prefix: str) -> Iterator[Table]:
        """Yield the tables in *folder*, whose names begin with *prefix*."""
        for entry in folder.entries():
            name = f"{prefix}{entry.name}"
            if not is_table_name(name):
                continue
            if entry.is_link:
                yield self._faulty(name, "it is a symlink, and those are not followed")
            elif entry.is_folder:
                yield from self._at(folder, entry.name, name)

    def _at(self, folder: Folder, segment: str, name: str) -> Iterator[Table]:
        try:
            with folder.folder(segment) as inside:
                if inside is None:
                    return
                if inside.holds(_SCHEMA):
                    yield _table(inside, self._declared.get(name, Declared(name)), self._logs)
                elif name in self._declared and inside.holds("data"):
                    yield self._faulty(name, f"it has data and no {_SCHEMA}")
                yield from self.below(inside, f"{name}/")
        except Unusable as error:
            yield self._faulty(name, str(error))

    def _faulty(self, name: str, what: str) -> Table:
        return Table(name, self._declared.get(name, Declared(name)), fault=unreadable(name, what))


def _table(folder: Folder, declared: Declared, logs: CommitLogs) -> Table:
    """Return one table. What is read is read in this order: no run then has a column that is not known."""
    name = declared.name
    reading = _Reading(name)
    with folder.folder("data") as data:
        runs, waiting = reading.take(lambda: _runs(data, name, logs)) or ((), ())
        chain, is_cut = reading.take(lambda: _chain(folder, data, name)) or ((), False)
    columns = reading.take(lambda: _columns(folder))
    ledger = reading.take(lambda: _ledger(folder, name))
    return Table(
        name=name,
        declared=declared,
        columns=columns or (),
        runs=runs,
        chain=chain,
        is_cut=is_cut,
        ledger=ledger or (),
        fault=reading.fault,
        waiting=waiting,
    )


class _Reading:
    """Keeps the first thing that is wrong with a table."""

    def __init__(self, table: str) -> None:
        self._table = table
        self.fault: RequestError | None = None

    def take(self, read: Callable[[], _T]) -> _T | None:
        """Return what *read* gives, None where the table is at fault."""
        try:
            return read()
        except Sealed as error:
            fault = refused("StoreEncryptionKeyUnbound", f"table '{self._table}': {error}")
        except (ValueError, Unusable) as error:
            fault = unreadable(self._table, str(error))
        self.fault = self.fault or fault
        return None


def _parsed(folder: Folder, name: str, where: str, parse: Callable[[bytes], _T]) -> _T | None:
    """Return what a file of the table says, None where there is no such file."""
    try:
        data = folder.read(name, _LARGEST_MANIFEST)
        return None if data is None else parse(data)
    except Sealed:
        raise
    except (ValueError, Unusable) as error:
        raise ValueError(f"{where}: {error}") from error


def _columns(folder: Folder) -> tuple[Column, ...]:
    return _parsed(folder, _SCHEMA, _SCHEMA, columns_of_schema) or ()


def _ledger(folder: Folder, table: str) -> tuple[str, ...]:
    with folder.folder("requests") as requests:
        entries = requests.entries() if requests is not None else []
    return tuple(f"tables/{table}/requests/{entry.name}" for entry in entries if _is_ledger(entry))


def _is_ledger(entry: Entry) -> bool:
    is_named = entry.name.endswith(".parquet") and is_segment(entry.name) and not entry.name.startswith(".")
    return is_named and entry.is_file


# ---------------------------------------------------------------------------- runs


def _runs(data: Folder | None, table: str, logs: CommitLogs) -> tuple[tuple[Run, ...], tuple[int, ...]]:
    """Return the committed runs, by name, and the numbers of those that may still be committed."""
    landed = _landed(data, table)
    committed = {one.run.key for one in landed if logs.is_committed(one)}
    waiting = (
        one.run.commit_seq for one in landed if one.run.key not in committed and not logs.is_overtaken(one)
    )
    return (
        tuple(one.run for one in landed if one.run.key in committed),
        tuple(number for number in waiting if number is not None),
    )


def _landed(data: Folder | None, table: str) -> list[Landed]:
    """Return the runs that have a manifest, by name."""
    if data is None:
        return []
    with data.folder("runs") as runs:
        if runs is None:
            return []
        return [
            landed
            for name, inside in _folders(runs, LONGEST_RUN)
            for node, at in _folders(inside, LONGEST_NODE)
            if (landed := _run(at, table, name, node)) is not None
        ]


def _folders(folder: Folder, longest: int) -> Iterator[tuple[str, Folder]]:
    """Yield the directories in *folder* that can be a run's or a node's, each open until the next."""
    for entry in folder.entries():
        if is_segment(entry.name, longest) and (entry.is_folder or entry.is_link):
            with folder.folder(entry.name) as inside:
                if inside is not None:
                    yield entry.name, inside


def _run(folder: Folder, table: str, run_id: str, node_id: str) -> Landed | None:
    """Return a run, None while it has no manifest."""
    return _parsed(
        folder, _MANIFEST, f"run {run_id}/{node_id}", lambda data: landed_of(data, table, run_id, node_id)
    )


# ---------------------------------------------------------------------------- snapshots


def _chain(folder: Folder, data: Folder | None, table: str) -> tuple[tuple[Snapshot, ...], bool]:
    """Return the pointer's snapshot and its ancestors, and whether a further one is gone."""
    at = _parsed(folder, _POINTER, _POINTER, pointed_to)
    if at is None:
        return (), False
    found: dict[str, Snapshot] = {}
    while at is not None:
        if at in found:
            raise ValueError(f"{at} is its own ancestor")
        snapshot = _snapshot(data, table, at)
        if snapshot is None:
            break
        found[at] = snapshot
        at = snapshot.parent
    if not found:
        raise ValueError(f"{at}, which the pointer names, is not there")
    return tuple(found.values()), at is not None


def _snapshot(data: Folder | None, table: str, snapshot_id: str) -> Snapshot | None:
    if data is None:
        return None
    with data.folder("snapshots") as snapshots:
        if snapshots is None:
            return None
        with snapshots.folder(snapshot_id) as folder:
            if folder is None:
                return None
            return _parsed(folder, _MANIFEST, snapshot_id, lambda raw: snapshot_of(raw, table, snapshot_id))
