"""A worker process as its daemon holds it: asked one job at a time until an instant, killed at will."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from collated_readers import Budget

from .frames import FrameError, Frames
from .jobs import TAKEN, Answer, Confinement, Job, Ready, pack

__all__ = ["Died", "NotReady", "Overdue", "Process", "command_of", "environment_of"]

_POLL_S = 0.02  # how soon a cancellation is seen
_READ_BYTES = 1 << 20
_LONGEST_MS = 86_400_000

# What Python and the linker need to find our modules, and the language. Nothing else is passed on: neither
# the service manager's variables nor anybody's credentials are a worker's business.
_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONUTF8")
_KEPT_SYSTEM = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE")
# One thread is enough for what it does with arrays, and each of a library's own takes megabytes.
_OWN = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}

_answers = msgspec.msgpack.Decoder(Answer)
_ready = msgspec.msgpack.Decoder(Ready)
_NONSENSE = (FrameError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Died(Exception):
    """The process ended, or said what no worker says. *had_begun* tells whether over the job."""

    def __init__(self, message: str, *, had_begun: bool) -> None:
        """Say what is known of its end."""
        super().__init__(message)
        self.had_begun = had_begun


class Overdue(Exception):
    """The budget ended while the process was at the job; it still is."""


class NotReady(Exception):
    """The budget ended before the process was told of the job, which starts or waits as before."""


def command_of(memory_bytes: int, handler: str) -> list[str]:
    """Return the command that runs `worker`."""
    return [sys.executable, "-P", "-m", "collated.engines.worker", str(memory_bytes), handler]


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of *environ* a worker is given."""
    kept = {name: value for name in _KEPT + _KEPT_SYSTEM if (value := environ.get(name)) is not None}
    return kept | _OWN


class Process:
    """One worker. Blocking; for one thread at a time, but for `kill`, which any may call."""

    def __init__(self, memory_bytes: int, handler: str, environ: Mapping[str, str]) -> None:
        """Start it. The kernel ends it with the thread that does so.

        Raises:
            OSError: it cannot be started.
        """
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command_of(memory_bytes, handler),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment_of(environ),
            bufsize=0,
        )
        assert self._process.stdin is not None  # noqa: S101 - pipes were asked for
        assert self._process.stdout is not None  # noqa: S101 - as above
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._in.fileno(), False)
        os.set_blocking(self._out.fileno(), False)
        self._frames = Frames()
        self._unsent = memoryview(b"")
        self.confinement: Confinement | None = None
        self.root = ""
        self.jobs = 0
        self.started = self.used = time.monotonic()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        """Return how much memory it has now, 0 where the system does not say."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def ask(self, tool: str, root: str, params: dict[str, Any], budget: Budget, grace_s: float) -> Answer:
        """Return what became of one job; it has *grace_s* beyond the budget's deadline to say so.

        Raises:
            NotReady: the process may be asked again.
            Overdue: it is to be killed.
            Died: it is to be closed.
        """
        had_begun = False
        try:
            self._await_ready(budget)
            if not self._frames.is_empty:
                raise FrameError("something that nobody asked for")
            if budget.is_spent():
                raise NotReady
            deadline_ms = min(int(budget.remaining() * 1000), _LONGEST_MS)
            self._unsent = memoryview(pack(Job(tool, os.fsencode(root), params, deadline_ms)))
            self.root, self.jobs = root, self.jobs + 1
            had_begun = self._receive(budget, grace_s) == TAKEN
            return _answers.decode(self._receive(budget, grace_s))
        except EOFError as error:
            raise Died(self._last_words(), had_begun=had_begun) from error
        except _NONSENSE as error:
            raise Died(f"it said what no worker says: {error}", had_begun=True) from error
        finally:
            self.used = time.monotonic()

    def _await_ready(self, budget: Budget) -> None:
        if self.confinement is not None:
            return
        try:
            self.confinement = _ready.decode(self._receive(budget, 0.0)).confinement
        except Overdue as error:
            raise NotReady from error

    def _receive(self, budget: Budget, grace_s: float) -> bytes:
        while (body := self._frames.take()) is None:
            left_s = 0.0 if budget.cancelled else budget.deadline + grace_s - time.monotonic()
            if left_s <= 0:
                raise Overdue
            self._pump(min(left_s, _POLL_S))
        return body

    def _pump(self, timeout_s: float) -> None:
        """Wait until something can be sent or received, and do it."""
        poll = select.poll()  # not `select`, whose descriptors end at 1024
        poll.register(self._out, select.POLLIN)
        if self._unsent:
            poll.register(self._in, select.POLLOUT)
        for fd, _ in poll.poll(timeout_s * 1000):
            if fd == self._out.fileno():
                self._take_in()
            else:
                self._send()

    def _take_in(self) -> None:
        data = os.read(self._out.fileno(), _READ_BYTES)
        if not data:
            raise EOFError
        self._frames.feed(data)

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._in.fileno(), self._unsent) :]
        except BrokenPipeError:  # it is gone, which its end of the other pipe says too
            self._unsent = memoryview(b"")

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):  # it closed its output and lives, or takes long to end
            return f"it ended with {self._process.wait(_POLL_S)}"
        return "it closed its output"

    def kill(self) -> None:
        """End the process at once; safe to call again."""
        self._process.kill()

    def close(self) -> None:
        """End the process at once and leave its pipes; it is gone once `is_gone` says so."""
        self.kill()
        self._in.close()
        self._out.close()

    def is_gone(self) -> bool:
        """Tell whether the process has ended, and is no zombie any more."""
        return self._process.poll() is not None
