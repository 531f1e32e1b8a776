"""How a sidecar's files are found and mapped: plain files inside the store, that their snapshot names."""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from collated_readers.contextful.model import IndexEntry

__all__ = ["Unusable", "check_manifest", "folder_of", "mapped"]

_LARGEST_MANIFEST = 64 * 1024
_SEGMENT = re.compile(r"[A-Za-z0-9._=%-]+", re.ASCII)
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Unusable(Exception):
    """A sidecar that is not there, does not belong to the snapshot, or is not what it should be."""


def folder_of(root: str, snapshot: str, entry: IndexEntry) -> Path:
    """Return the directory of a sidecar of *snapshot*, a directory relative to the store's *root*.

    Raises:
        Unusable: it is outside the snapshot.
    """
    segments = entry.path.split("/")
    if not all(_SEGMENT.fullmatch(segment) and segment.strip(".") for segment in segments):
        raise Unusable("no relative path")
    base = Path(root, snapshot)
    folder = base.joinpath(*segments)
    try:
        inside = folder.resolve(strict=True).is_relative_to(Path(root).resolve(strict=True))
    except (OSError, RuntimeError) as error:  # not there; a circle of links
        raise Unusable("not there") from error
    if not inside:
        raise Unusable("outside the store")
    return folder


def check_manifest(folder: Path, entry: IndexEntry) -> None:
    """Check that a sidecar says of itself what the snapshot's manifest says of it.

    Raises:
        Unusable: it does not.
    """
    fd, size = _opened(folder / "_manifest.json", _LARGEST_MANIFEST)
    try:
        data = os.read(fd, size)
    except OSError as error:
        raise Unusable("not to be read") from error
    finally:
        os.close(fd)
    if _json(data) != dict(entry.manifest):
        raise Unusable("not the sidecar that the snapshot names")


def mapped(path: Path, limit: int) -> mmap.mmap:
    """Return the bytes of a file of 1 to *limit* bytes.

    Raises:
        Unusable: it is no such file.
    """
    fd, size = _opened(path, limit)
    try:
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise Unusable("not to be mapped") from error
    finally:
        os.close(fd)


def _opened(path: Path, limit: int) -> tuple[int, int]:
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        raise Unusable("not there") from error
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or not 0 < found.st_size <= limit:
        os.close(fd)
        raise Unusable("no file of a size that it may have")
    return fd, found.st_size


def _json(data: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable("no JSON") from error
