"""A segment in a file: written whole or not at all, believed only when every byte is right.

    prefix    magic, layout version, length and CRC-32 of the header; little-endian, 20 bytes
    header    MessagePack: release, serial, pieces, a table of arrays, length and CRC-32 of the body
    body      from the next multiple of 64 bytes: each array's bytes, little-endian, padded to 64

A file is written under another name, synced and renamed, so that one which has its name is whole
even after a crash. Nobody maps a file that has a name: whoever truncates it would kill its readers
with SIGBUS, and whoever writes to it would change answers. `load_segment` makes a copy that has no
name (sharing the blocks where the file system can), checks it, and maps that.
"""

import errno
import fcntl
import hashlib
import mmap
import os
import re
import stat
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated import __version__

from .segment import Piece, Segment

__all__ = [
    "LayoutError",
    "SegmentFile",
    "identity_of",
    "load_segment",
    "segment_names",
    "sweep",
    "write_segment",
]

_MAGIC = b"\x93collseg"
# Raise it when a file's arrays come to mean something else; those of another release are foreign anyway.
_LAYOUT = 1
_PREFIX = struct.Struct("<8sIII")
_ALIGNMENT = 64
_CHUNK_BYTES = 1 << 20
_HEADER_LIMIT_BYTES = 1 << 26
_SUFFIX = ".segment"
_PARTIAL = ".part"
_DTYPE = re.compile(r"[<|][biufcSUV][1-9][0-9]{0,8}")
_FICLONE = 0x40049409  # linux/fs.h; shares the blocks where the file system can

Identity = tuple[int, int, int]
"""Inode, size and mtime in ns: which bytes a name stands for, as far as `stat` tells."""


class LayoutError(ValueError):
    """The file is damaged, of another version, or no segment at all: throw it away and build it anew."""


class SegmentFile(NamedTuple):
    """A file that was loaded. Of two that hold the same store, the one of the higher serial is newer."""

    name: str
    serial: int
    size_bytes: int
    identity: Identity
    segment: Segment


class _Entry(Struct, frozen=True):
    """An array: NumPy's name of its type, its elements, and where it begins in the body."""

    name: str
    dtype: str
    length: int
    offset: int

    @property
    def size_bytes(self) -> int:
        return self.length * np.dtype(self.dtype).itemsize


class _Header(Struct, frozen=True):
    release: str
    serial: int
    token: bytes  # so that no two files ever have one name, whatever they hold
    pieces: tuple[Piece, ...]
    arrays: tuple[_Entry, ...]
    body_bytes: int
    body_crc: int


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Header)


# --------------------------------------------------------------------------- writing


def write_segment(segment: Segment, directory: Path, *, serial: int) -> Path:
    """Write *segment* into *directory* and return the path of the new file, which is on the disk by then.

    The name holds a digest of the header, and every file's header differs.

    Raises:
        OSError: what the system said; nothing is left but, after a crash, a file for `sweep`.
        ValueError: an array is not one of plain numbers or bytes in one dimension.
    """
    arrays = {name: _plain(name, array) for name, array in segment.arrays.items()}
    entries = _table(arrays)
    size_bytes = _aligned(entries[-1].offset + entries[-1].size_bytes) if entries else 0
    checksum = 0
    for chunk in _body(entries, arrays):
        checksum = crc32(chunk, checksum)
    encoded = _ENCODER.encode(
        _Header(__version__, serial, os.urandom(16), segment.pieces, entries, size_bytes, checksum)
    )
    head = _PREFIX.pack(_MAGIC, _LAYOUT, len(encoded), crc32(encoded)) + encoded
    head += bytes(_aligned(len(head)) - len(head))
    path = directory / (hashlib.blake2b(encoded, digest_size=16).hexdigest() + _SUFFIX)
    _put(path, (memoryview(head), *_body(entries, arrays)))
    return path


def _put(path: Path, chunks: tuple[memoryview, ...]) -> None:
    descriptor, name = tempfile.mkstemp(suffix=_PARTIAL, dir=path.parent)
    try:
        try:
            for chunk in chunks:
                _write_all(descriptor, chunk)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):  # the next sweep takes it
            Path(name).unlink()
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[os.write(descriptor, chunk) :]


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    little = array.dtype.newbyteorder("<")
    if array.ndim != 1 or not _DTYPE.fullmatch(little.str) or little.names is not None:
        raise ValueError(f"the array {name} is of {array.ndim} dimensions and type {array.dtype}")
    return np.ascontiguousarray(array, little)


def _table(arrays: Mapping[str, NDArray[Any]]) -> tuple[_Entry, ...]:
    entries: list[_Entry] = []
    end = 0
    for name, array in arrays.items():
        entries.append(_Entry(name, array.dtype.str, len(array), _aligned(end)))
        end = _aligned(end) + array.nbytes
    return tuple(entries)


def _body(entries: tuple[_Entry, ...], arrays: Mapping[str, NDArray[Any]]) -> Iterator[memoryview]:
    """Yield the body in pieces of a bounded size."""
    for entry in entries:
        data = arrays[entry.name].view(np.uint8).data
        for start in range(0, len(data), _CHUNK_BYTES):
            yield data[start : start + _CHUNK_BYTES]
        yield memoryview(bytes(_aligned(len(data)) - len(data)))


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


# --------------------------------------------------------------------------- loading


