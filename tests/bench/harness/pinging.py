"""Part `ping`: a ping over the socket against a bare asyncio echo that answers the same bytes.

Each server is a process of its own.
"""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from collated.protocol import SearchResult

from .asking import search_params
from .bench import Bench
from .daemons import Daemon
from .projects import SEED, queries
from .report import Report, times, us
from .timing import interleaved, median_s, timed
from .wire import Wire, framed

__all__ = ["run"]

_BATCH = 200
_REST_S = 0.05
_RESTS = 20
_GOAL = 1.5
_ECHO = """
import asyncio, sys

if sys.argv[2] == "uvloop":
    import uvloop as loops
else:
    import asyncio as loops

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)

async def main():
    async with await asyncio.start_unix_server(echo, sys.argv[1]) as server:
        await server.serve_forever()

loops.run(main())
"""
_ROWS = {
    "a bare asyncio echo": "asyncio",
    "the same on uvloop": "uvloop",
    "`ping`": "ping",
    "a remembered search": "cached",
}


def run(bench: Bench, report: Report) -> None:
    """Time round trips of both, and of a remembered answer; many in a row, and each after a rest."""
    with ExitStack() as stack:
        messages = _servers(bench, stack)
        busy = {name: partial(_many, *each) for name, each in messages.items()}
        rested = {name: partial(_after_a_rest, *each) for name, each in messages.items()}
        seconds, slept = (
            {name: median_s(each) for name, each in interleaved(contenders, rounds).items()}
            for contenders, rounds in ((busy, 5 * bench.rounds(bench.few)), (rested, _RESTS))
        )
    echo = seconds["asyncio"]
    report.section(
        "One round trip over a Unix socket",
        f"Medians of {_BATCH} trips in a row, and of single ones after {_REST_S * 1e3:.0f} ms of rest, when "
        "the processors sleep.",
    )
    report.table(
        ("what", "µs", "**× the echo**", "after a rest, µs", "**× the echo**"),
        [
            (
                name,
                us(seconds[key]),
                f"{seconds[key] / echo:.2f}",
                us(slept[key]),
                f"{slept[key] / slept['asyncio']:.2f}",
            )
            for name, key in _ROWS.items()
            if key in seconds
        ],
    )
    ratio = seconds["ping"] / echo
    report.goal(f"ping: at most {_GOAL}× a bare asyncio echo", f"{times(ratio)}×", ratio <= _GOAL)


def _servers(bench: Bench, stack: ExitStack) -> dict[str, tuple[Wire, bytes]]:
    """Return whom to send what, by name."""
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cb-")))
    ping = framed("ping", {})
    echoes = {loop: (_echo(home / loop, loop, stack), ping) for loop in _loops()}
    daemon = stack.enter_context(Daemon(bench.ours(bench.few)).start())
    with daemon.client() as client:
        daemon.wait_open(client, bench.few)
    ours = stack.enter_context(Wire(daemon.socket))
    # What a remembered search costs above a ping is what its answer's bytes cost.
    params = search_params(queries(SEED, bench.few, 1)["two words"][0])
    if not ours.call("search", params, SearchResult).hits:
        raise RuntimeError("the search that is timed finds nothing")
    return {
        **echoes,
        "ping": (ours, ping),
        "cached": (ours, framed("search", params)),
    }


def _loops() -> list[str]:
    return ["asyncio", *(["uvloop"] if find_spec("uvloop") else [])]


def _echo(path: Path, loop: str, stack: ExitStack) -> Wire:
    command = [sys.executable, "-c", _ECHO, str(path), loop]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return stack.enter_context(Wire(path))


def _many(wire: Wire, message: bytes) -> float:
    def trips() -> None:
        for _ in range(_BATCH):
            wire.trip(message)

    return timed(trips)[0] / _BATCH


def _after_a_rest(wire: Wire, message: bytes) -> float:
    time.sleep(_REST_S)
    return timed(lambda: wire.trip(message))[0]
