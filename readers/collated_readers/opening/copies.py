"""Private copies of stores that are being written: main file and `-wal`, one consistent state.

The copy is right whenever the `-wal` was not begun anew while it was made, which its header tells.
Main is copied first: whatever a checkpoint does to it meanwhile is in frames of the `-wal`, which win.
Frames that are being appended lack a right checksum or a commit and end the `-wal` of the copy.
(https://sqlite.org/fileformat.html#walformat)
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from collated_readers.contract import Budget, StoreError

from .descriptors import DESCRIPTORS
from .failure import StoreMoved
from .signature import Signature, sidecar, take_signature

__all__ = ["copy_store", "private_directory", "sweep_copies"]

_CHUNK_BYTES = 4 * 1024 * 1024
_WAL_HEADER_BYTES = 32
_FICLONE = 0x40049409  # linux/fs.h; shares the blocks where the file system can


@contextmanager
def private_directory(copies: Path) -> Generator[Path, None, None]:
    """Give a new directory in *copies* and remove it again; a lock says that it is in use."""
    copies.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory, descriptor = _locked_directory(copies)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(descriptor)


def _locked_directory(copies: Path) -> tuple[Path, int]:
    """Return a new directory and the descriptor that holds its lock; another if it was swept before that."""
    while True:
        directory = Path(tempfile.mkdtemp(dir=copies))
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if _is_locked(descriptor) and directory.exists():
            return directory, descriptor
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # no such lock on this file system: then nobody can sweep it either
    return True


def sweep_copies(copies: Path) -> None:
    """Remove what processes that died left in *copies*; nothing that a living one is making."""
    with suppress(OSError):  # there is no such directory, or it is not ours to look into
        for directory in sorted(copies.iterdir()):
            if directory.is_dir() and not directory.is_symlink():
                _sweep(directory)


def _sweep(directory: Path) -> None:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # gone already, or not ours to touch
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    except OSError:
        return  # its owner is alive
    finally:
        os.close(descriptor)


def copy_store(path: Path, signature: Signature, directory: Path, budget: Budget) -> Path:
    """Copy the store at *path* into *directory* and return the copy's path.

    Raises:
        StoreMoved: it is another file than *signature* says, or its `-wal` was begun anew.
        StoreError: `deadline_exceeded`.
        OSError: what the system said.
    """
    copy = directory / "store"
    wal = sidecar(path, "-wal")
    head = _head(wal)
    _copy_file(path, copy, budget)
    _copy_file(wal, sidecar(copy, "-wal"), budget)
    now = take_signature(path)
    if (now.device, now.inode) != (signature.device, signature.inode):
        raise StoreMoved
    if head != _head(wal):  # no salt comes back, so this tells of what was copied in between too
        raise StoreMoved
    return copy


def _copy_file(source: Path, target: Path, budget: Budget) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if not _cloned(reading, writing):
                _copy_bytes(reading, writing, budget)
        finally:
            os.close(writing)
    finally:
        DESCRIPTORS.dispose(reading)


def _cloned(reading: int, writing: int) -> bool:
    try:
        fcntl.ioctl(writing, _FICLONE, reading)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return True


def _copy_bytes(reading: int, writing: int, budget: Budget) -> None:
    left = os.fstat(reading).st_size  # not to the end, which a writer may move on for ever
    while chunk := os.read(reading, min(left, _CHUNK_BYTES)):
        budget.check()
        left -= len(chunk)
        while chunk:
            chunk = chunk[os.write(writing, chunk) :]


def _head(wal: Path) -> bytes:
    # The salts in here change whenever SQLite begins a -wal anew, even within one tick of the clock.
    descriptor = os.open(wal, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, _WAL_HEADER_BYTES, 0)
    finally:
        os.close(descriptor)


def check_room(signature: Signature, copy_limit_bytes: int) -> None:
    """Return when the store may be copied.

    Raises:
        StoreError: `too_large_to_copy`.
    """
    if signature.size + signature.wal_size > copy_limit_bytes:
        raise StoreError(
            "too_large_to_copy", "the store is being written and is larger than cache.copy_limit_bytes"
        )
