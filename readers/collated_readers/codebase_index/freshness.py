"""Whether the checkout has moved on since it was indexed: how many of its files are others now.

Files that the store does not know of are not counted: whether the program would index them depends on
its rules of what to ignore.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from collated_readers.contract import Budget, Examined
from collated_readers.opening.descriptors import DESCRIPTORS
from collated_readers.values import integer, text

__all__ = ["freshness_of"]

_FILES = "SELECT path, size_bytes, mtime_ns, sha256 FROM files ORDER BY path"
_AGAIN_S = 60.0
_BLOCK = 1 << 20


def freshness_of(db: sqlite3.Connection, root: str | None, budget: Budget) -> Examined:
    """Return the number of indexed files below *root* that have changed or are gone; nothing without one.

    Raises:
        StoreError: `deadline_exceeded`, `damaged`.
    """
    if root is None:
        return Examined({})
    top = os.path.realpath(root)
    changed = 0
    with closing(db.execute(_FILES)) as rows:
        for path, size, mtime, sha256 in rows:
            budget.check()
            known = (integer(size), integer(mtime), text(sha256))
            changed += not _is_same(top, text(path), known, budget)
    return Examined({"files_changed": changed}, _AGAIN_S)


def _is_same(top: str, path: str, known: tuple[int, int, str], budget: Budget) -> bool:
    size, mtime, sha256 = known
    try:
        real = os.path.realpath(Path(top, path))
        if not Path(real).is_relative_to(top):  # a symlink, or dots, that lead out of the checkout
            return False
        about = os.lstat(real)
        if not stat.S_ISREG(about.st_mode) or about.st_size != size:
            return False
        return about.st_mtime_ns == mtime or _sha256(real, size, budget) == sha256
    except (OSError, ValueError):  # gone, not to be read, or no path at all
        return False


def _sha256(path: str, size: int, budget: Budget) -> str:
    """Return the hash of the file's first *size* bytes and what may follow by now."""
    found = hashlib.sha256()
    # Neither a symlink nor a FIFO that took the file's place is opened for good.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        left = size + 1
        while left and (block := os.read(descriptor, min(left, _BLOCK))):
            budget.check()
            found.update(block)
            left -= len(block)
    finally:
        DESCRIPTORS.dispose(descriptor)  # it may be a store that is being read
    return found.hexdigest()
