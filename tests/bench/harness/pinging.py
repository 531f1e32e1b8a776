"""Ping over the socket against a bare asyncio echo that answers the same bytes, each in its own process."""

import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import msgpack

from .daemons import Daemon, wait_for
from .timing import interleaved, median_s, timed

__all__ = ["compare_pings"]

_BATCH = 200

_ECHO = """
import asyncio, sys

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)

async def main():
    async with await asyncio.start_unix_server(echo, sys.argv[1]) as server:
        await server.serve_forever()

asyncio.run(main())
"""


def compare_pings(folder: Path, rounds: int) -> dict[str, float]:
    """Return the median seconds of a round trip: `echo`, `ping`, and `cached`, a remembered answer."""
    with tempfile.TemporaryDirectory(prefix="cb-") as home, Daemon(folder).start() as daemon:
        with daemon.client() as client:
            daemon.wait_open(client, len(list(folder.glob("*.sqlite"))))
        path = Path(home) / "echo"
        process = subprocess.Popen([sys.executable, "-c", _ECHO, str(path)], stdin=subprocess.DEVNULL)
        try:
            wait_for(lambda: path.exists() or None, "the echo server")
            with _connected(path) as echo, _connected(daemon.socket) as ours:
                ping = _framed("ping", {})
                # What a cached search costs above a ping is what its answer's bytes cost.
                search = _framed("search", {"query": "cache buffer", "limit": 10})
                _check(ours, search)
                trips = {
                    "echo": _trips(echo, ping),
                    "ping": _trips(ours, ping),
                    "cached": _trips(ours, search),
                }
                return {name: median_s(each) for name, each in interleaved(trips, rounds).items()}
        finally:
            process.terminate()
            process.wait()


def _framed(method: str, params: dict[str, object]) -> bytes:
    body = msgpack.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return struct.pack(">I", len(body)) + body


def _connected(path: Path) -> socket.socket:
    def attempt() -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError:
            connection.close()
            return None
        return connection

    return wait_for(attempt, f"{path.name} to listen")


def _trip(connection: socket.socket, message: bytes) -> bytes:
    connection.sendall(message)
    received = connection.recv(65_536)
    length = 4 + int.from_bytes(received[:4], "big")
    while len(received) < length:
        received += connection.recv(65_536)
    return received[4:]


def _check(connection: socket.socket, search: bytes) -> None:
    hits = msgpack.decode(_trip(connection, search))["result"]["hits"]
    if not hits:
        raise RuntimeError("the cached search that is timed finds nothing")


def _trips(connection: socket.socket, message: bytes) -> Callable[[], float]:
    def many() -> None:
        for _ in range(_BATCH):
            _trip(connection, message)

    many()
    return lambda: timed(many)[0] / _BATCH
