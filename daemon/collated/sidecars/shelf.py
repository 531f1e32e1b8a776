"""The directory of the files: who may write there, what is there, taking and removing. Blocking."""

import fcntl
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from .layout import Identity, LayoutError, SegmentFile, load_segment, segment_names, sweep
from .planning import Present

__all__ = ["Book", "Shelf"]

_LOCK = "lock"


class Book(Struct, frozen=True, eq=False):
    """A file that was loaded, and what each of its stores takes."""

    file: SegmentFile
    present: Present
    shares: Mapping[str, float]


class Shelf:
    """The files in one directory; for one thread at a time.

    Two daemons with one cache directory would remove each other's files, so only the one that holds the
    lock has any. Its worker inherits the lock, so nobody writes there while an orphan is still at work.
    """

    def __init__(self, directory: Path) -> None:
        """Keep the files in *directory*, which is made when it is needed."""
        self.directory = directory
        self.lock: int | None = None

    def acquire(self) -> bool:
        """Tell whether this process may write; if so for the first time, remove what is half-written.

        Raises:
            OSError: the directory cannot be made or used.
        """
        if self.lock is not None and self._is_ours(self.lock):
            return True
        self.release()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.directory / _LOCK, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            raise
        self.lock = descriptor
        sweep(self.directory)
        return True

    def release(self) -> None:
        """Let another process write; safe to call again."""
        lock, self.lock = self.lock, None
        if lock is not None:
            os.close(lock)

    def _is_ours(self, lock: int) -> bool:
        # Somebody may have removed the directory, as they are told they may, and another daemon made it anew.
        try:
            return os.path.samestat(os.fstat(lock), (self.directory / _LOCK).lstat())
        except OSError:
            return False

    def names(self) -> Mapping[str, Identity]:
        """Return the files that are there.

        Raises:
            OSError: the directory cannot be read.
        """
        return segment_names(self.directory)

    def take(self, name: str) -> Book | None:
        """Load a file; one that is not to be believed is removed, and None returned.

        Raises:
            OSError: there is no room for the copy that is loaded, say.
        """
        try:
            file = load_segment(self.directory / name, self.directory)
        except FileNotFoundError:
            return None
        except LayoutError:
            self.remove([name])
            return None
        return _book(file)

    def remove(self, names: Iterable[str]) -> int:
        """Remove files and return how many bytes they had."""
        freed_bytes = 0
        for name in names:
            path = self.directory / name
            with suppress(OSError):  # gone already, or not ours to remove
                size_bytes = path.lstat().st_size
                path.unlink()
                freed_bytes += size_bytes
        return freed_bytes

    def clear(self) -> int:
        """Remove every file and return how many bytes they had."""
        with suppress(FileNotFoundError):
            return self.remove(self.names())
        return 0


def _book(file: SegmentFile) -> Book:
    pieces = tuple((piece.fingerprint, piece.rows) for piece in file.segment.pieces)
    formats = {piece.format for piece in file.segment.pieces}
    present = Present(file.name, file.serial, file.size_bytes, min(formats, default=""), pieces)
    names = (fingerprint for fingerprint, _ in pieces)
    return Book(file, present, dict(zip(names, present.shares(), strict=True)))
