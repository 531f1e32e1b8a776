"""What the daemon and a service manager say to each other: readiness, watchdog, inherited sockets, limits.

The protocols of sd_notify(3) and sd_listen_fds(3), in the few lines that they need.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import time
from collections.abc import Mapping

from .errors import ConfigError

__all__ = ["Notifier", "activated_sockets", "give_back_memory", "raise_descriptor_limit"]

_FIRST_DESCRIPTOR = 3  # SD_LISTEN_FDS_START


class Notifier:
    """Tells the service manager how the daemon is; does nothing where there is no manager.

    `watchdog_s` is how often `alive` has to be called, in seconds: half of what the manager waits. None
    when it does not watch this process.
    """

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        """Send to the datagram socket at *address*; empty sends nothing."""
        # `@name` is how the environment spells a socket in the abstract name space.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = watchdog_s

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Notifier:
        """Return the notifier that `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` ask for."""
        address = environ.get("NOTIFY_SOCKET", "")
        microseconds = environ.get("WATCHDOG_USEC", "")
        is_watched = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        if not (address and is_watched and microseconds.isascii() and microseconds.isdigit()):
            return cls(address)
        return cls(address, int(microseconds) / 2_000_000 or None)

    def ready(self, status: str) -> None:
        """Say that requests are answered from now on, after a start or a reload."""
        self._send("READY=1", f"STATUS={_one_line(status)}")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._send(f"STATUS={_one_line(text)}")

    def reloading(self) -> None:
        """Say that the configuration is being read again; `ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")

    def stopping(self) -> None:
        """Say that the daemon finishes what it accepted and ends."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Keep the manager's watchdog from killing this process."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            try:
                sender.sendto("\n".join(lines).encode(), self._address)
            except OSError:
                # A manager that is gone or does not read is no reason to stop answering; one that still
                # waits for us says so itself, by its own timeout.
                return


def _one_line(text: str) -> str:
    # A line break would begin another assignment.
    return " ".join(text.split())


def activated_sockets(environ: Mapping[str, str]) -> list[socket.socket]:
    """Return the listening sockets that the service manager opened for this process, in its order.

    Empty when `LISTEN_PID` names another process. The sockets are not inherited by children.

    Raises:
        ConfigError: `invalid_config`, a descriptor is not a listening Unix stream socket.
    """
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not (count.isascii() and count.isdigit()):
        return []
    return [_adopted(_FIRST_DESCRIPTOR + position) for position in range(int(count))]


def _adopted(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        adopted = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigError(
            f"descriptor {descriptor} from the service manager is no socket: {error}"
        ) from error
    is_stream = adopted.family is socket.AF_UNIX and adopted.type is socket.SOCK_STREAM
    if not (is_stream and adopted.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        adopted.detach()  # it is not ours to close
        raise ConfigError(
            f"descriptor {descriptor} from the service manager is not a listening Unix stream socket; "
            "collated.socket takes ListenStream= with a path"
        )
    return adopted


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one and return the limit now in force.

    A thousand open stores need about three thousand descriptors; the usual soft limit is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft  # macOS refuses an unlimited soft limit
    return hard


def give_back_memory() -> None:
    """Have the C library return to the system what it holds and nobody uses; blocking, some milliseconds.

    A thousand stores that were opened once leave 250 MB with it. Only glibc holds so much, and can do this.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
