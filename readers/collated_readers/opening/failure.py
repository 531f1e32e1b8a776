"""What the operating system and SQLite say when they fail, as the codes of `STORE_CODES`."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from collated_readers.contract import RequestError, StoreError

__all__ = ["FAILURES", "StoreMoved", "from_os", "translate"]

FAILURES = (sqlite3.Error, OSError, MemoryError, OverflowError, UnicodeError, StoreError, RequestError)
"""Everything that asking a store can raise because of the store, the system or the request."""


class StoreMoved(StoreError):
    """The store is no longer what was opened: open it again and ask again."""

    def __init__(self) -> None:
        """Say so with the code that a store deserves whose caller gave up trying."""
        super().__init__("keeps_changing", "the store changed while it was read")


_OF_ERRNO = {
    errno.ENOENT: ("vanished", "the file is gone"),
    errno.ENOTDIR: ("vanished", "a directory above the file is gone"),
    errno.EACCES: ("permission_denied", "the file or a directory above it may not be read"),
    errno.EPERM: ("permission_denied", "the file or a directory above it may not be read"),
    errno.ELOOP: ("broken_symlink", "a symlink leads in a circle"),
    errno.EMFILE: ("too_many_open_files", "the process is out of file descriptors"),
    errno.ENFILE: ("too_many_open_files", "the system is out of file descriptors"),
    errno.EFBIG: ("disk_full", "no room for a private copy of the store"),
    errno.ENOSPC: ("disk_full", "no room for a private copy of the store"),
    errno.EDQUOT: ("disk_full", "no room in the quota for a private copy of the store"),
}


def from_os(error: OSError) -> StoreError:
    """Return *error* as the store's failure; its message names no path, which may not be Unicode."""
    fallback = ("io_error", f"the file cannot be read: {os.strerror(error.errno or errno.EIO)}")
    code, message = _OF_ERRNO.get(error.errno or 0, fallback)
    return StoreError(code, message)


def translate(error: BaseException, path: Path) -> StoreError | RequestError:
    """Return one of `FAILURES` as the failure of the store at *path*, or of the request.

    `StoreError` and `RequestError` come back as they are.
    """
    if isinstance(error, StoreError | RequestError):
        return error
    if isinstance(error, OSError):
        return from_os(error)
    if isinstance(error, UnicodeEncodeError):  # only what the caller wrote is ever encoded
        return RequestError("invalid_params", "the request holds text that is not valid Unicode")
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error, path)
    return StoreError("damaged", f"the store holds a value that cannot be used: {type(error).__name__}")


# Primary result codes (https://sqlite.org/rescode.html) that mean one thing whatever the message.
_OF_PRIMARY = {
    sqlite3.SQLITE_BUSY: ("locked", "another program holds the store locked"),
    sqlite3.SQLITE_LOCKED: ("locked", "another program holds the store locked"),
    sqlite3.SQLITE_INTERRUPT: ("deadline_exceeded", "the store did not answer in time"),
    sqlite3.SQLITE_NOTADB: ("not_sqlite", "the file is not a SQLite database, or is encrypted"),
    sqlite3.SQLITE_FULL: ("disk_full", "no room for a private copy of the store"),
    sqlite3.SQLITE_PERM: ("permission_denied", "the file may not be read"),
    sqlite3.SQLITE_AUTH: ("permission_denied", "the file may not be read"),
    sqlite3.SQLITE_READONLY: ("unwritable_directory", "SQLite wants to write beside the store and cannot"),
}
_OF_EXTENDED = {
    sqlite3.SQLITE_READONLY_ROLLBACK: (
        "hot_journal",
        "a journal lies beside the store: a writer was interrupted",
    ),
    sqlite3.SQLITE_IOERR_SHORT_READ: ("damaged", "the store is shorter than it says it is"),
}


def _from_sqlite(error: sqlite3.Error, path: Path) -> StoreError:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    known = _OF_EXTENDED.get(code) or _OF_PRIMARY.get(code & 0xFF)
    if known is not None:
        return StoreError(*known)
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(path)
    if code & 0xFF == sqlite3.SQLITE_IOERR:
        return StoreError("io_error", f"the store cannot be read: {error}")
    return _from_message(str(error))


def _from_message(message: str) -> StoreError:
    if message.startswith("no such module: fts5"):
        return StoreError(
            "fts5_missing", f"this Python's sqlite3 (SQLite {sqlite3.sqlite_version}) was built without FTS5"
        )
    if message.startswith(("no such table", "no such column", "no such module")):
        return StoreError("wrong_schema", f"the store lacks something its format demands: {message}")
    return StoreError("damaged", f"the store is damaged: {message}")


def _cannot_open(path: Path) -> StoreError:
    # SQLite keeps the errno to itself, so ask the system again.
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        path.stat()
    except OSError as error:
        return from_os(error)
    if not os.access(path, os.R_OK):
        return StoreError("permission_denied", "the file may not be read")
    return StoreError("unwritable_directory", "SQLite wants to write beside the store and cannot")
