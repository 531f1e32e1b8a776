"""The cheap identity of a store's bytes, from `stat` alone (DESIGN §1, §3)."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from msgspec import Struct

from collated_readers.contract import Budget, StoreError

from .directories import is_directory_store, look_into
from .failure import from_os

__all__ = ["Signature", "look_at", "settled_signature", "sidecar", "take_signature"]

_SETTLE_NS = 20_000_000  # older kernels stamp files with the last timer tick, at most 10 ms ago
_SETTLE_ATTEMPTS = 5
_DIGITS = 15  # of a digest in hex: what the state file's integers hold


class Signature(Struct, frozen=True):
    """Who the file is and when it last changed; `wal_*` are 0 where there is no `-wal`.

    Of a store that is a directory, `size` is that of all its files, and `mtime_ns` a digest of their stamps.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    wal_size: int
    wal_mtime_ns: int


def sidecar(path: Path, suffix: str) -> Path:
    """Return the path of the file that SQLite keeps beside *path*: `-wal`, `-journal`."""
    return path.with_name(path.name + suffix)


def take_signature(path: Path) -> Signature:
    """Return the signature of the store at *path*; never opens it, so never blocks on a FIFO.

    Raises:
        StoreError: `not_a_file`, `vanished`, `permission_denied`, `broken_symlink`, `io_error`,
            `empty_file`.
    """
    return look_at(path)[0]


def look_at(path: Path) -> tuple[Signature, tuple[str, ...]]:
    """Return the signature, and of a store that is a directory those in which a change would show.

    Raises:
        StoreError: as `take_signature`.
    """
    name = os.fspath(path)  # twice for every question to a store: pathlib's own stat costs as much again
    try:
        main = os.stat(name)  # noqa: PTH116 - as above
    except FileNotFoundError as error:
        if path.is_symlink():
            raise StoreError("broken_symlink", "a symlink leads nowhere") from error
        raise from_os(error) from error
    except OSError as error:
        raise from_os(error) from error
    if stat.S_ISDIR(main.st_mode):
        return _of_directory(path, main)
    if not stat.S_ISREG(main.st_mode):
        raise StoreError("not_a_file", f"{_kind(main.st_mode)}, not a file")
    if main.st_size == 0:
        raise StoreError("empty_file", "a file of no bytes")
    wal_size, wal_mtime_ns = _wal(name)
    return Signature(main.st_dev, main.st_ino, main.st_size, main.st_mtime_ns, wal_size, wal_mtime_ns), ()


def _of_directory(path: Path, about: os.stat_result) -> tuple[Signature, tuple[str, ...]]:
    if not is_directory_store(path):
        raise StoreError("not_a_file", "a directory, not a file")
    stamp = look_into(path)
    digest = int(stamp.digest[:_DIGITS], 16)
    return Signature(about.st_dev, about.st_ino, stamp.size_bytes, digest, 0, 0), stamp.directories


def _kind(mode: int) -> str:
    for is_kind, name in (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if is_kind(mode):
            return name
    return "a device"


def _wal(name: str) -> tuple[int, int]:
    if not os.access(name + "-wal", os.F_OK):  # as SQLite asks; half the time of a `stat` that fails
        return 0, 0
    try:
        wal = os.stat(name + "-wal")  # noqa: PTH116 - as above
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise from_os(error) from error
    # A directory or FIFO of that name holds no frames, whatever its size says.
    return (wal.st_size if stat.S_ISREG(wal.st_mode) else 0), wal.st_mtime_ns


def settled_signature(path: Path, budget: Budget) -> tuple[Signature, bool]:
    """Return the signature, and whether any later write is sure to change it.

    A file written within the last 20 ms may be written again without a new time stamp. Waits for
    that to pass, up to 0.1 s, or 20 ms where there are frames in a `-wal` and a writer is at work.

    Raises:
        StoreError: those of `take_signature`, `deadline_exceeded`.
    """
    signature = take_signature(path)
    for _ in range(1 if signature.wal_size else _SETTLE_ATTEMPTS):
        if _is_settled(signature):
            break
        budget.check()
        time.sleep(_SETTLE_NS / 1e9)
        signature = take_signature(path)
    return signature, _is_settled(signature)


def _is_settled(signature: Signature) -> bool:
    return not (_is_young(signature.mtime_ns) or _is_young(signature.wal_mtime_ns))


def _is_young(mtime_ns: int) -> bool:
    return abs(time.time_ns() - mtime_ns) < _SETTLE_NS
