"""The signature of a context store: one walk by `stat` alone, at every look and before every question."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from functools import lru_cache

from msgspec import Struct

from .declarations import DECLARATION, PIPELINES, SUFFIXES
from .manifests import is_snapshot_id
from .names import MOST_SEGMENTS

__all__ = ["Stamp", "project_of", "stamp_of"]

_MANIFEST = "_manifest.json"
_OF_ROOT = ("config.toml", "_erasure_frontier.json")
_OF_TABLE = ("schema.json", "_pointer.json")
_HOME = (".contextful", "context")
_SETTLE_NS = 20_000_000  # older kernels stamp directories with the last timer tick, at most 10 ms ago
_MOST_RUNS = 1 << 16


class Stamp(Struct, frozen=True):
    """What a store is at one moment.

    *digest* changes with each commit, fold, landed schema, ledger and declaration; parts do not enter it,
    since they never change. *directories* are those in which the next change will show.
    """

    digest: str
    size_bytes: int
    newest_ns: int
    directories: tuple[str, ...]


def project_of(root: str) -> tuple[str | None, str]:
    """Return the directory of the project whose store is at *root*, and the project's name.

    The directory is None where the store lies by itself, without declarations.
    """
    parts = root.rstrip("/").split("/")
    for at in range(len(parts) - len(_HOME) - 1, 0, -1):
        if tuple(parts[at : at + len(_HOME)]) == _HOME:
            return "/".join(parts[:at]) or "/", "/".join(parts[at + len(_HOME) :])
    return None, parts[-1]


def stamp_of(root: str) -> Stamp:
    """Return the stamp of the store at *root*.

    What is gone while it is looked at is left out, as what was never there: the next look will tell.
    """
    walk = _Walk()
    project, _ = project_of(root)
    if project is not None:
        _walk_project(walk, project)
    _walk_store(walk, root)
    walk.seen.sort()
    seen = "\n".join(walk.seen).encode(errors="surrogateescape")
    digest = hashlib.blake2b(seen, digest_size=16).hexdigest()
    return Stamp(digest, walk.size_bytes, walk.newest_ns, tuple(walk.directories))


class _Walk:
    """Collects what is seen. A symlink is seen as such and never followed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.directories: list[str] = []
        self.size_bytes = 0
        self.newest_ns = 0

    def file(self, path: str) -> bool:
        """See the file at *path*; tell whether there is one."""
        try:
            about = os.lstat(path)
        except OSError:  # gone, or not ours to see
            return False
        self.seen.append(f"{path}\0{about.st_ino}\0{about.st_size}\0{about.st_mtime_ns}\0{about.st_mode}")
        self.size_bytes += about.st_size
        self.newest_ns = max(self.newest_ns, about.st_mtime_ns)
        return True

    def into(self, directory: str) -> list[os.DirEntry[str]]:
        """Return what is in *directory*, which is where changes will show; nothing where it is none."""
        try:
            if not stat.S_ISDIR(os.lstat(directory).st_mode):
                self.file(directory)
                return []
        except OSError:
            return []
        self.directories.append(directory)
        return _entries(directory)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def _walk_project(walk: _Walk, project: str) -> None:
    walk.directories.append(project)
    walk.file(f"{project}/{DECLARATION}")
    for entry in walk.into(f"{project}/{PIPELINES}"):
        if entry.name.endswith(SUFFIXES):
            walk.file(entry.path)


def _walk_store(walk: _Walk, root: str) -> None:
    walk.directories.append(root)
    for name in _OF_ROOT:
        walk.file(f"{root}/{name}")
    for pipeline in walk.into(f"{root}/cursors"):
        for node in walk.into(pipeline.path):
            for entry in walk.into(node.path):
                if entry.name.endswith(".json"):
                    walk.file(entry.path)
    _walk_tables(walk, f"{root}/tables", 0)


def _walk_tables(walk: _Walk, directory: str, depth: int) -> None:
    for entry in walk.into(directory):
        if entry.name in _OF_TABLE:
            walk.file(entry.path)
        elif entry.name == "data":
            _walk_data(walk, entry.path)
        elif entry.name == "requests":
            for ledger in walk.into(entry.path):
                walk.file(ledger.path)
        elif entry.is_symlink():
            walk.file(entry.path)
        elif entry.is_dir() and depth < MOST_SEGMENTS:
            _walk_tables(walk, entry.path, depth + 1)


def _walk_data(walk: _Walk, data: str) -> None:
    walk.into(data)
    for run in walk.into(f"{data}/runs"):
        if run.is_symlink():
            walk.file(run.path)
        else:
            _walk_run(walk, run.path)
    for snapshot in walk.into(f"{data}/snapshots"):
        if is_snapshot_id(snapshot.name):
            walk.file(f"{snapshot.path}/{_MANIFEST}")


def _walk_run(walk: _Walk, run: str) -> None:
    for node in _nodes(run):
        if not walk.file(f"{node}/{_MANIFEST}") and _is_directory(node):
            # It is being written, and its manifest will appear here. What is committed never changes.
            walk.directories += (run, node)


def _nodes(run: str) -> tuple[str, ...]:
    """Return the paths in *run*, from memory while it has not changed: listing all runs takes longest."""
    try:
        about = os.lstat(run)
        if abs(time.time_ns() - about.st_mtime_ns) < _SETTLE_NS:
            return _listed(run)
        return _known(run, about.st_dev, about.st_ino, about.st_mtime_ns)
    except OSError:  # gone, no directory, or not ours to see
        return ()


def _listed(run: str) -> tuple[str, ...]:
    with os.scandir(run) as found:
        return tuple(node.path for node in found)


@lru_cache(_MOST_RUNS)
def _known(run: str, device: int, inode: int, mtime_ns: int) -> tuple[str, ...]:
    return _listed(run)


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - strings throughout, for speed
    except OSError:
        return False
