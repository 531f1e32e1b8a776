"""When may a descriptor of a store be closed?

Closing any descriptor of a file drops every POSIX lock that this process holds on it, SQLite's own
included; another process could then commit under a running read (ANCHORS §5 case 12). So SQLite's
locking connections are registered here by inode, and a descriptor that was needed beside one stays
open until the last of them is closed. Connections of one SQLite library look after each other.
"""

from __future__ import annotations

import os
import threading
from collections import Counter

__all__ = ["DESCRIPTORS", "Descriptors", "Inode"]

Inode = tuple[int, int]
"""Device and inode number."""


class Descriptors:
    """The process's locking connections, counted by inode, and the descriptors kept for them."""

    def __init__(self) -> None:
        """Start with no connections."""
        self._lock = threading.Lock()
        self._connections: Counter[Inode] = Counter()
        self._kept: dict[Inode, list[int]] = {}

    def enter(self, inode: Inode) -> None:
        """Announce a connection to *inode*, before SQLite opens the file."""
        with self._lock:
            self._connections[inode] += 1

    def leave(self, inode: Inode) -> None:
        """Take back one `enter`, after SQLite closed the file."""
        with self._lock:
            self._connections[inode] -= 1
            if self._connections[inode] > 0:
                return
            del self._connections[inode]
            for descriptor in self._kept.pop(inode, ()):
                os.close(descriptor)

    def dispose(self, descriptor: int) -> None:
        """Close *descriptor*, now or as soon as its inode has no connections."""
        about = os.fstat(descriptor)
        inode = (about.st_dev, about.st_ino)
        with self._lock:
            if self._connections[inode] > 0:
                self._kept.setdefault(inode, []).append(descriptor)
            else:
                os.close(descriptor)


DESCRIPTORS = Descriptors()
"""The one of this process."""
