"""What the daemon remembers between runs, in `state.sqlite` (DESIGN §4).

Only a memory: lost, damaged, locked or unwritable, it is rebuilt or done without, never fatal.
"""

import os
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
import msgspec
import structlog
from msgspec.structs import replace

from collated_readers import State

from . import __version__
from .catalog import Store
from .connection import Connection

__all__ = ["Memory"]

log = structlog.get_logger()

# Another release may read what this one refused, so a file of another version is thrown away. The
# number is also that of term filters: it goes up when the same terms make another one.
_VERSION = zlib.crc32(f"2 {__version__}".encode()) & 0x7FFF_FFFF
# Every other state is worth another try at the next start.
_KEPT = (State.OPEN, State.REFUSED)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Store)


async def _connected(path: Path) -> Connection:
    db = Connection(lambda: sqlite3.connect(path, timeout=1.0))
    try:
        await db
    except sqlite3.Error:
        if db.stopped is not None:  # else the thread would speak to an event loop that may be closed by then
            await db.stopped
        raise
    return db


class Memory:
    """The catalog of the last run. `error` says why nothing is being remembered, None when all is well."""

    def __init__(self, path: Path) -> None:
        """Keep the memory in the file at *path*."""
        self._path = path
        self._db: Connection | None = None
        self.error: str | None = None

    async def load(self) -> dict[str, Store]:
        """Open the file, making it anew where it is missing or damaged, and return stores by path."""
        for is_last in (False, True):
            try:
                return await self._load()
            except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
                await self.close()
                log.warning("state_rebuilt", path=str(self._path), error=str(error))
                self.error = str(error)
                if not is_last:
                    await anyio.to_thread.run_sync(_remove, self._path)
        return {}

    async def save(self, changed: Iterable[Store], removed: Iterable[str]) -> None:
        """Write what changed; what could not be written is only opened anew at the next start.

        A failure is kept in `error`, and the file is opened again with the next change where it was not.
        """
        if self._db is None and self.error is not None:
            await self.load()
        if self._db is None:
            return
        rows: list[tuple[bytes, bytes]] = []
        gone = [(os.fsencode(path),) for path in removed]
        for store in changed:
            path = os.fsencode(store.path)
            if store.state in _KEPT and store.signature:
                rows.append((path, _ENCODER.encode(replace(store, path=""))))
            else:  # it may have been open before
                gone.append((path,))
        try:
            await self._db.executemany("INSERT OR REPLACE INTO store VALUES (?, ?)", rows)
            await self._db.executemany("DELETE FROM store WHERE path = ?", gone)
            await self._db.commit()
        except sqlite3.Error as error:
            self.error = f"{self._path} cannot be written: {error}"
            log.warning("state_not_saved", path=str(self._path), error=str(error))
            await self._rollback()
        else:
            self.error = None

    async def close(self) -> None:
        """Close the file; safe to call twice."""
        db, self._db = self._db, None
        if db is not None:
            await db.close()

    async def _load(self) -> dict[str, Store]:
        await anyio.to_thread.run_sync(_make_directory, self._path.parent)
        self._db = await _connected(self._path)
        await self._db.execute("PRAGMA journal_mode = WAL")
        await self._db.execute("PRAGMA synchronous = NORMAL")
        version = await self._value("PRAGMA user_version")
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"it is of version {version}, not {_VERSION}")
        await self._db.execute("CREATE TABLE IF NOT EXISTS store (path BLOB PRIMARY KEY, value BLOB)")
        await self._db.execute(f"PRAGMA user_version = {_VERSION}")
        rows = await self._db.execute_fetchall("SELECT path, value FROM store")
        await self._db.commit()
        self.error = None
        # Ten thousand stores take longer than the event loop may stand still.
        return await anyio.to_thread.run_sync(_stores_of, rows)

    async def _value(self, sql: str) -> object:
        if self._db is None:
            raise sqlite3.ProgrammingError("closed")
        rows = list(await self._db.execute_fetchall(sql))
        return rows[0][0]

    async def _rollback(self) -> None:
        try:
            if self._db is not None:
                await self._db.rollback()
        except sqlite3.Error:
            # The disk is full or the file is gone; the next start rebuilds it.
            log.debug("state_rollback_failed", path=str(self._path))


def _stores_of(rows: Iterable[sqlite3.Row]) -> dict[str, Store]:
    known = {os.fsdecode(path): _DECODER.decode(value) for path, value in rows}
    return {path: replace(store, path=path) for path, store in known.items()}


def _make_directory(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _remove(path: Path) -> None:
    with suppress(OSError):  # what cannot be removed will not open either: then the daemon does without
        for suffix in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
