"""Contenders side by side: each takes its turn, and each must give the answers it is known to give."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from collated.protocol import SearchResult

from .answers import Answer, shown
from .asking import INSIDE, LONE, Asker, search_params
from .timing import in_a_row, interleaved, median_s

__all__ = ["BOTH_WAYS", "REFERENCE", "Compared", "Way", "alone", "compare", "inside", "lone", "whole"]

REFERENCE = "reference"


class Way(NamedTuple):
    """One contender's turn: what it does for seconds and answers, and the answers that it must give."""

    turn: Callable[[], tuple[float, Sequence[object]]]
    expected: Sequence[object]


class Compared(Struct):
    """Seconds by class and contender, and which answers were not the expected ones."""

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])
    answers: int = 0
    differing: list[str] = field(default_factory=list[str])

    def median_s(self, contender: str, kind: str | None = None) -> float:
        """Return a contender's median of one class, or of all answers together."""
        kinds = [kind] if kind else list(self.seconds)
        return median_s([s for each in kinds for s in self.seconds[each].get(contender, ())])

    def ratio(self, contender: str, kind: str | None = None, *, to: str = REFERENCE) -> float:
        """Return how many times faster than another a contender is."""
        return self.median_s(to, kind) / self.median_s(contender, kind)

    def slowest(self, contender: str, *, to: str = REFERENCE) -> str:
        """Return the class in which a contender's ratio is the least."""
        return min(self.seconds, key=lambda kind: self.ratio(contender, kind, to=to))


def compare(result: Compared, kind: str, ways: Mapping[str, Way], rounds: int) -> None:
    """Time the *ways* in turns, check what they answer, and add that to *result*."""

    def contender(name: str, way: Way) -> Callable[[], float]:
        def turn() -> float:
            seconds, answers = way.turn()
            result.answers += len(answers)
            if list(answers) != list(way.expected):
                result.differing.append(f"{kind}, {name}")
            return seconds

        turn()  # once, so that statements and page caches are warm, and a cache that is on is filled
        return turn

    contenders = {name: contender(name, way) for name, way in ways.items()}
    mine = result.seconds.setdefault(kind, {})
    for name, seconds in interleaved(contenders, rounds).items():
        mine.setdefault(name, []).extend(seconds)


def alone(ask: Callable[[], object]) -> Callable[[], tuple[float, Sequence[object]]]:
    """Return the turn of a contender that gives one answer, a few times in a row as daemons are asked."""

    def turn() -> tuple[float, Sequence[object]]:
        seconds, answer = in_a_row(ask)
        return seconds, [answer]

    return turn


def lone(asker: Asker, text: str, **more: object) -> tuple[float, list[Answer]]:
    """Ask one at a time over the socket."""
    seconds, answer = asker.lone("search", search_params(text, **more), SearchResult)
    return seconds, [whole(answer)]


def inside(asker: Asker, text: str, **more: object) -> tuple[float, list[Answer]]:
    """Ask within the daemon's process."""
    seconds, answer = asker.inside("search", search_params(text, **more), SearchResult)
    return seconds, [whole(answer)]


def whole(result: SearchResult) -> Answer:
    """Return the hits of an answer of all stores.

    Raises:
        RuntimeError: some did not answer.
    """
    if not result.complete:
        raise RuntimeError(f"an answer is not of all stores: {result.stores.failed[:3]}")
    return shown(result)


BOTH_WAYS = {LONE: lone, INSIDE: inside}
"""How a daemon is asked where requests in flight say nothing more."""
