"""The blocking client: one connection, one call at a time. Imports neither anyio nor asyncio."""

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from msgspec import Struct

from collated import protocol
from collated.places import socket_path

from .conversation import Conversation, DaemonUnreachable, Params, Reply, decode_result, unreachable

__all__ = ["Client", "OnWait"]

P = ParamSpec("P")
R = TypeVar("R")

OnWait = Callable[[protocol.Partial | None], None]
"""Called while an answer is awaited, with how far it is, or None when the daemon did not say."""

_RECEIVE_BYTES = 262_144
_TICK_S = 0.1
_CONNECT_PAUSE_S = 0.02
# Longer than the longest deadline a request can set (60 s), so it means the daemon is stuck.
_TIMEOUT_S = 75.0


def _call(method: str, params: Callable[P, Struct], result: type[R]) -> Callable[Concatenate["Client", P], R]:
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> R:
        answer: R = client.call(method, params(*args, **kwargs))
        return answer

    call.__name__ = method.replace(".", "_")
    call.__doc__ = f"Call `{method}` and return its `{result.__name__}`. {params.__doc__}"
    return call


class Client:
    """A connection to the daemon, for one thread; close it or use it in a `with` statement.

    The methods take the fields of their Params in `protocol` as arguments:
    `client.search("refund window", limit=3, stores=["docs"])`.
    """

    def __init__(self, path: Path | None = None, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Connect to the socket at *path*, by default the one of this environment.

        *timeout_s* is how long one call may take in all; it ends only calls that the daemon's own
        deadline does not.

        Raises:
            DaemonUnreachable: nothing listens there, or it may not be used.
        """
        self._path = path or socket_path(os.environ)
        self._timeout_s = timeout_s
        self._conversation = Conversation()
        self._arrived: deque[Reply | Struct] = deque()
        self._changes: deque[protocol.Changes] = deque()
        self._socket = _connect(self._path, timeout_s)

    def __enter__(self) -> Self:
        """Return itself, connected."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; whatever it asked for is cancelled."""
        self._socket.close()

    def call(
        self,
        method: str,
        params: Params = None,
        *,
        timeout_s: float | None = None,
        on_wait: OnWait | None = None,
    ) -> Any:
        """Return the result Struct of *method*, as `protocol.METHODS` has it.

        *on_wait* is called every 0.1 s and whenever the daemon says how far it is.

        Raises:
            RequestFailed: the daemon answered with an error.
            DaemonUnreachable: it went away, or took longer than *timeout_s*.
        """
        request_id, message = self._conversation.request(method, params, is_streamed=on_wait is not None)
        self._send(message)
        allowed_s = self._timeout_s if timeout_s is None else timeout_s
        reply = self._reply(request_id, time.monotonic() + allowed_s, on_wait)
        if reply is None:
            self._send(self._conversation.cancel(request_id))
            raise DaemonUnreachable(f"the daemon did not answer within {allowed_s:g} s")
        return decode_result(method, reply)

    search = _call("search", protocol.SearchParams, protocol.SearchResult)
    read = _call("read", protocol.ReadParams, protocol.ReadResult)
    grep = _call("grep", protocol.GrepParams, protocol.GrepResult)
    neighbours = _call("neighbours", protocol.NeighboursParams, protocol.NeighboursResult)
    index = _call("index", protocol.IndexParams, protocol.IndexResult)
    symbols = _call("symbols", protocol.SymbolsParams, protocol.SymbolsResult)
    references = _call("references", protocol.ReferencesParams, protocol.ReferencesResult)
    impact = _call("impact", protocol.ImpactParams, protocol.ImpactResult)
    chunk = _call("chunk", protocol.ChunkParams, protocol.ChunkResult)
    architecture = _call("architecture", protocol.ArchitectureParams, protocol.ArchitectureResult)
    vectors_search = _call("vectors.search", protocol.VectorsSearchParams, protocol.VectorsSearchResult)
    context_describe = _call("context.describe", protocol.DescribeParams, protocol.ContextAnswer)
    context_query = _call("context.query", protocol.QueryParams, protocol.ContextTable)
    context_reference = _call("context.reference", protocol.ReferenceParams, protocol.ContextAnswer)
    context_execute_query = _call("context.execute_query", protocol.ExecuteQueryParams, protocol.ContextTable)
    context_files = _call("context.files", protocol.FilesParams, protocol.ContextAnswer)
    context_file = _call("context.file", protocol.FileParams, protocol.ContextTable)
    context_lineage = _call("context.lineage", protocol.LineageParams, protocol.ContextAnswer)
    context_subscribe = _call("context.subscribe", protocol.SubscribeRunsParams, protocol.ContextAnswer)
    corpus_retrieve = _call("corpus.retrieve", protocol.RetrieveParams, protocol.ContextTable)
    memory_recall = _call("memory.recall", protocol.RecallParams, protocol.ContextTable)
    stores = _call("stores", protocol.StoresParams, protocol.StoresResult)
    status = _call("status", protocol.NoParams, protocol.StatusResult)
    rescan = _call("rescan", protocol.NoParams, protocol.Changes)
    reload = _call("reload", protocol.NoParams, protocol.ReloadResult)
    cache = _call("cache", protocol.CacheParams, protocol.CacheResult)
    ping = _call("ping", protocol.NoParams, protocol.PingResult)

    def subscribe(self) -> Iterator[protocol.Changes]:
        """Return the changes of stores from now on, each as it happens; waits for ever between them.

        Raises:
            DaemonUnreachable: while iterating, once the daemon goes away.
        """
        self.call("subscribe", protocol.SubscribeParams(["stores/changed"]))
        return self._follow()

    def _follow(self) -> Iterator[protocol.Changes]:
        while True:
            while self._changes:
                yield self._changes.popleft()
            self._receive(None)
            while self._arrived:
                self._sort(self._arrived.popleft())

    def _reply(self, request_id: int, deadline: float, on_wait: OnWait | None) -> Reply | None:
        """Return the reply to *request_id*, or None when it is not there at *deadline*."""
        partial: protocol.Partial | None = None
        while True:
            while self._arrived:
                event = self._arrived.popleft()
                if isinstance(event, Reply) and event.id in (request_id, None):
                    return event
                if isinstance(event, protocol.Progress) and event.token == request_id:
                    partial = event.value
                self._sort(event)
            if on_wait is not None:
                on_wait(partial)
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return None
            self._receive(min(_TICK_S, remaining_s) if on_wait else remaining_s)

    def _sort(self, event: Reply | Struct) -> None:
        if isinstance(event, protocol.Changes):
            self._changes.append(event)  # anything else belongs to a call that was given up

    def _send(self, message: bytes) -> None:
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(message)
        except OSError as error:
            raise DaemonUnreachable(f"the daemon at {self._path} went away: {error}") from error

    def _receive(self, wait_s: float | None) -> None:
        try:
            self._socket.settimeout(wait_s)
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return
        except OSError as error:
            raise DaemonUnreachable(f"the daemon at {self._path} went away: {error}") from error
        if not data:
            raise DaemonUnreachable(f"the daemon at {self._path} closed the connection")
        self._arrived.extend(self._conversation.feed(data))


def _connect(path: Path, timeout_s: float) -> socket.socket:
    deadline = time.monotonic() + timeout_s
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        while True:
            try:
                connection.connect(os.fsencode(path))
            except BlockingIOError:  # the listener's queue is full; a blocking connect would wait for ever
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_CONNECT_PAUSE_S)
            else:
                return connection
    except OSError as error:
        connection.close()
        raise unreachable(path, error) from error
