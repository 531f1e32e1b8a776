"""Timing side by side: A B C, B C A, … so that whatever else the machine does falls on all of them."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

__all__ = ["IN_A_ROW", "LONG_ENOUGH_S", "in_a_row", "interleaved", "median_s", "timed"]

T = TypeVar("T")

IN_A_ROW = 20
LONG_ENOUGH_S = 0.03
"""A turn does the same several times in a row, until that took long enough: the first times after another
contender's turn find the caches full of the other's data, and processors that have gone to sleep."""


def timed(function: Callable[[], T]) -> tuple[float, T]:
    """Return how many seconds *function* took, and what it gave."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def in_a_row(function: Callable[[], T]) -> tuple[float, T]:
    """Return the median seconds of *function* in one turn, and what it gave last."""
    every = [timed(function)]
    while len(every) < IN_A_ROW and sum(seconds for seconds, _ in every) < LONG_ENOUGH_S:
        every.append(timed(function))
    return median_s([seconds for seconds, _ in every]), every[-1][1]


def interleaved(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds that each contender says it took, one for each round, the order turning by one."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.freeze()  # what the bench itself has gathered is no cost of the reference, which runs in this process
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(contenders[name]())
    gc.unfreeze()
    return seconds


def median_s(seconds: Sequence[float]) -> float:
    """Return the median; infinite when there is nothing."""
    return median(seconds) if seconds else float("inf")
