"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_for"]

T = TypeVar("T")
_WAIT_S = 120.0


def wait_for(
    attempt: Callable[[], T | None], what: str, *, pause_s: float = 0.002, wait_s: float = _WAIT_S
) -> T:
    """Return the first result of *attempt* that is not None.

    Raises:
        TimeoutError: there was none within *wait_s*.
    """
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        result = attempt()
        if result is not None:
            return result
        time.sleep(pause_s)
    raise TimeoutError(f"waited {wait_s:g} s for {what}")
