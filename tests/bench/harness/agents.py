"""Part `agents`: `collate mcp` over many stores against the reference's server of one, by the same client."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from msgspec import Struct, field

from .answers import LIMIT
from .bench import UNCACHED, Bench
from .bridges import Bridged, calls_in_a_row, checks_in_a_row, first_call, hold, reference_server, told
from .processes import Memory
from .projects import SEED, patterns
from .report import Report, mb, ms, times
from .timing import interleaved, median_s

__all__ = ["run"]

_AT_ONCE = 20
_GOAL_CALL, _GOAL_BYTES = 1.5, 30_000_000
_CLASSES = ("one common word", "two words", "three words", "a question")
_REFERENCE, _OURS, _CACHED = "reference", "ours", "cached"
_USUAL, _NO_HOST, _NOTHING = "usual", "no host", "nothing"
_STARTS = {
    "the reference's server of one store": _REFERENCE,
    "`collate mcp`, host and daemon running": _USUAL,
    "`collate mcp`, the daemon alone running": _NO_HOST,
    "`collate mcp`, nothing running": _NOTHING,
}


class _Call(Struct):
    """One tool call, as the reference is asked and as the bridge is."""

    tool: str
    theirs: dict[str, Any]
    ours: dict[str, Any]


class _Sides(Struct):
    """What is compared: the reference's one store, the bridges of all stores, and the calls by name."""

    count: int
    store: Path
    bridged: Bridged
    calls: dict[str, _Call]

    @property
    def search(self) -> _Call:
        """Return the search that sessions begin with."""
        return next(iter(self.calls.values()))


class _Called(Struct):
    """Seconds by call and side, those of the client's own check of ours, and which answers were others."""

    seconds: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    checks: dict[str, float] = field(default_factory=dict[str, float])
    differing: list[str] = field(default_factory=list[str])


def run(bench: Bench, report: Report) -> None:
    """Compare one call of a few tools, the memory of twenty sessions, and the start of one."""
    store = sorted(bench.theirs(bench.few).glob("*.sqlite"))[0]
    with Bridged(bench, **UNCACHED) as bridged:
        sides = _Sides(bench.few, store, bridged, _calls(bench, store.stem))
        with Bridged(bench) as cached:
            _show_calls(report, sides, _compare_calls(bench, sides, cached))
        _compare_memory(report, sides)
        _compare_starts(bench, report, sides)


def _calls(bench: Bench, store: str) -> dict[str, _Call]:
    """Return searches with ten hits in the first store, which is the reference's, a read of it and a grep."""
    reference = bench.reference(1)
    asked = {kind: bench.asked(bench.few)[kind][0] for kind in _CLASSES}
    found = {kind: reference.expected(text) for kind, text in asked.items()}
    calls = {
        f"search, {kind}": _Call("search", {"query": text}, {"query": text})
        for kind, text in asked.items()
        if len(found[kind]) == LIMIT
    }
    first = found[_CLASSES[0]][0].id
    pattern = patterns(SEED, bench.few, 1)["common"][0]
    calls["read"] = _Call("read", {"id": first}, {"id": f"{store}:{first}"})
    calls["grep"] = _Call("grep", {"pattern": pattern}, {"pattern": pattern})
    return calls


# --------------------------------------------------------------------------- one call


def _compare_calls(bench: Bench, sides: _Sides, cached: Bridged) -> _Called:
    servers = {
        _REFERENCE: reference_server(sides.store),
        _OURS: sides.bridged.server,
        _CACHED: cached.server,
    }
    result = _Called()
    with start_blocking_portal() as portal, ExitStack() as stack:
        clients = {
            name: stack.enter_context(portal.wrap_async_context_manager(Client(server)))
            for name, server in servers.items()
        }
        for name, call in sides.calls.items():
            result.differing += _differences(portal, clients, call, sides.store.stem)
            result.checks[name] = portal.call(checks_in_a_row, clients[_OURS], call.tool, call.ours)
            contenders: dict[str, Callable[[], float]] = {
                side: partial(_turn, portal, clients[side], call.tool, arguments)
                for side, arguments in ((_REFERENCE, call.theirs), (_OURS, call.ours), (_CACHED, call.ours))
            }
            turns = interleaved(contenders, 3 * bench.rounds(sides.count))
            result.seconds[name] = {side: median_s(every) for side, every in turns.items()}
    return result


