"""Daemons for one part alone: up, all stores open and ready, asked from outside and from inside."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .asking import Asker
from .building import watch_build
from .daemons import Daemon

__all__ = ["serving"]


@contextmanager
def serving(folder: Path, count: int, **settings: object) -> Generator[Asker]:
    """Lend who asks a daemon over the *count* stores of *folder*, once all are open and ready."""
    with Daemon(folder, **settings) as daemon:
        started = time.perf_counter()
        asker = Asker(daemon.start(inside=True))
        try:
            watch_build(daemon, asker.wire, count, started)
            yield asker
        finally:
            asker.close()
