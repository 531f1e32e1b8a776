"""The door to a store's files: by name below an open directory, and never through a symlink."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import TracebackType

from msgspec import Struct

__all__ = ["Entry", "Folder", "Unusable", "is_segment"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SEGMENT = re.compile(r"[A-Za-z0-9._-]{1,255}")
# What is wrong with the one file, and not with the system; what a symlink gives is told by `what` alone.
_TOLD = {
    errno.EACCES: ": it may not be read",
    errno.EPERM: ": it may not be read",
    errno.EIO: ": it cannot be read",
    errno.ELOOP: "",
    errno.ENOTDIR: "",
    errno.ENXIO: "",
    errno.ENAMETOOLONG: "",
}


def is_segment(name: str, longest: int = 255) -> bool:
    """Tell whether *name* may be one name in a path of the store (layout §1)."""
    return len(name) <= longest and _SEGMENT.fullmatch(name) is not None and name not in (".", "..")


class Unusable(Exception):
    """A file or directory that is there and is not what it has to be; the message names no path."""


class Entry(Struct, frozen=True):
    """What lies in a directory; a symlink is neither a file nor a directory."""

    name: str
    is_folder: bool
    is_file: bool
    is_link: bool


class Folder:
    """A directory that is open, to be used in a `with`. Whoever moves it meanwhile changes nothing here."""

    def __init__(self, descriptor: int) -> None:
        """Own *descriptor*."""
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open the directory at *path*, whose own symlinks are followed: the caller chose it.

        Raises:
            OSError: what the system says.
        """
        return cls(os.open(path, _DIRECTORY & ~os.O_NOFOLLOW))

    def __enter__(self) -> Folder:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        os.close(self._descriptor)

    def entries(self) -> list[Entry]:
        """Return what lies in it, by name.

        Raises:
            OSError: what the system says.
        """
        with os.scandir(self._descriptor) as found:
            return sorted((_entry(one) for one in found), key=lambda entry: entry.name)

    def holds(self, name: str) -> bool:
        """Tell whether anything lies there under *name*.

        Raises:
            Unusable: the directory may not be looked into.
            OSError: what else the system says.
        """
        try:
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _told(error, f"{name} cannot be looked for") from error
        return True

    @contextmanager
    def folder(self, name: str) -> Generator[Folder | None]:
        """Open the directory *name* in it; None where nothing has that name.

        Raises:
            Unusable: it is no directory, a symlink for example.
            OSError: what else the system says.
        """
        try:
            descriptor = os.open(name, _DIRECTORY, dir_fd=self._descriptor)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise _told(error, f"{name} is no directory of the store") from error
        with Folder(descriptor) as folder:
            yield folder

    def read(self, name: str, most: int) -> bytes | None:
        """Return what the file *name* holds, None where nothing has that name.

        Raises:
            Unusable: it is no file, or one of more than *most* bytes.
            OSError: what else the system says.
        """
        try:
            return self._read(name, most)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _told(error, f"{name} is no file of the store") from error

    def _read(self, name: str, most: int) -> bytes:
        descriptor = os.open(name, _FILE, dir_fd=self._descriptor)
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise Unusable(f"{name} is no file of the store")
            if about.st_size > most:
                raise Unusable(f"{name} has more than {most} bytes")
            return b"".join(_pieces(descriptor, about.st_size))
        finally:
            os.close(descriptor)


def _entry(found: os.DirEntry[str]) -> Entry:
    return Entry(
        found.name,
        is_folder=found.is_dir(follow_symlinks=False),
        is_file=found.is_file(follow_symlinks=False),
        is_link=found.is_symlink(),
    )


def _pieces(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield at most *size* bytes; what a file grew by since it was looked at comes with the next look."""
    while size > 0 and (piece := os.read(descriptor, size)):
        yield piece
        size -= len(piece)


def _told(error: OSError, what: str) -> Exception:
    """Return what is wrong with the store's file, or *error* where it is the system that has no room."""
    told = _TOLD.get(error.errno or 0)
    return error if told is None else Unusable(f"{what}{told}")
