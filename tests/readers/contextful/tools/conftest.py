"""A read face over a store as its tools are called, and one without an engine for what asks none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from collated_readers import RequestError
from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bounds, ContextStore, Declared, Run, Table
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.session import Session, open_session
from collated_readers.contextful.tools import Call, call_tool

NOW = 1_900_000_000_000_000_000  # in March 2030, after all that the worked example holds
MEMORY = 256 << 20


class Face:
    """The tools over the store at *root*, as it is at each call."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_ns = NOW
        self._open = ExitStack()
        self._sessions: dict[tuple[str, str], Session] = {}

    def __call__(self, tool: str, **params: Any) -> dict[str, Any]:
        """Call a tool."""
        return call_tool(tool, self.a_call(), params)

    def a_call(self) -> Call:
        """Return a call of what is on disk now."""
        store = load_store(self.root)
        return Call(store, lambda bounds: self._session(store, bounds), self.now_ns)

    def refusal(self, tool: str, **params: Any) -> RequestError:
        """Return what a tool refuses a call with."""
        with pytest.raises(RequestError) as caught:
            self(tool, **params)
        assert str(self.root) not in caught.value.message
        return caught.value

    def _session(self, store: ContextStore, bounds: Bounds) -> Reads:
        key = (store.digest, repr(bounds))
        if key not in self._sessions:
            session = open_session(store, bounds, memory_bytes=MEMORY, threads=1)
            self._open.callback(session.close)
            self._sessions[key] = session
        return self._sessions[key]

    def close(self) -> None:
        self._open.close()


FaceOf = Callable[[Path], Face]


@pytest.fixture(scope="session")
def face_of() -> Iterator[FaceOf]:
    """`face_of(root)` are the tools over the store at *root*."""
    faces: list[Face] = []

    def of(root: Path) -> Face:
        faces.append(Face(root))
        return faces[-1]

    yield of
    for face in faces:
        face.close()


@pytest.fixture(scope="session")
def example(worked_example: Path, face_of: FaceOf) -> Face:
    """The tools over the worked example, read where it lies."""
    return face_of(worked_example)


# --------------------------------------------------------------------- without an engine


class Listed:
    """A session that knows the names of its relations and nothing else."""

    def __init__(self, store: ContextStore) -> None:
        self.store = store
        self.bounds = Bounds()
        self.relations = frozenset(
            name for name, table in store.tables.items() if not table.declared.withheld
        )
        self.closed: Mapping[str, str] = {}


CallListed = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def call_listed() -> CallListed:
    """`call_listed(tool, {table: runs}, waiting={table: numbers}, **params)` calls what reads no row."""

    def call(
        tool: str,
        runs: Mapping[str, Sequence[Run]],
        /,
        *,
        waiting: Mapping[str, Sequence[int]] | None = None,
        **params: Any,
    ) -> dict[str, Any]:
        made = {
            name: Table(name, Declared(name), runs=tuple(of), waiting=tuple((waiting or {}).get(name, ())))
            for name, of in runs.items()
        }
        store = ContextStore("/nowhere", "made", "digest", made)
        listed: Any = Listed(store)  # all of `Reads` that such a tool may ask for
        return call_tool(tool, Call(store, lambda _: listed, NOW), params)

    return call
