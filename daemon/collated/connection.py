"""An aiosqlite connection whose end can be waited for, or not; stores and the state file share it."""

import asyncio
import sqlite3
from collections.abc import Callable

import aiosqlite

__all__ = ["Connection"]


class Connection(aiosqlite.Connection):
    """A connection that `stop` closes whatever became of whoever wanted it.

    `stopped` is done when its thread has nothing more to do; None until `stop` was called, which
    aiosqlite does by itself where connecting fails.
    """

    stopped: asyncio.Future[object] | None = None

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        """Connect with *connector*, on the connection's own thread, when awaited."""

        def connect() -> sqlite3.Connection:
            # Known at once, so that `stop` closes it even when whoever wanted it has given up.
            self._connection = opened = connector()
            return opened

        super().__init__(connect, iter_chunk_size=64)
        # A thread that hangs in a file system that is gone must not keep the process from ending.
        self._thread.daemon = True

    def stop(self) -> asyncio.Future[object] | None:
        """Close once the thread has done what it is at; the future tells when. Waits for nothing."""
        self.stopped = super().stop()  # pyright: ignore[reportUnknownMemberType]  # a bare `Future`
        return self.stopped
