"""A small endpoint on this machine's loopback address, which answers what a test tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from msgspec import Struct, field

HOST = "127.0.0.1"


def answer(vector: object) -> bytes:
    """Return the body of an answer with *vector*."""
    return json.dumps({"object": "list", "data": [{"index": 0, "embedding": vector}]}).encode()


def response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join((*lines, "", "")).encode() + body


class Served(Struct):
    """What the endpoint was asked, and what it answers in turn; the last answer for ever after.

    An empty answer closes the connection, None never comes. `begun` is set by the first
    question, `left` when a client goes away without having waited for an answer.
    """

    url: str = ""
    answers: list[bytes | None] = field(default_factory=list[bytes | None])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's requests until either side closes it."""
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        self.headers.append({"": head[0]} | headers)
        self.asked.append(json.loads(await reader.readexactly(int(headers["content-length"]))))
        self.begun.set()
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if answer is None:
            await reader.read(1)
            self.left.set()
            return False
        writer.write(answer)
        await writer.drain()
        return bool(answer)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """An endpoint that runs as long as the test."""
    made = Served()
    server = await asyncio.start_server(made.serve, HOST, 0)
    made.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/v1/embeddings"
    async with server:
        yield made
        server.close()
