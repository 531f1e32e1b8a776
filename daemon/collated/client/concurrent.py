"""The async client: any number of calls at once on one connection."""

import math
import os
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
from anyio.abc import ByteStream, SocketAttribute, TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct

from collated import protocol
from collated.places import socket_path

from .conversation import Conversation, DaemonUnreachable, Params, Reply, decode_result, unreachable

__all__ = ["AsyncClient"]

P = ParamSpec("P")
R = TypeVar("R")

_RECEIVE_BYTES = 262_144
_SEND_TIMEOUT_S = 10.0
_CANCEL_TIMEOUT_S = 1.0
_NOT_CONNECTED = "use the client inside `async with`"


def _call(
    method: str, params: Callable[P, Struct], result: type[R]
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, R]]:
    async def call(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> R:
        answer: R = await client.call(method, params(*args, **kwargs))
        return answer

    call.__name__ = method.replace(".", "_")
    call.__doc__ = f"Call `{method}` and return its `{result.__name__}`. {params.__doc__}"
    return call


class _Waiting:
    """A call whose reply has not come."""

    def __init__(self, on_progress: Callable[[protocol.Partial], None] | None) -> None:
        self.arrived = anyio.Event()
        self.reply: Reply | None = None
        self.on_progress = on_progress


class AsyncClient:
    """A connection to the daemon, open inside `async with`; any number of tasks may call at once.

    The methods take the fields of their Params in `protocol` as arguments:
    `await client.search("refund window", limit=3, stores=["docs"])`. Cancelling a task that waits
    cancels its request in the daemon.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Take the socket at *path*, by default the one of this environment; connects on entry."""
        self._path = path or socket_path(os.environ)
        self._conversation = Conversation()
        self._waiting: dict[int, _Waiting] = {}
        self._followers: set[MemoryObjectSendStream[protocol.Changes]] = set()
        self._failure: Exception | None = DaemonUnreachable(_NOT_CONNECTED)
        self._sending = anyio.Lock(fast_acquire=True)
        self._stream: ByteStream
        self._socket: socket.socket | None = None
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            DaemonUnreachable: nothing listens there, or it may not be used.
        """
        try:
            self._stream = await anyio.connect_unix(self._path)
        except OSError as error:
            raise unreachable(self._path, error) from error
        self._socket = _plain(self._stream.extra(SocketAttribute.raw_socket))  # noqa: S610 - no Django
        self._failure = None
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._listen)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection; whatever it asked for is cancelled."""
        self._tasks.cancel_scope.cancel()
        # The caller's own exception goes on as it is, not wrapped in the task group's.
        await self._tasks.__aexit__(None, None, None)

    async def call(
        self,
        method: str,
        params: Params = None,
        *,
        on_progress: Callable[[protocol.Partial], None] | None = None,
    ) -> Any:
        """Return the result Struct of *method*, as `protocol.METHODS` has it.

        *on_progress* is called with how far the answer is whenever the daemon says so.

        Raises:
            RequestFailed: the daemon answered with an error.
            DaemonUnreachable: it went away.
        """
        if self._failure is not None:
            raise self._failure
        request_id, message = self._conversation.request(method, params, is_streamed=on_progress is not None)
        waiting = self._waiting[request_id] = _Waiting(on_progress)
        try:
            await self._send(message, _SEND_TIMEOUT_S)
            await waiting.arrived.wait()
        except anyio.get_cancelled_exc_class():
            with suppress(DaemonUnreachable):
                await self._send(self._conversation.cancel(request_id), _CANCEL_TIMEOUT_S)
            raise
        finally:
            del self._waiting[request_id]
        if waiting.reply is None:
            raise self._failure or DaemonUnreachable(_NOT_CONNECTED)
        return decode_result(method, waiting.reply)

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

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[MemoryObjectReceiveStream[protocol.Changes]]:
        """Give the changes of stores, from now to the end of the block, to iterate over with `async for`.

        Changes are kept until they are read. The iteration ends when the daemon goes away.
        """
        sender, receiver = anyio.create_memory_object_stream[protocol.Changes](math.inf)
        self._followers.add(sender)
        try:
            with sender, receiver:
                await self.call("subscribe", protocol.SubscribeParams(["stores/changed"]))
                yield receiver
        finally:
            self._followers.discard(sender)

    async def _send(self, message: bytes, timeout_s: float) -> None:
        rest = message if self._sending.locked() else self._unsent(message)
        if not rest:
            return
        # Shielded, since half a frame would end the connection for every other task.
        with anyio.move_on_after(timeout_s, shield=True):
            try:
                async with self._sending:
                    await self._stream.send(rest)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise DaemonUnreachable(f"the daemon at {self._path} went away") from error
            return
        self._stop(DaemonUnreachable(f"the daemon at {self._path} does not read what it is sent"))
        await anyio.aclose_forcefully(self._stream)

    def _unsent(self, message: bytes) -> bytes:
        """Send what the system takes at once, which is most often all, and return the rest.

        A stream's own `send` first gives way to all other tasks.
        """
        if self._socket is None:
            return message
        try:
            return message[self._socket.send(message) :]
        except OSError:  # it is full, or broken, which the stream says in its own words
            return message

    async def _listen(self) -> None:
        failure: Exception = DaemonUnreachable(f"the daemon at {self._path} closed the connection")
        try:
            async with self._stream:
                while True:
                    for event in self._conversation.feed(await self._stream.receive(_RECEIVE_BYTES)):
                        self._take(event)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # what `failure` says
        except DaemonUnreachable as error:
            failure = error
        finally:
            self._stop(failure)

    def _take(self, event: Reply | Struct) -> None:
        match event:
            case Reply(id=None):
                self._stop(event.failure or DaemonUnreachable("the daemon sent a reply to nobody"))
            case Reply(id=int(request_id)) if waiting := self._waiting.get(request_id):
                waiting.reply = event
                waiting.arrived.set()
            case protocol.Progress(token=int(token)) if waiting := self._waiting.get(token):
                if waiting.on_progress is not None:
                    waiting.on_progress(event.value)
            case protocol.Changes():
                for follower in self._followers:
                    with suppress(anyio.BrokenResourceError):  # the reader closed its end
                        follower.send_nowait(event)
            case _:
                pass  # the reply to a call that was cancelled

    def _stop(self, failure: Exception) -> None:
        """End every call and every subscription; the first reason is the one that is told."""
        self._failure = self._failure or failure
        for waiting in self._waiting.values():
            waiting.arrived.set()
        for follower in self._followers:
            follower.close()


def _plain(raw: object) -> socket.socket | None:
    """Return a socket that sends at once or not at all; another event loop's may not."""
    return raw if isinstance(raw, socket.socket) else None
