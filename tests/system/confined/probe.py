"""Run as a service by test_systemd.py: tries what collated must not be able to do, and what it must."""

import ctypes
import json
import mmap
import os
import socket
from collections.abc import Callable
from pathlib import Path

CLONE_NEWUSER = 0x10000000
ADDR_NO_RANDOMIZE = 0x0040000
PTRACE_TRACEME = 0

libc = ctypes.CDLL(None)
home = Path.home()


def call(result: int) -> None:
    if result == -1:
        raise OSError


def write(directory: str) -> None:
    (home / directory).mkdir(parents=True, exist_ok=True)
    (home / directory / "written").touch()


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError:
        return "refused"
    return "allowed"


(home / "file").touch()
READ_WRITE_EXECUTE = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
HARMFUL: dict[str, Callable[[], object]] = {
    "internet sockets": lambda: socket.socket(socket.AF_INET).close(),
    "netlink sockets": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
    "writable code": lambda: mmap.mmap(-1, 4096, prot=READ_WRITE_EXECUTE),
    "set-user-id files": lambda: (home / "file").chmod(0o4755),
    "namespaces": lambda: call(libc.unshare(CLONE_NEWUSER)),
    "personality": lambda: call(libc.personality(ADDR_NO_RANDOMIZE)),
    "tracing": lambda: call(libc.ptrace(PTRACE_TRACEME, 0, 0, 0)),
}
NEEDED: dict[str, Callable[[], object]] = {
    "unix sockets": lambda: socket.socket(socket.AF_UNIX).close(),
    "state": lambda: write(".local/state/collated"),
    "cache": lambda: write(".cache/collated"),
    "data": lambda: write(".local/share/collated/stores"),
}
found = {
    "harmful": {what: outcome(attempt) for what, attempt in HARMFUL.items()},
    "needed": {what: outcome(attempt) for what, attempt in NEEDED.items()},
    "umask": oct(os.umask(0)),
}
print(json.dumps(found))
