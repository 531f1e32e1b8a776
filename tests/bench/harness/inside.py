"""A daemon that is also asked within its own process: `python -m harness.inside run --config FILE`.

It is the daemon, socket and all. Beside that, each line of its standard input is a `Question` as JSON;
a line with a `Told` answers it. What it times is the daemon's own way from parameters to an encoded
answer, with no socket and no other process in it.
"""

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import msgspec

from collated import app
from collated.methods import Methods
from collated.places import load_settings, socket_path
from collated.protocol import METHODS

from .timing import LONG_ENOUGH_S

__all__ = ["Question", "Told"]


class Question(msgspec.Struct):
    """A request, and how many times to answer it at most, one after the other."""

    method: str
    params: dict[str, Any]
    repeat: int = 1


class Told(msgspec.Struct):
    """Seconds of each time, and the last result."""

    seconds: list[float]
    result: Any


def main() -> int:
    """Serve until a signal comes."""
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    app.configure_logging()
    settings = load_settings(config, os.environ)
    path = socket_path(os.environ, settings.server.socket)
    # The daemon's own whole, from within: nothing else could be asked without a socket.
    daemon = app._Daemon(settings, config, os.environ, path, 0.0)  # pyright: ignore[reportPrivateUsage] - as above
    return anyio.run(_serve, daemon, backend_options={"use_uvloop": find_spec("uvloop") is not None})


async def _serve(daemon: "app._Daemon") -> int:  # pyright: ignore[reportPrivateUsage] - as above
    code = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_answer, daemon._methods)  # pyright: ignore[reportPrivateUsage] - as above
        code = await daemon.main()
        tasks.cancel_scope.cancel()
    return code


async def _answer(methods: Methods) -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        await anyio.wait_readable(source)
        line = source.readline()  # whole lines are written, each after the answer to the one before
        if not line:
            return
        question = msgspec.json.decode(line, type=Question)
        sink.write(msgspec.json.encode(await _time(methods, question)) + b"\n")
        sink.flush()


async def _time(methods: Methods, question: Question) -> Told:
    params = msgspec.convert(question.params, METHODS[question.method].params)
    codec = methods.codec("msgpack")
    seconds: list[float] = []
    encoded: bytes | None = None
    while len(seconds) < question.repeat and sum(seconds) < LONG_ENOUGH_S:
        started = time.perf_counter()
        encoded = methods.remembered(codec, question.method, params)
        if encoded is None:
            encoded = await methods.answer(codec, question.method, params, None)
        seconds.append(time.perf_counter() - started)
    return Told(seconds, msgspec.msgpack.decode(encoded or b""))


if __name__ == "__main__":
    raise SystemExit(main())
