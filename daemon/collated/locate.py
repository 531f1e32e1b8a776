"""Where stores lie: one listing of all that the patterns match (DESIGN §4). Blocking; run in a thread.

Only `stat` and `scandir` are used: a file is never opened here.
"""

import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from collated_readers import StoreError
from collated_readers.opening.signature import look_at

from .catalog import Found, shown
from .mounts import is_below
from .protocol import Reason
from .settings import Pinned, Watched, is_store_name

__all__ = ["Listing", "listing", "pinned_names"]

_SIDECARS = ("-wal", "-shm", "-journal")


class Listing(Struct):
    """What one look found: stores by real path, the directories to watch, whether any must be polled."""

    found: dict[str, Found] = field(default_factory=dict[str, Found])
    directories: set[str] = field(default_factory=set[str])
    must_poll: bool = False


def listing(watched: Sequence[Watched], pinned: Sequence[Pinned], network: Sequence[str] = ()) -> Listing:
    """Return all that the patterns and the pinned paths lead to, symlinks resolved.

    *network* are mount points of network file systems, whose changes the kernel does not report.
    """
    result = Listing()
    for entry in watched:
        base = os.path.expanduser(entry.path)
        result.must_poll |= entry.poll or is_below(base, network)
        _watch_down_to(base, result)
        for pattern in entry.match:
            for path in _matches(base, Path(pattern).parts, result):
                _add(path, result)
    for each in pinned:
        path = os.path.abspath(os.path.expanduser(each.path))
        _watch_down_to(os.path.dirname(path), result)
        _add(path, result)
        if not os.path.lexists(path):
            message = f"there is no {shown(path)}; bring it back, or correct its [[store]] entry"
            result.found[os.path.realpath(path)] = Found(
                os.path.realpath(path), None, None, Reason("vanished", message)
            )
    return result


def pinned_names(pinned: Sequence[Pinned]) -> dict[str, str]:
    """Return the names of the configuration's `[[store]]` entries by real path."""
    return {os.path.realpath(os.path.expanduser(each.path)): each.name for each in pinned if each.name}


def _watch_down_to(directory: str, result: Listing) -> None:
    """Watch *directory*, or while it does not exist, its nearest ancestor that does."""
    while directory and not os.path.isdir(directory):
        parent = os.path.dirname(directory)
        if parent == directory:
            return
        directory = parent
    result.directories.add(directory)


def _matches(directory: str, parts: Sequence[str], result: Listing) -> Iterator[str]:
    """Yield the paths below *directory* that match; each directory that is looked into gets watched."""
    part, rest = parts[0], parts[1:]
    if part == "**" and rest:
        yield from _matches(directory, rest, result)
    for entry in _entries(directory):
        if part == "**":
            if _is_visible(entry.name) and _is_dir(entry, follow=False):
                result.directories.add(entry.path)
                yield from _matches(entry.path, parts, result)
        elif not _fits(entry.name, part):
            continue
        elif not rest:
            yield entry.path
        elif _is_dir(entry, follow=True):
            result.directories.add(entry.path)
            yield from _matches(entry.path, rest, result)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:  # gone, or not ours to read: there is nothing to find in it
        return []


def _is_dir(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:  # a symlink that leads in a circle
        return False


def _is_visible(name: str) -> bool:
    return not name.startswith(".")


def _fits(name: str, pattern: str) -> bool:
    """Tell whether *name* matches as in a shell: a leading dot must be written out; no sidecars."""
    if name.endswith(_SIDECARS) or (not _is_visible(name) and not pattern.startswith(".")):
        return False
    return fnmatch.fnmatchcase(name, pattern)


def _add(path: str, result: Listing) -> None:
    wanted = _wanted_name(path)
    try:
        real = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        if os.path.islink(path):
            message = f"{shown(path)} leads nowhere; remove the symlink or bring its target back"
            result.found[path] = Found(path, wanted, None, Reason("broken_symlink", message))
            _watch_down_to(os.path.dirname(os.path.realpath(path)), result)
        return
    except OSError as error:
        code = "permission_denied" if isinstance(error, PermissionError) else "broken_symlink"
        message = f"{shown(path)} cannot be followed: {error.strerror}"
        result.found[path] = Found(path, wanted, None, Reason(code, message))
        return
    before = result.found.get(real)
    names = [name for name in (wanted, before.wanted if before else None) if name]
    result.directories.add(os.path.dirname(real))
    result.found[real] = _found(real, min(names, default=None), result)


def _found(real: str, wanted: str | None, result: Listing) -> Found:
    try:
        signature, directories = look_at(Path(real))
    except StoreError as error:
        return Found(real, wanted, None, Reason(error.code, error.message))
    result.directories.update(directories)
    return Found(real, wanted, signature)


def _wanted_name(path: str) -> str | None:
    """Return a symlink's own stem, which is the name that `collate add --name` gives."""
    stem = Path(path).stem
    return stem if os.path.islink(path) and is_store_name(stem) else None
