"""A temporary home for `collate demo`: projects with documents, a daemon of its own, and a tidy end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Self

import collated
from collated.claim import is_listening
from collated.errors import CollatedError, ConfigError
from collated.escape import visible
from collated.places import socket_path

from .interrupt import held_back
from .props import BOOK

__all__ = ["PROJECTS", "DemoFailed", "Ran", "Stage"]

PROJECTS = ("aiosqlite", "contextpull", "rich", "structlog", "watchfiles", "collated")
"""All but the last are packages that collated, or its extra `demo`, needs: their documents are there."""

_OWN_DOCUMENTS = ("README.md", "CHANGELOG.md", "daemon/DESIGN.md", "readers/README.md")
_WAIT_S = 20.0
_POLL_S = 0.01
_END_S = 25.0  # longer than the daemon takes to answer what it accepted
_LEFT_ALONE_S = 120  # should this process be killed outright, the daemon leaves by itself

# Settings and service sockets of the person who runs the demonstration are not for its daemon.
_NOT_INHERITED = (
    *("CBX_", "COLLATE_", "CONTEXTPULL_", "JOURNAL_", "LISTEN_", "NOTIFY_", "WATCHDOG_"),
    *("NO_PROXY", "all_proxy", "http_proxy", "https_proxy", "no_proxy"),
)
_CONFIG = """\
[[watch]]
path = {projects}
match = ["*/.contextpull/*.sqlite", "*/.claude/cache/codebase-index/index.sqlite", "{book}/*.sqlite"]
"""
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "collate": ("-c", "from collated.cli import main; raise SystemExit(main())"),
    "collated": ("-m", "collated"),
    "contextpull": ("-m", "contextpull.cli"),
    "codebase-index": ("-m", "codebase_index"),
}
# codebase-index would fetch a grammar that is missing, anew for each file: what cannot be reached is quick.
_OFFLINE = dict.fromkeys(("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:9")
_GRAMMARS = "tree-sitter-language-pack"


class DemoFailed(CollatedError):
    """The demonstration cannot go on; the message says why and what to do."""

    code = "demo_failed"


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    output: str
    errors: str


class Stage:
    """A temporary home with projects and a running daemon; whoever enters it leaves nothing behind."""

    def __init__(self) -> None:
        """Mean a directory that is made on entering; `environ` is for everything that runs in it."""
        self.base = Path()
        self.projects = Path()
        self.socket = Path()
        self.environ: dict[str, str] = {}
        self._daemon: subprocess.Popen[bytes] | None = None
        self._command: subprocess.Popen[str] | None = None
        self._is_group = False

    def __enter__(self) -> Self:
        """Write the documents, start the daemon and return once it listens.

        Raises:
            DemoFailed: it did not start; the message has its last words.
        """
        try:
            with held_back():  # or a signal between the two leaves something behind
                self.base = Path(tempfile.mkdtemp(prefix="collated-demo-")).resolve()
                self._furnish()
            self._wait_until_listening()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Do what `close` does."""
        self.close()

    def close(self) -> None:
        """End the command that runs and the daemon, then remove everything."""
        with held_back():
            if self._command is not None:
                _end(self._command, is_group=self._is_group)
            if self._daemon is not None:
                _end(self._daemon)
            if self.base != Path():
                shutil.rmtree(self.base)

    def _furnish(self) -> None:
        self.projects = self.base / "src"
        self.socket = self.base / "socket"
        self.environ = _environ(self.base, self.socket)
        try:
            socket_path(self.environ)
        except ConfigError as error:
            raise DemoFailed(f"set TMPDIR to a directory with a shorter path: {error}") from error
        for project in PROJECTS:
            for name, text in _documents(project).items():
                document = self.projects / project / name
                document.parent.mkdir(parents=True, exist_ok=True)
                document.write_text(text, encoding="utf-8")
        _lend_grammars(Path(self.environ["XDG_CACHE_HOME"]))
        config = Path(self.environ["COLLATE_CONFIG"])
        config.write_text(
            _CONFIG.format(projects=json.dumps(str(self.projects)), book=BOOK), encoding="utf-8"
        )
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(  # noqa: S603 - our own command
                _command("collated", "run", "--idle-exit", str(_LEFT_ALONE_S)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environ,
                cwd=self.base,
                start_new_session=True,  # Ctrl-C is for this process, which then ends the daemon
            )

    @property
    def _log(self) -> Path:
        return self.base / "daemon.log"

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not is_listening(self.socket):
            if self._daemon is None or self._daemon.poll() is not None or time.monotonic() > deadline:
                words = visible(self._log.read_text(encoding="utf-8", errors="replace")[-1_000:])
                raise DemoFailed(f"the daemon did not start: {words or 'it said nothing'}")
            time.sleep(_POLL_S)

    def run(self, name: str, *arguments: str, folder: str = "", is_shown: bool = True) -> Ran:
        """Run a command in a project's *folder* and return what it said where it is not shown meanwhile.

        Those that are not shown are in a group of their own, which ends as a whole: they may start others.
        """
        output = None if is_shown else subprocess.PIPE
        with held_back():  # subprocess.run would lose a child that a signal finds half started
            self._is_group = not is_shown
            self._command = subprocess.Popen(  # noqa: S603 - our own commands
                _command(name, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environ,
                cwd=self.projects / folder,
                text=True,
                process_group=None if is_shown else 0,
            )
        said, errors = self._command.communicate()
        return Ran(self._command.returncode, said or "", errors or "")


def _command(name: str, *arguments: str) -> list[str]:
    """Return how *name* is run whether or not it is on PATH; -P: nothing is imported from where it runs."""
    return [sys.executable, "-P", *_COMMANDS[name], *arguments]


def _environ(base: Path, socket: Path) -> dict[str, str]:
    """Return this process's environment with everything of collated's moved below *base*."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    environ |= _OFFLINE
    if paths := environ.get("PYTHONPATH"):
        environ["PYTHONPATH"] = os.pathsep.join(
            str(Path(path).absolute()) for path in paths.split(os.pathsep)
        )
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        environ[f"XDG_{kind}_HOME"] = str(base / kind.lower())
    environ["COLLATE_SOCKET"] = str(socket)
    environ["COLLATE_CONFIG"] = str(base / "config.toml")
    return environ


def _lend_grammars(cache: Path) -> None:
    """Link into the demonstration's own *cache* the grammars that codebase-index has fetched before."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _GRAMMARS
    if kept.is_dir():
        cache.mkdir(exist_ok=True)
        (cache / _GRAMMARS).symlink_to(kept)


def _documents(project: str) -> dict[str, str]:
    """Return path -> text of the documents that an installed package brings along."""
    root = Path(collated.__file__).parents[2]
    if project == "collated" and (root / "pyproject.toml").exists():
        own = (name for name in _OWN_DOCUMENTS if (root / name).exists())
        return {name: (root / name).read_text(encoding="utf-8") for name in own}
    about = metadata.metadata(project).json
    facts = {key: about[key] for key in ("requires_python", "classifier", "requires_dist") if key in about}
    sections = (f"## {key}\n\n{_listed(value)}\n" for key, value in facts.items())
    return {
        "README.md": str(about.get("description", "")),
        "METADATA.md": "\n".join((f"# {project}\n\n{about['summary']}\n", *sections)),
    }


def _listed(value: str | Sequence[str]) -> str:
    return "\n".join(f"- {each}" for each in ([value] if isinstance(value, str) else value))


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str], *, is_group: bool = False) -> None:
    if is_group and process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.terminate()  # does nothing to one that has ended
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
