"""Connections to stores that leave no trace: which mode fits a store, and asking inside a transaction."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from collated_readers.contract import Budget, StoreError

from .copies import check_room, copy_store, private_directory
from .descriptors import DESCRIPTORS, Inode
from .failure import FAILURES, StoreMoved, translate
from .signature import Signature, settled_signature, sidecar, take_signature

__all__ = ["StoreConnection", "ask", "open_store", "tables"]

Mode = Literal["rollback", "immutable", "copy", "directory"]
T = TypeVar("T")

_OPEN_ATTEMPTS = 5
_OPCODES_PER_CHECK = 4_000  # some 0.1 ms of SQLite's virtual machine
_BUSY_TIMEOUT_S = 0.1
_LARGEST_VALUE_BYTES = 64 * 1024 * 1024  # a hostile store may compute values of any size
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_PRAGMAS = (
    "PRAGMA query_only = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -512",
)


class StoreConnection(sqlite3.Connection):
    """A connection that `open_store` made; `signature` is that of the original.

    `cache` is the directory, which may not be there yet, of indexes that a format's reader makes itself.
    `budget` is that of whoever asks at the moment, also for what a reader opens there; a statement stops
    when it is spent.
    `mode` says how the bytes are reached: under SQLite's own locks (`rollback`), without any
    because no writer is at work (`immutable`), or in a private copy (`copy`). A `directory` has no
    bytes here: its reader looks into it, and the connection is to an empty database.
    """

    path: Path
    cache: Path
    mode: Mode
    signature: Signature
    budget: Budget | None = None
    on_close: Callable[[], object] | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:  # sqlite3.connect's own
        """Open as `sqlite3.connect` says; `lock` is held by whoever asks or closes."""
        super().__init__(*arguments, **options)
        self.lock = threading.Lock()
        this = weakref.ref(self)  # SQLite would keep us alive otherwise

        def is_spent() -> bool:
            store = this()
            return store is not None and store.budget is not None and store.budget.is_spent()

        self.set_progress_handler(is_spent, _OPCODES_PER_CHECK)

    def has_moved(self) -> bool:
        """Tell whether the file at the store's path is another or was written; never for a copy."""
        return self.mode != "copy" and _differs(self.path, self.signature)

    def close(self) -> None:
        """Close; may be called twice."""
        with self.lock:
            super().close()
        if self.on_close is not None:
            self.on_close()


def _differs(path: Path, signature: Signature) -> bool:
    try:
        return take_signature(path) != signature
    except StoreError:
        return True


def open_store(path: Path, *, copies: Path, copy_limit_bytes: int, budget: Budget) -> StoreConnection:
    """Return a connection to the store at *path*, to be used on the calling thread.

    *copies* is a directory of our own for private copies; a copy loses its name as soon as it is
    open, so it is gone with its connection, however that ends.

    Raises:
        StoreError: those of `take_signature`; `not_sqlite`, `damaged`, `hot_journal`, `locked`,
            `too_large_to_copy`, `disk_full`, `keeps_changing`, `too_many_open_files`,
            `deadline_exceeded`.
    """
    for _ in range(_OPEN_ATTEMPTS):
        budget.check()
        try:
            return _open_once(path, copies, copy_limit_bytes, budget)
        except (StoreMoved, FileNotFoundError):  # what was there has just gone; look again
            continue
        except FAILURES as error:
            raise translate(error, path) from error
    raise StoreMoved


def _open_once(path: Path, copies: Path, copy_limit_bytes: int, budget: Budget) -> StoreConnection:
    take_signature(path)  # names what is wrong with a symlink before it is resolved
    path = path.resolve()
    if path.is_dir():
        return _open_directory(path, copies)
    signature, is_settled = settled_signature(path, budget)
    mode = _mode(path, signature)
    if mode == "copy":
        check_room(signature, copy_limit_bytes)
        with private_directory(copies) as directory:
            db = _connect(copy_store(path, signature, directory, budget), mode, budget)
        if not is_settled or _differs(path, signature):
            # It says nothing about the copy, so let no later signature equal it.
            signature = msgspec.structs.replace(signature, wal_mtime_ns=-time.time_ns())
    elif not is_settled:
        raise StoreError("keeps_changing", "the store is written all the time")
    else:
        try:
            db = _connect(path, mode, budget, (signature.device, signature.inode))
        except sqlite3.Error as error:
            if _differs(path, signature):
                raise StoreMoved from error
            raise
    db.path, db.mode, db.signature = path, mode, signature
    db.cache = copies.with_name("indexes")
    if db.has_moved():
        db.close()
        raise StoreMoved
    return db


