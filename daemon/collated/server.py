"""The listener: who may hold the socket, who may connect, and how the daemon stops (DESIGN §6, §8)."""

import fcntl
import os
import socket
import stat
import struct
import sys
import time
from pathlib import Path
from types import TracebackType

import anyio
import anyio.abc
import structlog

from .errors import CollatedError
from .methods import Methods
from .session import Session

__all__ = ["Claim", "Server", "SocketTaken"]

log = structlog.get_logger()

_BACKLOG = 1_024
# A client that is turned away gets this long to send the request that is answered `overloaded`.
_TURN_AWAY_S = 1.0
_DRAIN_POLL_S = 0.02
_ACCEPT_AGAIN_S = 0.1
# A client that has just connected gets this long to ask, before the daemon ends without a word to it.
_LAST_WORDS_S = 0.05


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
        if self._listening is not None and _inode(self.path) == self._listening:
            self.path.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def listen(self) -> socket.socket:
        """Bind and listen, in place of whatever a daemon that died left there.

        Raises:
            SocketTaken: somebody listens there without the lock, as a socket unit of systemd does.
        """
        if _is_answered(self.path):
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


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # its queue is full
        except OSError:
            return False
        return True


def _check_directory(directory: Path) -> None:
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise SocketTaken(f"{directory} belongs to another user; set COLLATE_SOCKET to a path of your own")
    if stat.S_IMODE(found.st_mode) & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise SocketTaken(f"others may write to {directory}; `chmod 700 {directory}`, or set COLLATE_SOCKET")


class Server:
    """Accepts clients until it is told to stop."""

    def __init__(self, methods: Methods) -> None:
        """Serve *methods*."""
        self._methods = methods
        self._is_draining = False
        self._accepting: list[anyio.CancelScope] = []

    async def run(self, listener: socket.socket) -> None:
        """Accept clients on *listener* until `drain`, and serve them until cancelled."""
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            with listener, anyio.CancelScope() as scope:
                self._accepting.append(scope)
                await self._accept(listener, tasks)

    async def drain(self, limit_s: float) -> int:
        """Admit nothing new, and return how many requests are unanswered after *limit_s* at most.

        Who connects from now on waits for the next daemon where a service manager holds the socket, and is
        refused where nobody does. Who is connected is told `draining`, those too who have not asked yet.
        """
        self._is_draining = True
        for scope in self._accepting:
            scope.cancel()
        gauges = self._methods.gauges
        await anyio.sleep(_LAST_WORDS_S)
        with anyio.move_on_after(limit_s):
            while gauges.in_flight:  # noqa: ASYNC110 - a few seconds at most, once in a life
                await anyio.sleep(_DRAIN_POLL_S)
        return gauges.in_flight

    async def _accept(self, listener: socket.socket, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                continue  # who was there is gone
            except OSError as error:
                # Out of descriptors, say: those who are connected go on, and who waits is not lost.
                log.warning("accept_failed", error=str(error))
                await anyio.sleep(_ACCEPT_AGAIN_S)
                continue
            tasks.start_soon(self._serve, client)

    async def _serve(self, client: socket.socket) -> None:
        with client:
            if not _is_same_user(client):
                log.warning("client_refused", reason="another user")
                return
            gauges = self._methods.gauges
            is_full = gauges.connections >= self._methods.settings.server.max_connections
            session = Session(self._methods, is_draining=lambda: self._is_draining, is_turned_away=is_full)
            if is_full:
                with anyio.move_on_after(_TURN_AWAY_S):
                    await session.run(client)
                return
            gauges.connections += 1
            try:
                await session.run(client)
            finally:
                gauges.connections -= 1
                gauges.last_used = time.monotonic()


def _is_same_user(raw: socket.socket) -> bool:
    """Tell whether the client runs as this user; the 0700 directory is what guards other systems."""
    if sys.platform != "linux":
        return True
    credentials = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.geteuid())
