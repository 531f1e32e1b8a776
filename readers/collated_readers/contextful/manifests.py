"""The manifests of runs and snapshots, the pointer and the commit log, as values (layout §2). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from collated_readers.codes import RequestError

from .folders import is_segment
from .instants import parse_instant
from .model import IndexEntry, Run, Snapshot
from .parsing import decoded
from .refusals import refused

__all__ = [
    "LONGEST_NODE",
    "LONGEST_RUN",
    "Commit",
    "Landed",
    "Sealed",
    "commit_of",
    "is_snapshot_id",
    "landed_of",
    "pointed_to",
    "snapshot_of",
    "unreadable",
]

LONGEST_RUN = 128
LONGEST_NODE = 64
_LARGEST_SEQ = 2**63
_SNAPSHOT_ID = re.compile(r"snapshot-\d{20}", re.ASCII)
_PART = ".parquet"
# `<column>=<value>`, the value's other bytes as %XX; nothing that the engine would take for a pattern.
_PARTITION = re.compile(r"[^/\\*?\[\]{}\x00-\x1f\x7f=]+=[A-Za-z0-9._%-]*")
_DEEPEST_PART = 32
_SIDECAR = re.compile(r"indexes(?:/[A-Za-z0-9._=%-]+){1,8}", re.ASCII)
_LONGEST_PATH = 1_000


class Sealed(ValueError):
    """A manifest that names encrypted parts (layout §9)."""


class _Part(Struct, frozen=True):
    name: str
    key_version: int = 0


class _RunManifest(Struct, frozen=True):
    run_id: str
    table: str
    node_id: str
    committed_at: str
    parts: tuple[_Part, ...] = ()
    pipeline_id: str | None = None
    fence: int | None = None
    logged: bool = False
    commit_seq: int | None = None
    replace_frontier: bool = False


class _SnapshotManifest(Struct, frozen=True):
    snapshot_id: str
    table: str
    created_at: str
    parent: str | None = None
    includes_runs: tuple[str, ...] = ()
    parts: tuple[_Part, ...] = ()
    row_count: int = 0
    indexes: tuple[Any, ...] = ()
    commit_seq: int | None = None
    publish: dict[str, Any] | None = None


class _Index(Struct, frozen=True):
    kind: Literal["fulltext", "vector"]
    path: str
    column: str
    id_column: str
    row_count: Annotated[int, Meta(ge=0)]
    tokenizer: str = ""
    term_count: Annotated[int, Meta(ge=0)] = 0
    model: str = ""
    dim: Annotated[int, Meta(ge=0)] = 0
    key_version: int = 0


class _Pointer(Struct, frozen=True):
    snapshot_id: str


class Commit(Struct, frozen=True):
    """An entry of a commit log."""

    kind: Literal["acquire", "commit"]
    table: str
    fence: int
    run_id: str | None = None


class Landed(Struct, frozen=True):
    """A run whose manifest is there, and what must stand in which pipeline's log before it is read."""

    run: Run
    pipeline: str | None = None
    entry: Commit | None = None


def unreadable(table: str, what: str) -> RequestError:
    """Return what every read of *table* is refused with, and of this one only."""
    return refused("StoreManifestUnreadable", f"table '{table}': {what}")


def is_snapshot_id(name: str) -> bool:
    """Tell whether *name* is the id of a snapshot."""
    return _SNAPSHOT_ID.fullmatch(name) is not None


def landed_of(data: bytes, table: str, run_id: str, node_id: str) -> Landed:
    """Return the run of a manifest that lies at `data/runs/<run_id>/<node_id>` of *table*.

    Raises:
        ValueError: it is no such manifest; `Sealed` where its parts are encrypted.
    """
    found = decoded(data, _RunManifest)
    if (found.table, found.run_id, found.node_id) != (table, run_id, node_id):
        raise ValueError("it is the manifest of another run")
    run = Run(
        run_id=run_id,
        node_id=node_id,
        committed_at=parse_instant(found.committed_at),
        parts=_parts(found.parts, depth=0),
        commit_seq=_seq(found.commit_seq),
        replace_frontier=found.replace_frontier,
    )
    if not found.logged or found.fence is None or found.pipeline_id is None:
        return Landed(run)
    if not is_segment(found.pipeline_id):
        raise ValueError("its pipeline's name is none")
    return Landed(run, found.pipeline_id, Commit("commit", table, found.fence, run_id))


def snapshot_of(data: bytes, table: str, snapshot_id: str) -> Snapshot:
    """Return the snapshot of a manifest that lies at `data/snapshots/<snapshot_id>` of *table*.

    Raises:
        ValueError: it is no such manifest; `Sealed` where its parts are encrypted.
    """
    found = decoded(data, _SnapshotManifest)
    if (found.table, found.snapshot_id) != (table, snapshot_id):
        raise ValueError("it is the manifest of another snapshot")
    if found.parent is not None and not is_snapshot_id(found.parent):
        raise ValueError("its parent is no snapshot")
    return Snapshot(
        snapshot_id=snapshot_id,
        parent=found.parent,
        created_at=parse_instant(found.created_at),
        includes_runs=frozenset(found.includes_runs),
        parts=_parts(found.parts, depth=_DEEPEST_PART),
        row_count=found.row_count,
        indexes=tuple(_indexes(found.indexes)),
        commit_seq=_seq(found.commit_seq),
        publish=found.publish,
    )


def pointed_to(data: bytes) -> str:
    """Return the id of the snapshot that a pointer names.

    Raises:
        ValueError: it is no pointer.
    """
    snapshot_id = decoded(data, _Pointer).snapshot_id
    if not is_snapshot_id(snapshot_id):
        raise ValueError("it names no snapshot")
    return snapshot_id


def commit_of(data: bytes) -> Commit:
    """Return an entry of a commit log.

    Raises:
        ValueError: it is none.
    """
    return decoded(data, Commit)


def _seq(value: int | None) -> int | None:
    if value is not None and not -_LARGEST_SEQ <= value < _LARGEST_SEQ:
        raise ValueError("its commit_seq is out of range")
    return value


def _parts(parts: Sequence[_Part], depth: int) -> tuple[str, ...]:
    """Return the names of *parts*, which may lie at most *depth* partition directories down."""
    for part in parts:
        if part.key_version:
            raise Sealed("its parts are encrypted")
        *partitions, name = part.name.split("/")
        is_part = is_segment(name) and name.endswith(_PART) and len(part.name) <= _LONGEST_PATH
        if not is_part or len(partitions) > depth or not all(_PARTITION.fullmatch(one) for one in partitions):
            raise ValueError(f"{part.name!r:.80} is no part's name")
    names = tuple(part.name for part in parts)
    if len(set(names)) < len(names):
        raise ValueError("it names a part twice")
    return names


def _indexes(entries: Sequence[Any]) -> Iterator[IndexEntry]:
    """Yield the sidecars that are of a known shape; others are ignored, since reads do without."""
    for entry in entries:
        with suppress(msgspec.ValidationError):
            found = msgspec.convert(entry, _Index)
            is_inside = _SIDECAR.fullmatch(found.path) and not {".", ".."} & {*found.path.split("/")}
            if is_inside and found.key_version == 0:
                yield _entry(found, entry)


def _entry(found: _Index, entry: Mapping[str, Any]) -> IndexEntry:
    return IndexEntry(
        kind=found.kind,
        path=found.path,
        column=found.column,
        id_column=found.id_column,
        row_count=found.row_count,
        tokenizer=found.tokenizer,
        term_count=found.term_count,
        model=found.model,
        dim=found.dim,
        manifest=entry,
    )
