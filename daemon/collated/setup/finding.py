"""Looks for stores below folders: bounded, on their file systems alone, following no symlinked folder.

A project's stores are found by the very patterns that the daemon is then told to watch. Files that lie by
themselves are stores when a reader recognises them: their names say nothing.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from collated.locate import listing
from collated.settings import Watched
from collated_readers import Budget, RequestError, StoreError
from collated_readers.contract import PROJECT_FOLDERS
from collated_readers.opening import ask, open_store

from .model import Looked, SeenStore
from .planning import PROJECT_PATTERNS

__all__ = ["look"]

SUFFIXES = (".sqlite", ".db")
"""Of files that may be stores by themselves: those of `Watched.match`."""

_MOST_ENTRIES = 20_000
_MOST_SUBFOLDERS = 500
_OPENING_S = 2.0
# Folders that hold what programs fetched or made, besides all whose names begin with a dot.
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "lost+found", "$RECYCLE.BIN"})
_MARKERS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
_TOPS = frozenset(folder.split("/")[0] for folder in PROJECT_FOLDERS)
# Said of what a program is writing at the moment; the daemon copies it, which is too much for a look.
_BUSY = frozenset({"too_large_to_copy", "hot_journal", "locked", "keeps_changing", "deadline_exceeded"})


class _Folder(Struct):
    """A folder that was listed, and what is still to be said of it."""

    path: str
    depth: int
    device: int
    entries: list[os.DirEntry[str]]


class _Walk:
    """One walk; what it found is in its fields."""

    def __init__(self, network: Iterable[str]) -> None:
        self.stores: dict[str, SeenStore] = {}
        self.left_out: dict[str, str] = {}
        self.crowded: set[str] = set()
        self.strangers: set[tuple[str, str]] = set()
        self.folders = 0
        self._network = frozenset(network)

    def step(self, path: str, depth: int, device: int) -> list[tuple[str, int, int]]:
        """Look into one folder, and return those to look into next."""
        self.folders += 1
        try:
            with os.scandir(path) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            self.left_out[path] = error.strerror or "it cannot be read"
            return []
        names = {entry.name for entry in entries}
        if _TOPS & names:
            self._add_project(path)
        if _MARKERS & names:
            return []
        if len(entries) > _MOST_ENTRIES:
            self.left_out[path] = f"over {_MOST_ENTRIES} entries; what lies below is not looked at"
            self.crowded.add(path)
            return []
        return self._descend(_Folder(path, depth, device, entries))

    def _descend(self, folder: _Folder) -> list[tuple[str, int, int]]:
        for entry in folder.entries:
            if _may_be_a_store(entry):
                self._add_file(folder.path, entry)
        below = [entry for entry in folder.entries if self._is_of_interest(entry, folder.device)]
        if len(below) > _MOST_SUBFOLDERS:
            self.crowded.add(folder.path)
        if folder.depth == 0:
            return []
        return [(entry.path, folder.depth - 1, folder.device) for entry in below]

    def _is_of_interest(self, entry: os.DirEntry[str], device: int) -> bool:
        if entry.name.startswith(".") or entry.name in _SKIPPED or entry.path in self._network:
            return False
        try:  # a network file system that does not answer would hang in `stat`
            return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == device
        except OSError:
            return False

    def _add_project(self, folder: str) -> None:
        for path, found in listing((Watched(folder, PROJECT_PATTERNS),), ()).found.items():
            if found.reason is not None:
                self.left_out[path] = found.reason.message
                continue
            try:
                self.stores[path] = SeenStore(path, _format_of(path), folder)
            except StoreError as error:
                if error.code in _BUSY:
                    self.stores[path] = SeenStore(path, "", folder)
                else:
                    self.left_out[path] = error.message

    def _add_file(self, folder: str, entry: os.DirEntry[str]) -> None:
        path = os.path.realpath(entry.path)
        try:
            self.stores.setdefault(path, SeenStore(path, _format_of(path), None))
        except StoreError as error:
            self.strangers.add((folder, Path(entry.name).suffix))
            if error.code in _BUSY:  # any other is somebody's database, of which there are thousands
                self.left_out[path] = "a program is writing it; look again later"


def look(
    roots: Iterable[str],
    depth: int,
    *,
    network: Iterable[str] = (),
    tell: Callable[[int, int], None] = lambda _folders, _stores: None,
) -> Looked:
    """Return the stores below *roots*, at most *depth* folders down.

    *tell* is called with how many folders were looked into and how many stores found. *network* are mount
    points that are not looked into.
    """
    walk = _Walk(network)
    todo = list(_beginnings(roots, depth))
    while todo:
        todo += reversed(walk.step(*todo.pop()))
        tell(walk.folders, len(walk.stores))
    return Looked(
        walk.stores, walk.left_out, frozenset(walk.crowded), frozenset(walk.strangers), walk.folders
    )


def _beginnings(roots: Iterable[str], depth: int) -> Iterator[tuple[str, int, int]]:
    for root in sorted(set(roots), reverse=True):
        yield root, depth, Path(root).stat().st_dev


def _may_be_a_store(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or not entry.name.endswith(SUFFIXES):
        return False
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _format_of(path: str) -> str:
    """Return the format of the store at *path*, which is opened as the daemon would, but never copied.

    Raises:
        StoreError: why it cannot be opened, or `unknown_format`.
    """
    from collated_readers.registry import recognised

    budget = Budget.lasting(_OPENING_S)
    db = open_store(Path(path), copies=Path(os.devnull, "copies"), copy_limit_bytes=0, budget=budget)
    try:
        return ask(db, recognised, budget).format
    except RequestError as error:  # which nobody made here: a name in the store is not Unicode
        raise StoreError("damaged", error.message) from error
    finally:
        db.close()
