"""Search over many stores: the reference in this process, the daemon behind its socket, cache off and on."""

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from collated.client import Client

from .answers import LIMIT, Answer
from .corpus import CLASSES, pairs
from .daemons import LONG_MS, Daemon, shown
from .reference import Reference
from .timing import interleaved, median_s, timed

__all__ = ["CONTENDERS", "Searched", "compare_searches"]

REFERENCE, OFF, ON = "reference", "cache off", "cache on"
CONTENDERS = (REFERENCE, OFF, ON)


class Searched(Struct):
    """Seconds by class and contender, and how many answers were not the reference's."""

    stores: int
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])
    answers: int = 0
    differing: list[str] = field(default_factory=list[str])

    def median_s(self, contender: str, kind: str | None = None) -> float:
        """Return a contender's median of one class, or of all answers together."""
        kinds = [kind] if kind else list(self.seconds)
        return median_s([s for each in kinds for s in self.seconds[each][contender]])

    def ratio(self, contender: str, kind: str | None = None) -> float:
        """Return how many times faster than the reference a contender is."""
        return self.median_s(REFERENCE, kind) / self.median_s(contender, kind)


def compare_searches(
    folders: tuple[Path, Path], asked: dict[str, list[str]], rounds: int, **settings: object
) -> Searched:
    """Time the questions over the stores of *folders*: the daemons' and, same bytes, the reference's."""
    ours, theirs = folders
    paths = sorted(theirs.glob("*.sqlite"))
    result = Searched(len(paths), {kind: {name: [] for name in CONTENDERS} for kind in CLASSES})
    with ExitStack() as stack:
        reference = Reference(paths)
        stack.callback(reference.close)
        clients: dict[str, Client] = {}
        for name, cache in ((OFF, {"cache__answers_bytes": 0}), (ON, {})):
            daemon = stack.enter_context(Daemon(ours, **settings, **cache).start())
            clients[name] = stack.enter_context(daemon.client())
            daemon.wait_open(clients[name], len(paths))
        for kind, text in pairs(asked):
            seconds = _compare(reference, clients, text, rounds, result)
            for name in CONTENDERS:
                result.seconds[kind][name] += seconds[name]
    return result


def _compare(
    reference: Reference, clients: Mapping[str, Client], text: str, rounds: int, result: Searched
) -> dict[str, list[float]]:
    reference.learn(text)
    expected = reference.search(text)

    def ask(client: Client) -> Answer:
        answer = client.search(text, limit=LIMIT, deadline_ms=LONG_MS)
        if not answer.complete:
            print(f"incomplete for {text!r}: {answer.stores.failed[:3]}", file=sys.stderr)
        return shown(answer)

    def contender(name: str, search: Callable[[], Answer]) -> Callable[[], float]:
        def run() -> float:
            seconds, answer = timed(search)
            result.answers += 1
            if answer != expected:
                result.differing.append(f"{name}: {text!r}")
            return seconds

        run()  # once, so that statements and page caches are warm, and the cache that is on is filled
        return run

    searches: dict[str, Callable[[], Answer]] = {REFERENCE: lambda: reference.search(text)}
    searches.update({name: partial(ask, client) for name, client in clients.items()})
    return interleaved({name: contender(name, search) for name, search in searches.items()}, rounds)
