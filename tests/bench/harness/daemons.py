"""Daemons of the bench's own: real processes with directories of their own, ended by their process id."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from collated.client import Client, DaemonUnreachable
from collated.errors import RequestFailed
from collated.protocol import SearchResult

from .answers import LIMIT
from .waiting import wait_for
from .wire import LONG_MS

__all__ = ["Daemon", "complete"]

_STOP_S = 120.0
_HARNESS = Path(__file__).parent.parent
_HOMES = ("RUNTIME_DIR", "STATE_HOME", "CACHE_HOME", "DATA_HOME", "CONFIG_HOME")


class Daemon:
    """One daemon over one folder of stores. Stopped and started again it remembers its stores."""

    def __init__(self, stores: Path, **settings: object) -> None:
        """Watch *stores*; *settings* are given as `section__key=value`."""
        # Not below the cache folder: a socket's path has 107 bytes.
        self._home = tempfile.TemporaryDirectory(prefix="cb-", ignore_cleanup_errors=True)
        home = Path(self._home.name)
        self.socket = home / "s"
        self.log = home / "log"
        self._config = home / "config.toml"
        self._config.write_text(f"[[watch]]\npath = {_quoted(stores)}\n", encoding="utf-8")
        homes = {f"XDG_{name}": str(home / name.lower()) for name in _HOMES}
        (home / "runtime_dir").mkdir(mode=0o700)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("COLLATE_", "XDG_"))}
        self.environ = {**kept, **homes, "COLLATE_SOCKET": str(self.socket)}
        self.set(**settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Return itself; `start` starts it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it and remove its directories."""
        self.close()

    def close(self) -> None:
        """Stop it and remove its directories."""
        self.stop()
        self._home.cleanup()

    def set(self, **settings: object) -> None:
        """Change *settings* for the next start; None is a setting's default."""
        for key, value in settings.items():
            self.environ.pop(f"COLLATE_{key.upper()}", None)
            if value is not None:
                self.environ[f"COLLATE_{key.upper()}"] = str(value)

    @property
    def kept(self) -> Path:
        """Return the folder of what it keeps on disk to answer faster."""
        return Path(self.environ["XDG_CACHE_HOME"]) / "collated"

    @property
    def pid(self) -> int:
        """Return its process id."""
        if self._process is None:
            raise RuntimeError("the daemon is not running")
        return self._process.pid

    def start(self, *, inside: bool = False) -> Self:
        """Start the process, and return itself at once; with *inside* it takes questions on `pipe` too."""
        if self._process is not None:
            raise RuntimeError("the daemon is running already")
        module = "harness.inside" if inside else "collated"
        command = [sys.executable, "-m", module, "run", "--config", str(self._config)]
        self._log = self.log.open("ab")
        pipe = subprocess.PIPE if inside else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, cwd=_HARNESS, env=self.environ, stderr=self._log, stdin=pipe, stdout=pipe
        )
        return self

    @property
    def pipe(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the standard input and output of a daemon started with *inside*."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the daemon was not started to be asked inside")
        return process.stdin, process.stdout

    def stop(self) -> None:
        """End the process and wait for it."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(_STOP_S)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._log is not None:
            self._log.close()

    def client(self) -> Client:
        """Return a client, as soon as the daemon listens."""
        return wait_for(self._connect, "the daemon to listen")

    def _connect(self) -> Client | None:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the daemon ended: {self.log.read_text(encoding='utf-8')[-2000:]}")
        try:
            return Client(self.socket)
        except DaemonUnreachable:
            return None

    def wait_open(self, client: Client, count: int) -> None:
        """Wait until *count* stores are open."""
        wait_for(lambda: client.status().stores.get("open", 0) == count or None, f"{count} open stores")


def complete(client: Client, text: str, count: int) -> SearchResult | None:
    """Return the answer of all *count* stores, or None while some are missing."""
    try:
        result = client.search(text, limit=LIMIT, deadline_ms=LONG_MS)
    except RequestFailed:
        return None
    return result if result.complete and result.stores.asked == count else None


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
