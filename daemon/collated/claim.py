"""Who may hold a socket, and who is at its other end (DESIGN §6, §8)."""

import fcntl
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from types import TracebackType

from .errors import CollatedError

__all__ = ["Claim", "SocketTaken", "is_listening", "is_same_user"]

_BACKLOG = 1_024


class SocketTaken(CollatedError):
    """Another daemon holds the socket, or its directory is not safe to use."""

    code = "socket_taken"


class Claim:
    """The right to listen at a path: an exclusive lock on a file beside it, held until released."""

    def __init__(self, path: Path) -> None:
        """Mean the socket at *path*."""
        self.path = path
        self._lock: int | None = None
        self._listening: tuple[int, int] | None = None

    def __enter__(self) -> "Claim":
        """Take the lock.

        Raises:
            SocketTaken: another daemon has it; or the directory belongs to somebody else, others may
                write to it, or it cannot be made.
        """
        directory = self.path.parent
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SocketTaken(f"{directory} cannot be made: {error.strerror}; set COLLATE_SOCKET") from error
        _check_directory(directory)
        lock = os.open(
            self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise SocketTaken(
                f"a daemon already listens at {self.path} (process {holder}); "
                "`collate status` asks it, COLLATE_SOCKET names another socket"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)
        self._lock = lock
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the socket and give the lock back. Its file stays, else two daemons could lock two files."""
        if self.is_in_place:
            self.path.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def listen(self) -> socket.socket:
        """Bind and listen, in place of whatever a daemon that died left there.

        Raises:
            SocketTaken: somebody listens there without the lock, as a socket unit of systemd does.
        """
        if is_listening(self.path):
            raise SocketTaken(
                f"somebody already listens at {self.path}, as systemd does for collated.socket; "
                "`collate status` asks them, COLLATE_SOCKET names another socket"
            )
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # the socket is 0600 from its first moment
        try:
            listener.bind(str(self.path))
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        self._listening = _inode(self.path)
        return listener

    @property
    def is_in_place(self) -> bool:
        """Tell whether the socket that was bound is still what its path leads to."""
        return self._listening is not None and _inode(self.path) == self._listening


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_directory(directory: Path) -> None:
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise SocketTaken(f"{directory} belongs to another user; set COLLATE_SOCKET to a path of your own")
    if stat.S_IMODE(found.st_mode) & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise SocketTaken(f"others may write to {directory}; `chmod 700 {directory}`, or set COLLATE_SOCKET")


def is_listening(path: Path) -> bool:
    """Tell whether something accepts connections at *path*."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fsencode(path))
        except BlockingIOError:
            return True  # it listens, and its queue is full
        except OSError:
            return False
        return True


def is_same_user(raw: socket.socket) -> bool:
    """Tell whether the other end runs as this user; the 0700 directory is what guards other systems."""
    if sys.platform != "linux":
        return True
    credentials = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.geteuid())