def _turn(portal: BlockingPortal, client: Client, tool: str, arguments: dict[str, Any]) -> float:
    seconds: float = portal.call(calls_in_a_row, client, tool, arguments)
    return seconds


def _differences(portal: BlockingPortal, clients: Mapping[str, Client], call: _Call, store: str) -> list[str]:
    """Return the call where ours, of the reference's store alone, is answered something else."""
    narrowed = {**call.ours, "stores": [store]}
    theirs = told(portal.call(clients[_REFERENCE].call_tool, call.tool, call.theirs))
    ours = told(portal.call(clients[_OURS].call_tool, call.tool, narrowed))
    return [] if _shown(theirs) == _shown(ours) else [f"{call.tool} {call.theirs}"]


def _shown(answer: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return what must be the same: ids, in order, with their scores, texts or lines."""
    rows = answer.get("hits") or answer.get("matches") or answer.get("sections") or [answer]
    return [(row["id"], *(row.get(key) for key in ("score", "text", "line"))) for row in rows]


def _show_calls(report: Report, sides: _Sides, result: _Called) -> None:
    report.section(
        "Agents: one tool call",
        "The official client over pipes. The reference's server has one store; "
        f"`collate mcp` asks {sides.count:,}, of a daemon that remembers no answer, and of one that does. "
        "Ours come as text and as structured content, and the client holds the latter against the tool's "
        "schema; the last column is that part of our time (the reference announces no schema). What both "
        "answer of the one store, compared by ids, scores, texts and lines (the daemon's default ranking "
        "leaves a question's small words out of snippets): "
        f"{report.compared(len(result.seconds), result.differing)}.",
    )
    report.table(
        (
            "call",
            "reference, ms",
            "ours, ms",
            "**× it**",
            "cache on, ms",
            "**× it**",
            "the client's check, ms",
        ),
        [
            (
                name,
                ms(seconds[_REFERENCE]),
                ms(seconds[_OURS]),
                f"**{times(seconds[_OURS] / seconds[_REFERENCE])}**",
                ms(seconds[_CACHED]),
                f"**{times(seconds[_CACHED] / seconds[_REFERENCE])}**",
                ms(result.checks[name]),
            )
            for name, seconds in result.seconds.items()
        ],
    )
    ratios = {
        name: seconds[_OURS] / seconds[_REFERENCE]
        for name, seconds in result.seconds.items()
        if name.startswith("search")
    }
    worst = max(ratios, key=lambda name: ratios[name])
    report.goal(
        f"an agent's search of {sides.count:,} stores: at most {_GOAL_CALL}× the reference's of one",
        f"{times(ratios[worst])}× ({worst})",
        ratios[worst] <= _GOAL_CALL,
    )


# --------------------------------------------------------------------------- memory


def _compare_memory(report: Report, sides: _Sides) -> None:
    bridged, search = sides.bridged, sides.search
    asyncio.run(first_call(bridged.server, search.ours))  # so that the host runs, and is no bridge's child
    alone = bridged.memory
    theirs = asyncio.run(hold(_AT_ONCE, reference_server(sides.store), search.theirs, bridged))
    ours = asyncio.run(hold(_AT_ONCE, bridged.server, search.ours, bridged))
    report.section(
        f"Agents: the memory of {_AT_ONCE} sessions at once",
        f"Each has searched once: {_AT_ONCE} servers of the reference, one store each, and {_AT_ONCE} "
        f"bridges to one host and one daemon with {sides.count:,} stores. What processes share "
        "counts for each in RSS, and once in PSS.",
    )
    every = ours.servers + ours.host
    rows = {
        f"{_AT_ONCE} servers of the reference": theirs.servers,
        f"{_AT_ONCE} bridges": ours.servers,
        "their host": ours.host,
        f"**bridges and host, for each of {_AT_ONCE}**": _share(every),
        f"**the reference, for each of {_AT_ONCE}**": _share(theirs.servers),
        "the daemon and its worker, before": alone,
        "the same, with all of them": ours.daemon,
    }
    report.table(
        ("MB", "RSS", "PSS", "no file's"),
        [(name, mb(each.rss), mb(each.pss), mb(each.anonymous)) for name, each in rows.items()],
    )
    each = _share(every).rss
    report.goal(
        f"{_AT_ONCE} bridges at once: one daemon and at most {mb(_GOAL_BYTES)} MB more each",
        f"{mb(each)} MB of RSS, {mb(_share(every).pss)} of PSS",
        each <= _GOAL_BYTES,
    )


def _share(memory: Memory) -> Memory:
    return Memory(*(each // _AT_ONCE for each in (memory.rss, memory.pss, memory.anonymous)))


# --------------------------------------------------------------------------- the start


def _compare_starts(bench: Bench, report: Report, sides: _Sides) -> None:
    contenders: dict[str, Callable[[], float]] = {
        _REFERENCE: partial(_start_reference, sides),
        _USUAL: partial(_start, sides),
        _NO_HOST: partial(_start_without_host, sides),
        _NOTHING: partial(_start_without_all, sides),
    }
    turns = interleaved(contenders, bench.rounds(sides.count))
    seconds = {name: median_s(every) for name, every in turns.items()}
    report.section(
        "Agents: from the start of a server to its first answered search",
        f"The same client and search as above; ours asks {sides.count:,} stores. All agents of a daemon "
        "share one host, so that only the first one, or the first after a minute without any, starts "
        "it. A daemon that is started finds what the one before it has kept.",
    )
    theirs = seconds[_REFERENCE]
    report.table(
        ("server", "ms", "**× the reference**"),
        [(name, ms(seconds[key]), f"**{times(seconds[key] / theirs)}**") for name, key in _STARTS.items()],
    )
    ratio = seconds[_USUAL] / theirs
    report.goal(
        f"an agent's start with {sides.count:,} stores, host running: not slower than the reference's",
        f"{times(ratio)}×",
        ratio <= 1,
    )


def _start_reference(sides: _Sides) -> float:
    seconds, answer = asyncio.run(first_call(reference_server(sides.store), sides.search.theirs))
    return _whole(seconds, answer, 1)


def _start(sides: _Sides) -> float:
    if sides.bridged.host_pid is None:
        asyncio.run(first_call(sides.bridged.server, sides.search.ours))
    seconds, answer = asyncio.run(first_call(sides.bridged.server, sides.search.ours))
    return _whole(seconds, answer, sides.count)


def _start_without_host(sides: _Sides) -> float:
    sides.bridged.end_host()
    seconds, answer = asyncio.run(first_call(sides.bridged.server, sides.search.ours))
    return _whole(seconds, answer, sides.count)


def _start_without_all(sides: _Sides) -> float:
    sides.bridged.end_host()
    sides.bridged.end_daemon()
    seconds, answer = asyncio.run(first_call(sides.bridged.server, sides.search.ours))
    return _whole(seconds, answer, sides.count)


def _whole(seconds: float, answer: Any, count: int) -> float:
    """Return *seconds*, of a whole answer with ten hits.

    Raises:
        RuntimeError: it is not.
    """
    hits, asked = len(answer["hits"]), answer.get("stores", {"asked": 1})["asked"]
    if (hits, asked) != (LIMIT, count) or not answer.get("complete", True):
        raise RuntimeError(f"the first answer has {hits} hits of {asked} stores")
    return seconds