def _open_directory(path: Path, copies: Path) -> StoreConnection:
    signature = take_signature(path)
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=StoreConnection)
    db.path, db.mode, db.signature = path, "directory", signature
    db.cache = copies.with_name("indexes")
    return db


def _mode(path: Path, signature: Signature) -> Mode:
    header = _read_header(path, signature)
    if not header.startswith(_MAGIC):
        raise StoreError("not_sqlite", "the file does not begin like a SQLite database")
    if len(header) < _HEADER_BYTES:
        raise StoreError("damaged", "the file ends within its first 100 bytes")
    if _has_hot_journal(path):
        raise StoreError(
            "hot_journal", "a journal lies beside the store: a writer is at work or was interrupted"
        )
    if signature.wal_size:
        return "copy"
    # Beside an empty -wal SQLite would go into WAL mode, and map a -shm, whatever the header says.
    is_wal = b"\x02" in header[18:20] or signature.wal_mtime_ns != 0
    return "immutable" if is_wal else "rollback"


def _read_header(path: Path, signature: Signature) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if (about.st_dev, about.st_ino) != (signature.device, signature.inode):
            raise StoreMoved
        return os.pread(descriptor, _HEADER_BYTES, 0)
    finally:
        DESCRIPTORS.dispose(descriptor)


def _has_hot_journal(path: Path) -> bool:
    try:
        descriptor = os.open(sidecar(path, "-journal"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # SQLite would open a FIFO, and wait for ever
            raise StoreError("not_a_file", "the journal beside the store is not a file")
        # journal_mode=PERSIST leaves a journal whose first byte is 0 after each commit.
        return os.pread(descriptor, 1, 0) not in (b"", b"\0")
    finally:
        DESCRIPTORS.dispose(descriptor)  # a link there may lead to a store that is being read


def _connect(path: Path, mode: Mode, budget: Budget, inode: Inode | None = None) -> StoreConnection:
    # Three slashes: a path that begins with two would be taken for a host name.
    uri = "file://" + quote(os.fsencode(path)) + "?mode=ro" + ("&immutable=1" if mode == "immutable" else "")
    if inode is not None:
        DESCRIPTORS.enter(inode)
    try:
        db = sqlite3.connect(
            uri,
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,  # one thread uses it; the garbage collector may be on another
            factory=StoreConnection,
        )
    except BaseException:
        if inode is not None:
            DESCRIPTORS.leave(inode)
        raise
    if inode is not None:
        db.on_close = weakref.finalize(db, DESCRIPTORS.leave, inode)
    try:
        _prepare(db, budget)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: StoreConnection, budget: Budget) -> None:
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE_BYTES)
    db.budget = budget
    for pragma in _PRAGMAS:
        db.execute(pragma)
    # The first read loads the schema and opens the -wal; a copy's files need no names after that.
    db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    db.budget = None


def ask(db: StoreConnection, function: Callable[[StoreConnection], T], budget: Budget) -> T:
    """Return `function(db)`, run in one read transaction that ends with *budget*.

    May be called from any thread; one that comes while another asks waits for it within its budget.

    Raises:
        StoreMoved: the store is not what was opened, or did not stay so; open it again.
        StoreError: `deadline_exceeded`, or what went wrong with the store.
        RequestError: as *function* raised it.
    """
    budget.check()
    if not db.lock.acquire(timeout=budget.remaining()):
        raise StoreError("deadline_exceeded", "the store did not answer in time")
    try:
        return _ask(db, function, budget)
    finally:
        db.lock.release()


def _ask(db: StoreConnection, function: Callable[[StoreConnection], T], budget: Budget) -> T:
    # SQLite would open the files of a store that is in WAL mode now. Without locks it opens nothing.
    if db.mode == "rollback" and db.has_moved():
        raise StoreMoved
    try:
        db.execute("BEGIN")
        db.budget = budget
        try:
            answer = function(db)
            # Before the end of the transaction: until then an honest writer waits for our lock.
            if db.has_moved():
                raise StoreMoved
            return answer
        finally:
            db.budget = None  # or what ends the transaction could be stopped as well
            with suppress(sqlite3.Error):  # a store broken enough has ended it already
                db.execute("ROLLBACK")
    except FAILURES as error:
        failure = translate(error, db.path)
        if failure.code != "deadline_exceeded" and db.has_moved():
            raise StoreMoved from error
        if failure is error:
            raise
        raise failure from error


def tables(db: StoreConnection) -> dict[str, str]:
    """Return each name in `sqlite_master` with its type: `table`, `view`, `index`, `trigger`."""
    rows = db.execute("SELECT name, type FROM sqlite_master").fetchall()
    return {str(name): str(kind) for name, kind in rows}
