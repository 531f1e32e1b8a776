"""Commands as processes of their own, in the surroundings of a daemon of `tests/system/conftest.py`."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.system.processes import COLLATE, TIMEOUT_S, Ran, run

if TYPE_CHECKING:
    from tests.system.conftest import Daemon, StartDaemon

PROGRAMS = {
    "collate": COLLATE,
    "collated": "import sys; from collated.cli.daemon import main; sys.exit(main())",
}
FILLER = " These words are here so that the section is long enough to stand for itself." * 4
DOCS = {
    "guide.md": f"# Guide\n\nWelcome.{FILLER}\n\n## Refund window\n\nThirty days.{FILLER}\n\n"
    f"## Shipping\n\nFree.{FILLER}\n",
    "api/codes.md": "# Codes\n\nGW-10 and GW-20 are errors.\n",
}
NOTES = {"notes.txt": "Notes\n\nThe refund window is discussed.\n"}


Collate = Callable[..., Ran]
Terminal = Callable[..., str]
StartCollate = Callable[..., subprocess.Popen[bytes]]
MakeStore = Callable[..., Path]


def _command(args: tuple[str, ...], program: str) -> list[str]:
    return [sys.executable, "-c", PROGRAMS.get(program, program), *args]


def _collate(daemon: Daemon, *args: str, program: str = "collate", **environ: str) -> Ran:
    return run(_command(args, program), {**daemon.environ, **environ})


@pytest.fixture(scope="session")
def collate() -> Collate:
    """`collate(daemon, *args, program="collate", **environ)` runs a command without a terminal.

    *program* is `collate`, `collated` or Python code.
    """
    return _collate


@pytest.fixture
def start_collate() -> Iterator[StartCollate]:
    """`start_collate(daemon, *args)` starts a command with pipes; ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(daemon: Daemon, *args: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            _command(args, "collate"), env=daemon.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def on_terminal() -> Terminal:
    """`on_terminal(daemon, *args, is_error=False, columns=60)` returns what a terminal is sent."""

    def run(daemon: Daemon, *args: str, is_error: bool = False, columns: int = 60) -> str:
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            _command(args, "collate"),
            env={**daemon.environ, "TERM": "xterm", "COLUMNS": str(columns)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if is_error else follower,
            stderr=follower if is_error else subprocess.DEVNULL,
        )
        os.close(follower)
        try:
            return _until_closed(leader).decode()
        finally:
            process.kill()
            process.wait()
            os.close(leader)

    return run


def _until_closed(leader: int) -> bytes:
    shown = b""
    deadline = time.monotonic() + TIMEOUT_S
    while select.select([leader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            shown += os.read(leader, 65_536)
        except OSError:  # EIO: nobody holds the other end any more
            return shown
    pytest.fail(f"the command did not end within {TIMEOUT_S} s")


def _end(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGTERM)
        assert select.select([descriptor], [], [], TIMEOUT_S)[0], f"process {pid} did not end"
    finally:
        os.close(descriptor)


@pytest.fixture(scope="session")
def end() -> Callable[[int], None]:
    """`end(pid)` ends a daemon that is not the test's child, and waits until it is gone."""
    return _end


@pytest.fixture
def home(start_daemon: StartDaemon) -> Iterator[Daemon]:
    """Surroundings in which no daemon runs yet; one that a command starts is ended with the test."""
    daemon = start_daemon(is_launched=False)
    yield daemon
    daemon.configure("")
    listening = _collate(daemon, "status", "--json", "--no-spawn")
    if listening.code == 0:
        _end(listening.json["pid"])


@pytest.fixture(scope="module")
def shared(start_shared_daemon: StartDaemon, make_store: MakeStore) -> Daemon:
    """A daemon with the stores `docs` and `notes`, which no test changes."""
    daemon = start_shared_daemon(is_launched=False)
    make_store(daemon.stores / "docs.sqlite", DOCS)
    make_store(daemon.stores / "notes.sqlite", NOTES)
    daemon.start()
    daemon.wait_state("docs", "open")
    daemon.wait_state("notes", "open")
    return daemon


@pytest.fixture
def make_docs(make_store: MakeStore) -> Callable[[Path], Path]:
    """`make_docs(path)` writes a store of five sections; `guide.md#1` has the heading `Refund window`."""
    return lambda path: make_store(path, DOCS)


@pytest.fixture
def project(tmp_path: Path, make_docs: Callable[[Path], Path]) -> Path:
    """A project directory with a store where `contextpull ingest` leaves it."""
    directory = tmp_path / "My Project"
    make_docs(directory / ".contextpull" / "store.sqlite")
    return directory
