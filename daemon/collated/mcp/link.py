"""A session's connection to the daemon: made when it is needed, made anew when it breaks."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from collated.client import AsyncClient, DaemonUnreachable
from collated.errors import CollatedError, RequestFailed
from collated.protocol import Partial, StoresResult, StoreStatus

__all__ = ["Link"]

_NO_DAEMON = (
    "start one with `collated run` or `systemctl --user start collated.socket`, or leave out --no-spawn"
)
_DRAIN_PATIENCE_S = 3.0
_DRAIN_PAUSE_S = 0.1


class Link:
    """The daemon as a session sees it, open inside `async with`; any number of tasks may call at once.

    It keeps the list of stores, and reads it again whenever the daemon says that it changed.
    """

    def __init__(self, path: Path, start: Callable[[], None] | None = None) -> None:
        """Take the daemon's socket at *path*; *start* returns once one listens, None where it may not."""
        self._path = path
        self._start = start
        self._client: AsyncClient | None = None
        self._connecting = anyio.Lock()
        self._known: Mapping[str, StoreStatus] = MappingProxyType({})
        self._changed = anyio.Event()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        """Return itself; it connects when it is asked something."""
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection; whatever it asked for is cancelled."""
        self._tasks.cancel_scope.cancel()
        # The caller's own exception goes on as it is, not wrapped in the task group's.
        await self._tasks.__aexit__(None, None, None)

    @property
    def known(self) -> Mapping[str, StoreStatus]:
        """Return the stores by name as they were last read, none before the first time; a value."""
        return self._known

    async def changed(self, known: Mapping[str, StoreStatus]) -> Mapping[str, StoreStatus]:
        """Return the stores once they were read again after *known*, at once where they were already."""
        while self._known is known:
            await self._changed.wait()
        return self._known

    async def stores(self, *, may_start: bool = True) -> Mapping[str, StoreStatus]:
        """Return the stores by name, connecting first where that is needed.

        Without *may_start* no daemon is started where none listens.

        Raises:
            DaemonUnreachable: there is none and it may not be, or could not be, started.
        """
        await self._connected(may_start=may_start)
        return self._known

    async def call(
        self,
        method: str,
        params: Mapping[str, Any],
        on_progress: Callable[[Partial], None] | None = None,
    ) -> Any:
        """Return the result Struct of *method*, as `protocol.METHODS` has it.

        Cancelling a task that waits cancels its request in the daemon. What was asked of a daemon that went
        away is not asked again; the next call reaches, or starts, another one.

        Raises:
            RequestFailed: the daemon answered with an error.
            DaemonUnreachable: it went away, or there is none and it may not be, or could not be, started.
        """
        patience_s = _DRAIN_PATIENCE_S
        while True:
            client = await self._connected()
            try:
                return await client.call(method, params, on_progress=on_progress)
            except RequestFailed as error:  # the daemon is leaving, idle or restarted; the next one answers
                if error.code != "draining" or patience_s <= 0:
                    raise
            await anyio.sleep(_DRAIN_PAUSE_S)
            patience_s -= _DRAIN_PAUSE_S

    async def _connected(self, *, may_start: bool = True) -> AsyncClient:
        if self._client is not None:  # a lock gives way to other tasks even where nobody holds it
            return self._client
        async with self._connecting:
            if self._client is not None:
                return self._client
            try:
                client: AsyncClient = await self._tasks.start(self._hold)
            except DaemonUnreachable as error:
                if not (error.is_absent and may_start):
                    raise
                client = await self._started(error)
            return client

    async def _started(self, error: DaemonUnreachable) -> AsyncClient:
        if self._start is None:
            raise DaemonUnreachable(f"{error}; {_NO_DAEMON}", is_absent=True) from error
        await to_thread.run_sync(self._start, abandon_on_cancel=True)
        # A daemon that has not looked at the disk yet would say that there are no stores.
        client: AsyncClient = await self._tasks.start(partial(self._hold, is_new=True))
        return client

    async def _hold(self, *, is_new: bool = False, task_status: TaskStatus[AsyncClient]) -> None:
        """Keep one connection until the daemon ends it, and the list of stores as it is meanwhile."""
        try:
            async with AsyncClient(self._path) as client, client.subscribe() as changes:
                if is_new:
                    await client.rescan()
                await self._read(client)
                self._client = client
                task_status.started(client)
                with suppress(CollatedError):  # the daemon is leaving
                    async for _ in changes:
                        while changes.statistics().current_buffer_used:
                            changes.receive_nowait()
                        await self._read(client)
        finally:
            self._client = None

    async def _read(self, client: AsyncClient) -> None:
        result: StoresResult = await client.stores()
        self._known = MappingProxyType({store.name: store for store in result.stores})
        self._changed.set()
        self._changed = anyio.Event()
