"""The worker process as its daemon holds it: started on demand, asked one job at a time, killed at will."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from .jobs import Done, Job, read_message, write_message

__all__ = ["Child", "WorkerDied", "command_of"]

_ENDING_S = 5.0
# One thread is enough for what it does, and each of a library's own takes megabytes.
_OWN = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
_SERVICE = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


class WorkerDied(Exception):
    """The worker ended within a job: killed by somebody, or by its own fault."""


def command_of(directory: Path, copies: Path, copy_limit_bytes: int, data_limit_bytes: int) -> list[str]:
    """Return the command that runs `worker` for these directories."""
    limits = (str(copy_limit_bytes), str(data_limit_bytes))
    return [sys.executable, "-P", "-m", "collated.sidecars.worker", str(directory), str(copies), *limits]


class Child:
    """One worker process. Blocking; `kill` may be called from any thread."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], keep: Sequence[int] = ()) -> None:
        """Start *command*, which inherits the descriptors of *keep*.

        Raises:
            OSError: it cannot be started.
        """
        inherited = {name: value for name, value in environ.items() if name not in _SERVICE}
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**inherited, **_OWN},
            pass_fds=keep,
        )

    @property
    def stdin(self) -> IO[bytes] | None:
        """Return the pipe in which jobs go."""
        return self._process.stdin

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Tell whether the process has not ended yet."""
        return self._process.poll() is None

    def ask(self, job: Job) -> Done:
        """Return what became of *job*.

        Raises:
            WorkerDied: the process ended before it could say.
        """
        assert self._process.stdin is not None  # noqa: S101 - pipes were asked for
        assert self._process.stdout is not None  # noqa: S101 - as above
        with suppress(OSError):  # it is gone, which its end of the other pipe says too
            write_message(self._process.stdin, job)
            if (body := read_message(self._process.stdout)) is not None:
                return msgspec.msgpack.decode(body, type=Done)
        self.kill()
        raise WorkerDied(f"the worker ended with {self._process.wait()}")

    def kill(self) -> None:
        """End the process at once; safe to call again."""
        self._process.kill()

    def close(self) -> None:
        """End the process and wait until it is gone; safe to call again."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):  # it hangs in a disk that is gone; not for us to wait
            self._process.wait(_ENDING_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not flushed has nobody to go to
                    stream.close()
