"""A home directory with stores of every kind, and the real commands in it."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.system.processes import COLLATE, Ran, run

import collated
import collated_readers

if TYPE_CHECKING:
    from tests.conftest import MakeStore

Tree = dict[bytes, tuple[object, ...]]

DEADLINE_S = 30.0
HOSTILE = ("line\nbreak", 'quote"back\\slash', "esc\x1b[31m\u202e", os.fsdecode(b"bytes\xff"))
CODE = {"till.py": "def open_drawer(amount):\n    return amount\n"}
DOCS = {"a.md": "# Refunds\n\nThe refund window is thirty days.\n"}


class Home:
    """A person's home and runtime directory, and no other part of their surroundings."""

    def __init__(self, base: Path) -> None:
        self.path = base / "home"
        self.runtime = base / "run"
        self.config = self.path / ".config" / "collated" / "config.toml"
        self.state = self.path / ".local" / "state" / "collated"
        places = {Path(package.__path__[0]).parent for package in (collated, collated_readers)}
        self.environ = {
            "HOME": str(self.path),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }
        self.path.mkdir()
        self.runtime.mkdir(mode=0o700)

    def collate(self, *typed: str, wrapper: Sequence[str] = (), **environ: str) -> Ran:
        """Run `collate` without a terminal; *wrapper* is a command that executes it."""
        return run([*wrapper, sys.executable, "-c", COLLATE, *typed], {**self.environ, **environ})

    def at_terminal(self, *typed: str, answer: str = "") -> tuple[int, str]:
        """Run `collate` at a terminal, type *answer*, and return the exit code and all that was shown."""
        primary, secondary = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", COLLATE, *typed],
            env={**self.environ, "TERM": "xterm"},
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
        )
        os.close(secondary)
        os.write(primary, answer.encode())
        shown = b""
        with suppress(OSError):  # how a terminal ends on Linux
            while data := os.read(primary, 65_536):
                shown += data
        os.close(primary)
        return process.wait(DEADLINE_S), shown.decode()

    def tree(self) -> Tree:
        """Return all that is in the home, by path: kind, mode, and what it holds."""
        return {
            os.fsencode(path.relative_to(self.path)): _entry(path) for path in sorted(self.path.rglob("*"))
        }

    def end_daemon(self) -> None:
        """End the daemon that a command started, where one runs, and wait for its end."""
        ran = self.collate("status", "--json", "--no-spawn")
        if ran.code != 0:
            return
        pid = ran.json["pid"]
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + DEADLINE_S
        while _is_alive(pid):
            assert time.monotonic() < deadline, "the daemon does not end"
            time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        state = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _entry(path: Path) -> tuple[object, ...]:
    about = path.lstat()
    kind = stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFLNK:
        return (kind, os.fsencode(path.readlink()))
    if kind == stat.S_IFREG:
        return (about.st_mode, about.st_mtime_ns, path.read_bytes())
    return (about.st_mode,)


@pytest.fixture
def empty_home() -> Iterator[Home]:
    # Short: a socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="collated-") as base:
        home = Home(Path(base))
        try:
            yield home
        finally:
            home.end_daemon()


@pytest.fixture(scope="session")
def sample(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of ContextPull, to be copied."""
    return make_store(tmp_path_factory.mktemp("sample") / "s.sqlite", DOCS)


Project = Callable[..., Path]


@pytest.fixture
def project(sample: Path) -> Project:
    """`project(folder)` makes a project with a store of documents, and returns the store."""

    def make(folder: Path) -> Path:
        store = folder / ".contextpull" / "store.sqlite"
        store.parent.mkdir(parents=True)
        shutil.copyfile(sample, store)
        return store

    return make


class Filled(NamedTuple):
    """A home with stores of every kind; *stores* are their real paths with their formats."""

    home: Home
    stores: dict[str, str]


@pytest.fixture
def filled(
    empty_home: Home, project: Project, sample: Path, make_code_store: MakeStore, shared: Path
) -> Filled:
    """Stores of every format and hostile things, as a person's home may have them."""
    home = empty_home.path
    documents = [
        project(home / "src" / "handbook"),
        project(home / "top"),
        *(project(home / "src" / name) for name in HOSTILE),
        *(project(home / f"top {name}") for name in HOSTILE),
    ]
    stores = {str(path): "contextpull" for path in documents}
    code = home / "src" / "tills" / ".claude" / "cache" / "codebase-index" / "index.sqlite"
    stores[str(make_code_store(code, CODE))] = "codebase-index"
    context = shared / "data" / "contextful" / "worked-example" / ".contextful"
    shutil.copytree(context, home / "research" / "demo" / ".contextful")
    for folder in (home / "research" / "demo" / ".contextful" / "context").iterdir():
        stores[str(folder)] = "contextful"
    (home / "library").mkdir()
    for name in ("bge_valid", "exp_l2"):
        for file in (shared / "data" / "book-agent" / "stores").glob(f"{name}.*"):
            shutil.copyfile(file, home / "library" / file.name)
        stores[str(home / "library" / f"{name}.sqlite")] = "book-agent"
    (home / "mixed").mkdir()
    shutil.copyfile(sample, home / "mixed" / "kept.db")
    stores[str(home / "mixed" / "kept.db")] = "contextpull"
    with closing(sqlite3.connect(home / "mixed" / "app.db")) as db:
        db.execute("CREATE TABLE t (a)")
    _add_hostile_things(home, project)
    return Filled(empty_home, stores)


def _add_hostile_things(home: Path, project: Project) -> None:
    """Add what must neither be found nor stop the walk."""
    (home / "src" / "loop").symlink_to("..")
    (home / "src" / "pipe" / ".contextpull").mkdir(parents=True)
    os.mkfifo(home / "src" / "pipe" / ".contextpull" / "store.sqlite")
    os.mkfifo(home / "queue.sqlite")
    project(home / "src" / "handbook" / "node_modules" / "dependency")
    project(home / "env" / "lib" / "inside")
    (home / "env" / "pyvenv.cfg").touch()
    project(home / "1" / "2" / "3" / "4" / "5" / "6" / "7")
