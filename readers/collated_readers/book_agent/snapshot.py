"""Is a store a finished snapshot? What lies beside it says whether somebody is writing it (O1–O7)."""

from __future__ import annotations

import os
from pathlib import Path

from collated_readers.contract import StoreError
from collated_readers.opening.descriptors import DESCRIPTORS
from collated_readers.opening.signature import sidecar

__all__ = ["check_header", "check_sidecars", "incomplete"]

_SUFFIXES = ("-wal", "-shm", "-journal")
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_WAL = 2
_ADVICE = "have its program close it, with journal_mode=DELETE, and copy it whole"


def check_sidecars(path: Path) -> None:
    """Return when nothing lies beside *path* nor beside what it leads to; SQLite is not called.

    Raises:
        StoreError: `sqlite_snapshot_incomplete`.
    """
    for each in dict.fromkeys((path, Path(os.path.realpath(path)))):
        for suffix in _SUFFIXES:
            if os.path.lexists(sidecar(each, suffix)):
                raise incomplete(f"a file {suffix} lies beside it")


def check_header(path: Path) -> None:
    """Return when the file begins like a database that is not in WAL mode, which SQLite would write beside.

    Raises:
        StoreError: `not_a_database`, `sqlite_snapshot_incomplete`.
        OSError: what the system said.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        header = os.pread(descriptor, _HEADER_BYTES, 0)
    finally:
        DESCRIPTORS.dispose(descriptor)  # this process may have it open, and locked
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreError("not_a_database", "the file does not begin like a SQLite database")
    if _WAL in header[18:20]:
        raise incomplete("wal_mode_header: it is in WAL mode")


def incomplete(what: str) -> StoreError:
    """Return the failure of a store that is no finished snapshot."""
    return StoreError("sqlite_snapshot_incomplete", f"the store is no finished snapshot: {what}; {_ADVICE}")