def load_segment(path: Path, directory: Path) -> SegmentFile:
    """Return the segment in the file at *path*, its arrays mapped from a nameless copy in *directory*.

    Whatever happens to the file afterwards does not touch them. The arrays cannot be written to, and
    their memory goes with the last of them.

    Raises:
        LayoutError: not one byte of it is to be believed.
        OSError: it could not be read (gone, say), or there is no room for the copy.
    """
    source = _opened(path)
    try:
        about = os.fstat(source)
        if not stat.S_ISREG(about.st_mode):
            raise LayoutError("not a file")
        header, start = _read_header(source, about.st_size)
        _check(header, about.st_size - start)
        mapped = _mapped_copy(source, header, start, directory)
    finally:
        os.close(source)
    arrays = {
        entry.name: np.ndarray((entry.length,), entry.dtype, buffer=mapped, offset=start + entry.offset)
        for entry in header.arrays
    }
    try:
        segment = Segment(header.pieces, arrays)
    except KeyError as error:
        raise LayoutError(f"the array {error} is missing") from error
    return SegmentFile(path.name, header.serial, about.st_size, identity_of(about), segment)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO):
            raise LayoutError(f"not a file of ours: {error.strerror}") from error
        raise


def identity_of(about: os.stat_result) -> Identity:
    """Return which bytes a file holds, as far as *about* tells."""
    return (about.st_ino, about.st_size, about.st_mtime_ns)


def _read_header(source: int, size_bytes: int) -> tuple[_Header, int]:
    """Return the header and where the body begins."""
    prefix = os.pread(source, _PREFIX.size, 0)
    if len(prefix) < _PREFIX.size:
        raise LayoutError("the file ends within its first bytes")
    magic, layout, length, checksum = _PREFIX.unpack(prefix)
    if magic != _MAGIC or layout != _LAYOUT:
        raise LayoutError("not a segment, or one of another version")
    start = _aligned(_PREFIX.size + length)
    if length > _HEADER_LIMIT_BYTES or start > size_bytes:
        raise LayoutError("the file ends within its header")
    encoded = os.pread(source, start - _PREFIX.size, _PREFIX.size)
    if crc32(encoded[:length]) != checksum or any(encoded[length:]):
        raise LayoutError("the header is damaged")
    try:
        return _DECODER.decode(encoded[:length]), start
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LayoutError(f"the header cannot be read: {error}") from error


def _check(header: _Header, body_bytes: int) -> None:
    if header.release != __version__:
        raise LayoutError(f"made by release {header.release}")
    if header.body_bytes != body_bytes:
        raise LayoutError(f"{body_bytes} bytes of arrays instead of {header.body_bytes}")
    if any(piece.rows < 0 for piece in header.pieces):
        raise LayoutError("a store of less than no rows")
    if len({entry.name for entry in header.arrays}) != len(header.arrays):
        raise LayoutError("two arrays of one name")
    end = 0
    for entry in header.arrays:
        if not _is_plain(entry.dtype) or entry.length < 0 or entry.offset != _aligned(end):
            raise LayoutError(f"the array {entry.name} is described wrongly")
        end = entry.offset + entry.size_bytes
    if _aligned(end) != body_bytes:
        raise LayoutError("the arrays do not fill the file")


def _is_plain(dtype: str) -> bool:
    try:
        return bool(_DTYPE.fullmatch(dtype)) and np.dtype(dtype).str == dtype
    except (TypeError, ValueError):
        return False


def _mapped_copy(source: int, header: _Header, start: int, directory: Path) -> mmap.mmap:
    copy = _nameless(directory)
    try:
        size_bytes = start + header.body_bytes
        is_shared = _cloned(source, copy)
        if not is_shared:
            os.ftruncate(copy, size_bytes)
        checksum = 0
        at = start
        # Read, not through the map: the pages of a map would count as ours.
        while at < size_bytes:
            chunk = os.pread(copy if is_shared else source, min(_CHUNK_BYTES, size_bytes - at), at)
            if not chunk:
                raise LayoutError("the file ends within its arrays")
            checksum = crc32(chunk, checksum)
            if not is_shared:
                _write_at(copy, memoryview(chunk), at)
            at += len(chunk)
        if checksum != header.body_crc:
            raise LayoutError("an array is damaged")
        return mmap.mmap(copy, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
    finally:
        os.close(copy)


def _write_at(descriptor: int, chunk: memoryview, at: int) -> None:
    while chunk:
        written = os.pwrite(descriptor, chunk, at)
        chunk, at = chunk[written:], at + written


def _nameless(directory: Path) -> int:
    with suppress(OSError, AttributeError):  # a file system, or a system, that has no such thing
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    descriptor, name = tempfile.mkstemp(suffix=_PARTIAL, dir=directory)
    Path(name).unlink()
    return descriptor


def _cloned(source: int, copy: int) -> bool:
    try:
        fcntl.ioctl(copy, _FICLONE, source)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return True


# --------------------------------------------------------------------------- the directory


def segment_names(directory: Path) -> dict[str, Identity]:
    """Return the files of *directory* that are named as `write_segment` names them.

    Raises:
        OSError: there is no such directory, or it cannot be read.
    """
    found: dict[str, Identity] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                with suppress(FileNotFoundError):  # gone since the directory was read
                    found[entry.name] = identity_of(entry.stat(follow_symlinks=False))
    return found


def sweep(directory: Path) -> None:
    """Remove what a process that died left half-written in *directory*; only while nobody writes there.

    Raises:
        OSError: there is no such directory, or it cannot be read.
    """
    for path in directory.glob("*" + _PARTIAL):
        with suppress(OSError):  # not ours to remove
            path.unlink()
