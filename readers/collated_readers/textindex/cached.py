"""Files that readers make in the cache directory: sound and whole, or never believed.

Each is a SQLite database, named after a store's path and what it was made of. Its application_id is the
CRC-32 of all its other bytes, so what is damaged is told from what is not, by whoever uses it first.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from collated_readers.opening import sweep_copies
from collated_readers.opening.copies import private_directory

__all__ = ["connect", "discard", "is_sound", "keep", "path_in"]

_CHUNK_BYTES = 1 << 20
_SUM_AT = 68  # application_id, https://sqlite.org/fileformat.html#the_database_header
_SUM_BYTES = 4


def path_in(folder: Path, store: Path, made_of: str) -> Path:
    """Return where the file is kept that is made of *made_of* for the store at path *store*."""
    return folder / f"{_of(os.fsencode(store))}-{_of(made_of.encode())}.sqlite"


def _of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def is_sound(path: Path) -> bool:
    """Tell whether the file is there, whole and as it was made."""
    try:
        about = path.stat()
        return _is_sound(path, about.st_ino, about.st_size, about.st_mtime_ns)
    except OSError:
        return False


@lru_cache(maxsize=1_024)
def _is_sound(path: Path, *about: int) -> bool:
    with path.open("rb") as file:
        head = file.read(_SUM_AT + _SUM_BYTES)
        return head[_SUM_AT:] == _sum(path)


def _sum(path: Path) -> bytes:
    """Return the CRC-32 of a file, its own place in it left out."""
    with path.open("rb") as file:
        total = zlib.crc32(file.read(_SUM_AT) + bytes(_SUM_BYTES))
        file.seek(_SUM_AT + _SUM_BYTES)
        while chunk := file.read(_CHUNK_BYTES):
            total = zlib.crc32(chunk, total)
    return total.to_bytes(_SUM_BYTES, "big")


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection for reading a file that is never changed, only replaced."""
    uri = "file://" + quote(os.fsencode(path)) + "?mode=ro&immutable=1"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    for pragma in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY"):
        db.execute(f"PRAGMA {pragma}")
    return db


def discard(path: Path) -> None:
    """Throw a file away that is not sound."""
    path.unlink(missing_ok=True)


def keep(path: Path, store: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file at *path* for *store*: what *fill* writes, whole or not at all, and nobody else's.

    Files of the same store that were made before go, and those of stores that are gone.
    """
    sweep_copies(path.parent)
    with private_directory(path.parent) as directory:
        made = directory / "made"
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(made, isolation_level=None, check_same_thread=False)) as db:
            for pragma in ("journal_mode = OFF", "synchronous = OFF", "temp_store = MEMORY"):
                db.execute(f"PRAGMA {pragma}")
            db.execute("BEGIN")
            db.execute("CREATE TABLE made_for (store BLOB NOT NULL)")
            db.execute("INSERT INTO made_for VALUES (?)", (os.fsencode(store),))
            fill(db)
            db.execute("COMMIT")
        _seal(made)
        made.replace(path)
    is_sound(path)  # which remembers it, so that nobody who asks waits for that
    _tidy(path)


def _seal(path: Path) -> None:
    total = _sum(path)
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), total, _SUM_AT)
        os.fsync(file.fileno())


def _tidy(kept: Path) -> None:
    ours = kept.name.partition("-")[0]
    for each in kept.parent.glob("*.sqlite"):
        if each != kept and (each.name.partition("-")[0] == ours or not _is_wanted(each)):
            discard(each)


def _is_wanted(path: Path) -> bool:
    with suppress(sqlite3.Error, OSError, TypeError), closing(connect(path)) as db:
        return Path(os.fsdecode(db.execute("SELECT store FROM made_for").fetchone()[0])).exists()
    return False
