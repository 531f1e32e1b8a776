"""`collate demo`: six real stores, a daemon of their own, and what a person would type. Nothing of it stays."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import collated
from collated.client import Client
from collated.errors import CollatedError

from .escape import visible
from .interrupt import held_back, raised
from .line import Span, line
from .outcome import FOUND
from .paper import show
from .spawn import is_listening

__all__ = ["run"]

# All but the last are packages that collated itself, or its extra `demo`, needs: their documents are there.
_PROJECTS = ("aiosqlite", "contextpull", "rich", "structlog", "watchfiles", "collated")
_OWN_DOCUMENTS = ("README.md", "CHANGELOG.md", "daemon/DESIGN.md", "readers/README.md")
_QUERY = "asyncio event loop"
_NEWS = "\n## Zeppelin\n\nThe demo was here.\n"

_WAIT_S = 20.0
_POLL_S = 0.01
_END_S = 25.0  # longer than the daemon takes to answer what it accepted
_LEFT_ALONE_S = 120  # should this process be killed outright, the daemon leaves by itself

# Settings and service sockets of the person who runs the demonstration are not for its daemon.
_NOT_INHERITED = ("COLLATE_", "CONTEXTPULL_", "LISTEN_", "NOTIFY_", "WATCHDOG_", "JOURNAL_")
_CONFIG = """\
[[watch]]
path = "{projects}"
match = ["*/.contextpull/*.sqlite"]
"""
_COLLATE = "from collated.cli import main; raise SystemExit(main())"
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "collate": ("-c", _COLLATE),
    "collated": ("-m", "collated"),
    "contextpull": ("-m", "contextpull.cli"),
}


class DemoFailed(CollatedError):
    """The demonstration cannot go on; the message says why and what to do."""

    code = "demo_failed"


def run() -> int:
    """Show a search, a grep, a read and a changed store on standard output, and return the exit code.

    The stores, the socket and all else lie in a temporary directory, which is removed at the end,
    however that comes about, after the daemon was ended by its process id.

    Raises:
        DemoFailed: contextpull is not installed, or a step failed.
    """
    if find_spec("contextpull") is None:
        raise DemoFailed(
            "the demonstration makes its stores with contextpull, which is not installed; install the extra "
            "`demo`: pip install 'collated[demo]', or in a checkout pip install '.[demo]'"
        )
    with raised(), _Stage() as stage:
        _say(
            f"Six projects, each with its own documents, in {stage.base}.",
            "A daemon of its own watches them. All that follows is real.",
        )
        _make_stores(stage)
        _ask(stage)
        _change(stage)
        _time(stage)
    _say("The daemon has ended and the directory is removed; nothing is left.")
    return FOUND


class _Stage:
    """A temporary home with projects and a running daemon; whoever enters it leaves nothing behind."""

    def __init__(self) -> None:
        self.base = Path()
        self.projects = Path()
        self.socket = Path()
        self.environ: dict[str, str] = {}
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
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
        self.close()

    def close(self) -> None:
        """End the daemon and remove everything."""
        with held_back():
            if self._daemon is not None:
                _end(self._daemon)
            if self.base != Path():
                shutil.rmtree(self.base)

    def _furnish(self) -> None:
        self.projects = self.base / "src"
        self.socket = self.base / "socket"
        self.environ = _environ(self.base, self.socket)
        for project in _PROJECTS:
            for name, text in _documents(project).items():
                document = self.projects / project / name
                document.parent.mkdir(parents=True, exist_ok=True)
                document.write_text(text, encoding="utf-8")
        config = Path(self.environ["COLLATE_CONFIG"])
        config.write_text(_CONFIG.format(projects=self.projects), encoding="utf-8")
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(
                self.command("collated", "run", "--idle-exit", str(_LEFT_ALONE_S)),
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

    def command(self, name: str, *arguments: str) -> list[str]:
        """Return how *name* is run whether or not it is on PATH; nothing is imported from the directory."""
        return [sys.executable, "-P", *_COMMANDS[name], *arguments]

    def typed(self, name: str, *arguments: str) -> None:
        """Show a command as typed, run it on this standard output, and show how long it took."""
        _prompt(shlex.join([name, *arguments]))
        began = time.perf_counter()
        # Exit codes are answers too: 1 is "nothing found".
        subprocess.run(self.command(name, *arguments), env=self.environ, cwd=self.projects, check=False)  # noqa: S603 - our own
        _took(began)

    def ingest(self, project: str) -> None:
        """Show and run `contextpull ingest` in one project's directory."""
        _prompt(f"cd {project}; contextpull ingest .; cd ..")
        done = subprocess.run(  # noqa: S603 - a fixed command
            self.command("contextpull", "ingest", "."),
            env=self.environ,
            cwd=self.projects / project,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DemoFailed(f"contextpull failed: {visible(done.stderr.strip() or done.stdout.strip())}")
        _say_plain(done.stdout.splitlines()[0])


def _environ(base: Path, socket: Path) -> dict[str, str]:
    """Return this process's environment with everything of collated's moved below *base*."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    if paths := environ.get("PYTHONPATH"):
        environ["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep))
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        environ[f"XDG_{kind}_HOME"] = str(base / kind.lower())
    environ["COLLATE_SOCKET"] = str(socket)
    environ["COLLATE_CONFIG"] = str(base / "config.toml")
    return environ


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


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(_END_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


# --------------------------------------------------------------------------- what is shown


def _make_stores(stage: _Stage) -> None:
    began = time.perf_counter()
    for project in _PROJECTS:
        stage.ingest(project)
    _took(began)
    with Client(stage.socket) as client:
        began = time.perf_counter()
        deadline = time.monotonic() + _WAIT_S
        while client.status().stores.get("open", 0) < len(_PROJECTS):
            if time.monotonic() > deadline:
                raise DemoFailed("the daemon did not open the six stores")
            time.sleep(_POLL_S)
    _say(f"{_ms(began)} after the last one was written, the daemon has all six open:")
    stage.typed("collate", "index")


def _ask(stage: _Stage) -> None:
    _say("One question to all of them; one list, the same each time:")
    stage.typed("collate", "search", *_QUERY.split(), "--limit", "3")
    _say("A record, word for word:")
    with Client(stage.socket) as client:
        first = client.search(_QUERY, limit=3).hits[0]
    stage.typed("collate", "read", first.ref)
    _say("An exact text, wherever it stands:")
    stage.typed("collate", "grep", "pip install")


def _change(stage: _Stage) -> None:
    _say("A document is rewritten and its store made again; the next answer has it:")
    stage.typed("collate", "search", "zeppelin")
    document = stage.projects / "aiosqlite" / "README.md"
    _prompt(f"printf {shlex.quote(_NEWS.encode('unicode_escape').decode())} >> aiosqlite/README.md")
    document.write_text(document.read_text(encoding="utf-8") + _NEWS, encoding="utf-8")
    stage.ingest("aiosqlite")
    stage.typed("collate", "search", "zeppelin", "--sync")


def _time(stage: _Stage) -> None:
    with Client(stage.socket) as client:
        took: list[str] = []
        for _ in range(2):
            began = time.perf_counter()
            client.search("type hints")
            took.append(_ms(began))
    _say(
        "Most of a command's time is Python starting. Over a connection that stays open, as an",
        f"editor has it, a search took {took[0]} and the same again, from the cache, {took[1]}.",
    )


def _say(*texts: str) -> None:
    _show("")
    for text in texts:
        _show(text, is_heading=True)


def _say_plain(text: str) -> None:
    _show(text)


def _prompt(command: str) -> None:
    _show(f"$ {command}")


def _took(began: float) -> None:
    show([line(Span(f"[{_ms(began)}]", "aside"))], sys.stdout, os.environ)


def _ms(began: float) -> str:
    """Return the time since *began*, a `perf_counter`, for people."""
    return f"{(time.perf_counter() - began) * 1_000:.3g} ms"


def _show(text: str, *, is_heading: bool = False) -> None:
    show([line(Span(visible(text), "heading" if is_heading else ""))], sys.stdout, os.environ)
    sys.stdout.flush()  # the commands write to the same file themselves
