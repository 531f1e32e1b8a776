"""What the tests have workers do instead of reading stores; run in their processes, or as a program.

    python -m engine_handlers WALLS FOLDER PORT

raises the walls named, by commas, and prints what could be done all the same.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collated.engines import landlock, sandbox, seccomp
from collated_readers import RequestError, StoreError

__all__ = ["Attempts", "NoService", "Service", "attempts"]

Attempts = dict[str, str]
"""What each attempt came to: `done`, or the name of the error."""


class Unspeakable(Exception):
    """What is hostile may have a `__str__` of its own."""

    def __str__(self) -> str:
        raise ValueError("this has no words")


class Service:
    """A tool for each way of behaving, and of not."""

    def __init__(self) -> None:
        self._asked = 0

    def answer(self, tool: str, root: str, params: dict[str, Any], deadline_s: float) -> Any:
        self._asked += 1
        return getattr(self, tool)(params, root, deadline_s)

    # ----------------------------------------------------------------------- what behaves

    def echo(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        print("this is no answer" * 1000, flush=True)
        print("nor is this" * 1000, file=sys.stderr, flush=True)
        return {"pid": os.getpid(), "asked": self._asked, "root": root, "left_s": deadline_s, **params}

    def nap(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        """Stop at the deadline, as one should, unless it is over before."""
        time.sleep(min(params["for_s"], deadline_s))
        if params["for_s"] > deadline_s:
            raise RequestError("ReadDurationExceeded", "stopped by itself")
        return os.getpid()

    def large(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        return "x" * params["bytes"]

    def environment(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        return dict(os.environ)

    def limits(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        names = ("RLIMIT_DATA", "RLIMIT_CORE", "RLIMIT_FSIZE")
        return {name: resource.getrlimit(getattr(resource, name)) for name in names}

    def thread(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        """Attempt everything in a thread that was started after the walls were raised."""
        found: Attempts = {}
        thread = threading.Thread(target=lambda: found.update(attempts(Path(root), params["port"])))
        thread.start()
        thread.join()
        return found

    def attempts(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        return attempts(Path(root), params["port"])

    def copy(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        """Overwrite a part from within a locked DuckDB, which lets whoever may read a path write it too."""
        import duckdb

        with duckdb.connect(":memory:") as db:
            db.execute("SET allowed_paths = [" + ", ".join(f"'{part}'" for part in params["parts"]) + "]")
            db.execute("SET enable_external_access = false; SET lock_configuration = true")
            part = params["parts"][0]
            before = db.execute(f"SELECT count(*) FROM '{part}'").fetchall()  # noqa: S608 - its own
            try:
                db.execute(params["sql"].replace("PART", part)).fetchall()
            except duckdb.Error as error:
                return {"before": before, "error": type(error).__name__}
            return {"before": before, "error": None}

    def sql(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        """Run a statement with nothing to stop it but the process's own limits."""
        import duckdb

        with duckdb.connect(":memory:", config={"memory_limit": "64GB", "threads": 2}) as db:
            try:
                return db.execute(params["sql"]).fetchall()
            except duckdb.OutOfMemoryException as error:
                raise StoreError("engine_memory", "too much") from error

    # ----------------------------------------------------------------------- what does not

    def refuse(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        raise RequestError("QueryParameterRejected", "not so", "but so")

    def store(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        raise StoreError("damaged", "broken")

    def fault(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        raise ZeroDivisionError("\udcff")

    def unspeakable(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        raise Unspeakable

    def leave(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        raise SystemExit

    def unsayable(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        return object()

    def unwritable(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        return "\ud800"

    def recurse(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        return self.recurse(params, root, deadline_s)

    def spin(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        while True:
            pass

    def hold(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        """Never let another thread of the process run."""
        return re.match("(a+)+$", "a" * 100 + "b")

    def allocate(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        kept: list[bytes] = []
        while True:
            kept.append(b"x" * (16 << 20))

    def keep(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        """Have so much memory from now on."""
        self._kept = b"x" * params["bytes"]
        return os.getpid()

    def exit(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        os._exit(3)

    def crash(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        ctypes.string_at(0)

    def abort(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        os.abort()

    def babble(self, params: dict[str, Any], root: str, deadline_s: float) -> Any:
        """Say something else than an answer, wherever it is heard."""
        for fd in range(3, 16):
            try:
                os.write(fd, bytes.fromhex(params["hex"]))
            except OSError:
                continue
        time.sleep(deadline_s)


class NoService:
    """One that cannot be had."""

    def __init__(self) -> None:
        raise LookupError("not today")


# --------------------------------------------------------------------------- attempts

O_TMPFILE = getattr(os, "O_TMPFILE", 0)


def _opened(path: Path, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def _mapped(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[0] = 0


def _file_attempts(folder: Path) -> dict[str, Callable[[], object]]:
    part, new = folder / "part", folder / "new"
    return {
        "map": lambda: _mapped(part),
        "write": lambda: _opened(part, os.O_WRONLY),
        "read and write": lambda: _opened(part, os.O_RDWR),
        "append": lambda: _opened(part, os.O_WRONLY | os.O_APPEND),
        "open and truncate": lambda: _opened(part, os.O_RDONLY | os.O_TRUNC),
        "create": lambda: _opened(new, os.O_RDONLY | os.O_CREAT),
        "temporary": lambda: _opened(folder, os.O_RDWR | O_TMPFILE),
        "truncate": lambda: os.truncate(part, 0),
        "rename": lambda: part.rename(new),
        "replace": lambda: (folder / "other").replace(part),
        "unlink": part.unlink,
        "rmdir": (folder / "empty").rmdir,
        "mkdir": new.mkdir,
        "link": lambda: new.hardlink_to(part),
        "symlink": lambda: new.symlink_to(part),
        "mkfifo": lambda: os.mkfifo(new),
        "elsewhere": lambda: _opened(Path("/tmp/engine-was-here"), os.O_WRONLY | os.O_CREAT),  # noqa: S108
        "shared memory": lambda: _opened(Path("/dev/shm/engine-was-here"), os.O_WRONLY | os.O_CREAT),  # noqa: S108
    }


def _quiet_attempts(folder: Path) -> dict[str, Callable[[], object]]:
    """Return what Landlock does not know of."""
    part = folder / "part"
    return {
        "chmod": lambda: part.chmod(0o777),
        "chown": lambda: os.chown(part, os.getuid(), os.getgid()),
        "utime": lambda: os.utime(part, (1, 1)),
        "setxattr": lambda: os.setxattr(part, "user.mine", b"1"),
        "limit of another": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0)),
        "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
        "unix socket": lambda: socket.socket(socket.AF_UNIX).connect(str(folder / "socket")),
        "fork": lambda: os.fork() or os._exit(0),
    }


def _other_attempts(port: int) -> dict[str, Callable[[], object]]:
    return {
        "connect": lambda: socket.create_connection(("127.0.0.1", port), 5).close(),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "abstract socket": lambda: socket.socket(socket.AF_UNIX).connect(f"\0engines-{port}"),
        "signal": lambda: os.kill(os.getppid(), signal.SIGCONT),
        "execute": lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}),
    }


def attempts(folder: Path, port: int) -> Attempts:
    """Return what came of each thing that may not be possible."""
    every = _quiet_attempts(folder) | _file_attempts(folder) | _other_attempts(port)
    return {name: _attempted(act) for name, act in every.items()}


def _attempted(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"


def main(walls: str, folder: str, port: str) -> None:
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    for wall in filter(None, walls.split(",")):
        stands = {"landlock": landlock.restrict, "seccomp": seccomp.restrict, "all": _everything}[wall]()
        assert stands, wall
    print(json.dumps(attempts(Path(folder), int(port))))


def _everything() -> bool:
    return not sandbox.confine(1 << 30).missing


if __name__ == "__main__":
    main(*sys.argv[1:])
