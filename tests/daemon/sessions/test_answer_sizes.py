"""However long what stores hold becomes on the wire, an answer fits into a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

from collated.framing import Framer, Framing
from collated.protocol import METHODS
from collated.settings import Settings
from collated_readers.code import Chunk, Coverage, Impact, Node, Reference, References, Symbol, Symbols
from collated_readers.vectors import Similar, VectorFacts

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenCode
    from tests.daemon.sessions.conftest import Client, Connect

pytestmark = pytest.mark.anyio

LONG = "\x01" * 3_000  # each is one byte, and six in JSON
HUGE = "\x01" * 900_000
COVERAGE = Coverage(True, (HUGE,), "\x01" * 600_000)
ANSWERS: dict[str, Any] = {
    "symbols": Symbols(tuple(Symbol("f", None, "x", "a", line, line, LONG) for line in range(1_000))),
    "references": References(
        tuple(Reference("a", line, "call", None, LONG, None, None, "5ha") for line in range(1_000)), COVERAGE
    ),
    "impact": Impact(
        tuple(Node("symbol", "a", LONG, line, 1, "call", None, "5ha") for line in range(1_000)),
        tuple(f"{number}{LONG}" for number in range(1_000)),
        COVERAGE,
    ),
    "chunk": Chunk("a.py#1", "a.py", 1, 3, "x", "\x01" * 500_000, "5ha"),
    "architecture": {"text": HUGE},
    "vectors": VectorFacts("small", 2, "cosine", "higher"),
    "similar": tuple(Similar(f"{number}", "d", "", LONG, 0.5) for number in range(1_000)),
}
ASKING: dict[str, dict[str, object]] = {
    "symbols": {"name": "f", "limit": 1_000},
    "references": {"name": "f", "limit": 1_000},
    "impact": {"target": "f", "limit": 1_000},
    "chunk": {"path": "a.py", "line": 1},
    "architecture": {"store": "a"},
    "vectors.search": {"vector": [1.0, 1.0], "limit": 1_000},
}


async def reply(client: Client, method: str) -> bytes:
    """Ask, and return the body of the answer, which is in one frame that a client like us may have sent."""
    framer = Framer(Settings().server.max_frame_bytes, client.framing)
    await client.send({"id": 1, "method": method, "params": ASKING[method]})
    with anyio.fail_after(10):
        while not (bodies := framer.feed(await client.stream.receive())):
            assert framer.error is None
    (body,) = bodies
    return body


@pytest.mark.parametrize("framing", ["lines", "msgpack"])
@pytest.mark.parametrize("method", ASKING)
async def test_an_answer_fits_into_a_frame(
    code_world: OpenCode, connect: Connect, method: str, framing: Framing
) -> None:
    opened = await code_world(dict.fromkeys("abcd", ANSWERS))
    client = await connect(opened.parts, framing)

    body = await reply(client, method)

    decode = msgspec.msgpack.decode if framing == "msgpack" else msgspec.json.decode
    answer = decode(body)
    if method == "architecture":
        assert "5400012 bytes" in answer["error"]["message"]
    else:
        assert answer["result"]["truncated"]
        assert answer["result"][METHODS[method].result.__struct_fields__[0]]


async def test_a_chunk_that_would_not_fit_is_damage(code_world: OpenCode, connect: Connect) -> None:
    small = Chunk("a.py#1", "a.py", 1, 3, "x", "small", "5ha")
    opened = await code_world(
        {"a": {"chunk": msgspec.structs.replace(small, text=HUGE)}, "b": {"chunk": small}}
    )

    result = msgspec.json.decode(await reply(await connect(opened.parts), "chunk"))["result"]

    assert [each["store"] for each in result["chunks"]] == ["b"]
    assert [(each["store"], each["code"]) for each in result["stores"]["failed"]] == [("a", "damaged")]
