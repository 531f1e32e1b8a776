"""What the tests of the engines share: real workers with a handler of the tests' own, and what to attack."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collated.engines.workers import Limits, Workers
from collated_readers import Budget, RequestError, StoreError


class Staff(Workers):
    """Workers that are asked in fewer words."""

    def do(self, tool: str, root: str = "/a", *, seconds: float = 30.0, **params: Any) -> Any:
        """Return what comes of it."""
        return self.ask(tool, root, params, Budget.lasting(seconds))

    def code_of(self, tool: str, *, seconds: float = 30.0, **params: Any) -> str:
        """Return the code of the error that comes of it."""
        with pytest.raises((StoreError, RequestError)) as caught:
            self.do(tool, seconds=seconds, **params)
        assert isinstance(caught.value, StoreError | RequestError)
        return caught.value.code


Employ = Callable[..., Staff]
Soon = Callable[[Callable[[], object]], None]


@pytest.fixture(scope="session")
def environ() -> dict[str, str]:
    """An environment in which Python finds our modules, and those of this folder."""
    paths = [str(Path(__file__).parent), *(path for path in sys.path if path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NOTIFY_SOCKET": "@nobody", "TOKEN": "secret"}


@pytest.fixture
def employ(environ: dict[str, str]) -> Iterator[Employ]:
    """`employ(processes=2, …)` gives workers with such limits; ended with the test."""
    made: list[Staff] = []

    def hire(service: str = "Service", engine: str = "json", **limits: float) -> Staff:
        terms = Limits(**{"processes": 4, "idle_s": 60.0, **limits})  # type: ignore[arg-type]  # of both kinds
        made.append(Staff(terms, handler=f"engine_handlers:{service}", engine=engine, environ=environ))
        return made[-1]

    yield hire
    for workers in made:
        workers.close()


@pytest.fixture
def soon() -> Soon:
    """`soon(condition)` returns as soon as it holds, and fails the test after twenty seconds."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "waited twenty seconds in vain"
            time.sleep(0.005)

    return wait


@pytest.fixture
def lives() -> Callable[[int], bool]:
    """`lives(pid)` tells whether a process is there and no zombie."""

    def tell(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] not in "ZX"

    return tell


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of things that a worker may want to change; with a socket that listens."""
    path = tmp_path / "store"
    path.mkdir()
    (path / "empty").mkdir()
    (path / "part").write_bytes(b"precious" * 1000)
    (path / "other").write_bytes(b"other")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path / "socket"))
        listener.listen()
        yield path


@pytest.fixture
def port() -> Iterator[int]:
    """A port of loopback on which somebody listens, as on the abstract socket of that number."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        number: int = listener.getsockname()[1]
        abstract.bind(f"\0engines-{number}")
        abstract.listen()
        yield number
