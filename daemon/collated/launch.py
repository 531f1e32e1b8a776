"""Starts a program that listens at a socket and outlives its starter, once for many callers."""

import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from .claim import is_listening
from .errors import DaemonUnreachable
from .escape import visible
from .places import state_dir

__all__ = ["Program", "start"]


class Program(NamedTuple):
    """What to start: *name* it in messages, run *module* with *arguments*, write what it says to *log*."""

    name: str
    module: str
    arguments: Sequence[str]
    log: str


_DEADLINE_S = 10.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.02
_RETRY_PAUSE_S = 0.1
_SERVICE_VARIABLES = frozenset(
    {
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
        "JOURNAL_STREAM",
    }
)
_LOG_LIMIT_BYTES = 4_194_304
_TAIL_BYTES = 4_096


class _Entry(msgspec.Struct):
    """A line of the program's log, as structlog writes it."""

    event: str
    code: str = ""
    message: str = ""

    def told(self) -> str:
        """Return it in words."""
        return f"{self.event}: {self.message}" if self.message else self.event


def _make_directory(directory: Path) -> None:
    """Make the socket's directory for this user alone; refuse one that another user could tamper with."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
        for each in (directory, directory.parent):
            owner = each.stat().st_uid
            if owner not in (os.geteuid(), 0):
                raise DaemonUnreachable(
                    f"the socket's directory {each} belongs to user {owner}, not to you; set COLLATE_SOCKET"
                )
        mode = directory.stat().st_mode
    except OSError as error:
        raise DaemonUnreachable(f"the socket's directory {directory} cannot be used: {error}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        raise DaemonUnreachable(f"others may write to {directory}; run `chmod 700 {directory}`")


def start(
    program: Program, path: Path, environ: Mapping[str, str], is_started: Callable[[], bool] = bool
) -> None:
    """Return once something listens at *path*; a lock beside the socket decides who starts it.

    *is_started* may start it in another way, and tells whether it did.

    Raises:
        DaemonUnreachable: it could not be started; the message has its own last words.
    """
    deadline = time.monotonic() + _DEADLINE_S
    _make_directory(path.parent)
    with _only_one(program, path, deadline):
        while not is_listening(path) and not is_started():
            if _launched(program, path, environ, deadline):
                return
            time.sleep(_RETRY_PAUSE_S)  # the one before it is answering its last requests


@contextmanager
def _only_one(program: Program, path: Path, deadline: float) -> Generator[None]:
    lock = path.with_name(path.name + ".spawn.lock")
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(lock, flags, 0o600)
    except OSError as error:
        raise DaemonUnreachable(f"cannot lock {lock}: {error.strerror}") from error
    try:
        for _ in _until(deadline):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            break
        else:
            raise DaemonUnreachable(f"another process has been starting {program.name} for {_DEADLINE_S:g} s")
        yield
    finally:
        os.close(descriptor)


def _until(deadline: float) -> Iterator[None]:
    """Give the caller turns with growing pauses between them, until *deadline*."""
    pause_s = _FIRST_PAUSE_S
    while time.monotonic() < deadline:
        yield
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _launched(program: Program, path: Path, environ: Mapping[str, str], deadline: float) -> bool:
    """Start *program* and wait until it listens; False when another one still holds the socket."""
    log_path = state_dir(environ) / program.log
    try:
        log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = _open_log(log_path)
    except OSError as error:
        raise DaemonUnreachable(f"the log {log_path} cannot be written: {error.strerror}") from error
    try:
        began = os.fstat(log).st_size
        child = _launch(program, environ, log)
        for _ in _until(deadline):
            if is_listening(path):
                return True
            if child.poll() is not None:
                break
        else:
            child.terminate()
            raise DaemonUnreachable(
                f"{program.name} did not listen at {path} within {_DEADLINE_S:g} s; see {log_path}"
            )
        said = _last_words(log, began)
    finally:
        os.close(log)
    if any(entry.code == "socket_taken" for entry in said) and time.monotonic() < deadline:
        return False
    words = (
        "\n".join(f"  {visible(entry.told())}" for entry in said)
        or f"  (it said nothing; exit code {child.returncode})"
    )
    raise DaemonUnreachable(f"{program.name} did not start:\n{words}")


def _launch(program: Program, environ: Mapping[str, str], log: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - our own module
        # -P: nothing of the directory that the person happens to stand in is ever imported.
        [sys.executable, "-P", "-m", program.module, *program.arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=_detached(environ),
        start_new_session=True,
    )


def _open_log(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    log = os.open(path, flags, 0o600)
    if os.fstat(log).st_size > _LOG_LIMIT_BYTES:
        os.ftruncate(log, 0)
    return log


def _detached(environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* for a process that leaves this directory and whatever service this one is part of."""
    detached = {name: value for name, value in environ.items() if name not in _SERVICE_VARIABLES}
    if given := environ.get("COLLATE_CONFIG"):
        detached["COLLATE_CONFIG"] = str(Path(given).absolute())
    if given := environ.get("PYTHONPATH"):
        parts = [str(Path(part).absolute()) for part in given.split(os.pathsep) if part]
        detached["PYTHONPATH"] = os.pathsep.join(parts)
    return detached


def _last_words(log: int, began: int) -> list[_Entry]:
    size = os.fstat(log).st_size
    said = os.pread(log, _TAIL_BYTES, max(began, size - _TAIL_BYTES)).decode("utf-8", "replace")
    return [_entry(row) for row in said.splitlines()]


def _entry(row: str) -> _Entry:
    try:
        return msgspec.json.decode(row, type=_Entry)
    except msgspec.MsgspecError:
        return _Entry(row)  # a traceback, or what the interpreter says
