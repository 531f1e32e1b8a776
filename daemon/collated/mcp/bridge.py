"""The thin process that an agent starts: its two streams, spliced with a session of the host.

It imports no SDK and no event loop: twenty agents have twenty of these, and one host.
"""

import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from collated import __version__
from collated.claim import is_same_user
from collated.errors import ConfigError, DaemonUnreachable
from collated.places import SOCKET_PATH_BYTES

__all__ = ["FAREWELL", "GREETING", "Wish", "host_path", "run"]

_DIGITS = 9


class Wish(NamedTuple):
    """What a host is told first: whether it may start a daemon, and how long the instructions may be."""

    may_spawn: bool
    budget_tokens: int

    def line(self) -> bytes:
        """Return it as it is sent."""
        return f"{'spawn' if self.may_spawn else 'no-spawn'} {self.budget_tokens}\n".encode()

    @classmethod
    def of(cls, line: bytes) -> Self:
        """Return what *line* says; who says something else wishes nothing."""
        spawn, _, budget = line.decode(errors="replace").strip().partition(" ")
        return cls(spawn == "spawn", int(budget[:_DIGITS]) if budget.isdecimal() else 0)


GREETING = b"\n"
"""What a host answers to it: without one, it was about to end."""

FAREWELL = b"\n"
"""What a host says when an agent has ended its input and has every answer; MCP has no empty lines."""

_PIECE_BYTES = 65_536
_ATTEMPTS = 5
_STDIN, _STDOUT = 0, 1


def host_path(daemon: Path) -> Path:
    """Return where the host of the daemon at the socket *daemon* listens: each version has its own.

    Raises:
        ConfigError: the path is longer than the system allows.
    """
    path = daemon.with_name(f"{daemon.name}.mcp-{__version__}")
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise ConfigError(
            f"the socket path {path} is longer than {SOCKET_PATH_BYTES} bytes; "
            "set COLLATE_SOCKET to a shorter one"
        )
    return path


def run(daemon: Path, environ: Mapping[str, str], wish: Wish) -> None:
    """Speak MCP on standard input and output until the agent has ended its input, and has its answers.

    Raises:
        ConfigError: the socket's path is too long.
        DaemonUnreachable: the host could not be started, is another user's, or went away.
    """
    with _connected(daemon, environ, wish.line()) as host:
        threading.Thread(target=_send, args=(host,), daemon=True).start()
        if not _receive(host):
            raise DaemonUnreachable("the process that serves MCP went away; start the session again")


def _connected(daemon: Path, environ: Mapping[str, str], wish: bytes) -> socket.socket:
    path = host_path(daemon)
    for _ in range(_ATTEMPTS):
        if host := _greeted(path, wish):
            return host
        _start(path, daemon, environ)
    raise DaemonUnreachable(f"nothing that listens at {path} serves MCP")


def _greeted(path: Path, wish: bytes) -> socket.socket | None:
    """Return a connection to the host at *path*; None where nobody listens, or who does is about to end."""
    host = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        host.connect(os.fsencode(path))
        if not is_same_user(host):
            raise DaemonUnreachable(f"another user listens at {path}; set COLLATE_SOCKET")
        host.sendall(wish)
        if host.recv(len(GREETING)) == GREETING:
            return host
    except OSError:
        pass  # what None says
    host.close()
    return None


def _start(path: Path, daemon: Path, environ: Mapping[str, str]) -> None:
    from collated.launch import Program, start

    start(Program("the host of MCP", "collated.mcp.host", (str(daemon),), "mcp.log"), path, environ)


def _send(host: socket.socket) -> None:
    """Send what the agent writes, and the end of it."""
    try:
        while piece := _typed():
            host.sendall(piece)
        host.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the host is gone, which `_receive` sees too


def _typed() -> bytes:
    try:
        return os.read(_STDIN, _PIECE_BYTES)
    except OSError:  # a terminal that is gone
        return b""


def _receive(host: socket.socket) -> bool:
    """Write what the host sends, as fast as the agent reads it; tell whether it said farewell in the end."""
    buffer = memoryview(bytearray(_PIECE_BYTES))
    before = b"\n"
    while length := _received(host, buffer):
        piece = buffer[:length]
        last = (before + bytes(piece[-2:]))[-2:]
        is_farewell = last == b"\n" + FAREWELL
        _write(piece[: -len(FAREWELL)] if is_farewell else piece)
        if is_farewell:
            return True
        before = last[-1:]
    return False


def _received(host: socket.socket, buffer: memoryview) -> int:
    try:
        return host.recv_into(buffer)
    except ConnectionError:
        return 0


def _write(piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(_STDOUT, piece) :]
