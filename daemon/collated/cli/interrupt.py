"""Signals that end a command, kept from interrupting what must not be left half done."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held_back", "raised"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def raised() -> Generator[None]:
    """Have SIGTERM and SIGHUP raise `SystemExit`, as SIGINT raises `KeyboardInterrupt`; main thread only."""
    before = {number: signal.signal(number, _raise) for number in _ENDING[1:]}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def held_back() -> Generator[None]:
    """Take note of a signal meanwhile and act on the first one at the end; main thread only.

    Raises:
        SystemExit: at the end, with 128 + the signal's number.
    """
    noted: list[int] = []
    before = {number: signal.signal(number, lambda number, _: noted.append(number)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if noted:
        raise SystemExit(128 + noted[0])
