"""Which requests are answered by a stream of progress, and that anything else is not."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from collated.mcp.http.wishes import called, cancelled, is_progress_wanted

BOTH = "application/json, text/event-stream"
WANTED: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "search", "arguments": {}, "_meta": {"progressToken": "mine"}},
}


def body(**fields: Any) -> bytes:
    return json.dumps({**WANTED, **fields}).encode()


def with_meta(meta: Any) -> bytes:
    return body(params={"name": "search", "_meta": meta})


@pytest.mark.parametrize("token", ["mine", "", 0, -1, 7, 2**80])
def test_a_call_with_a_token_wants_progress(token: str | int) -> None:
    assert is_progress_wanted(with_meta({"x/y": [None], "progressToken": token}), BOTH)


@pytest.mark.parametrize(
    "accept", [BOTH, "*/*", "application/json,Text/*;q=0.1", "text/event-stream ; x=y , application/json"]
)
def test_a_client_that_takes_events_may_be_told(accept: str) -> None:
    assert is_progress_wanted(body(), accept)


@pytest.mark.parametrize("accept", ["", "application/json", "text/plain", "text/event-stream-x", ",;,"])
def test_a_client_that_takes_no_events_is_not(accept: str) -> None:
    assert not is_progress_wanted(body(), accept)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"7",
        b"null",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"method": "tools/call", "params": {"_meta": ' + b'{"x": ' * 100_000,
        b'{"x": "\xff", "method": "\xff"}',
        json.dumps([WANTED]).encode(),
        body()[:-1],
        body() + b"x",
        body(method="tools/list"),
        body(method=None),
        body(params=None),
        body(params=["_meta"]),
        with_meta(None),
        with_meta({}),
        with_meta({"progresstoken": 1}),
        with_meta({"x": "x" * 900_000}),
        *(with_meta({"progressToken": token}) for token in (None, True, 1.5, [1], {"a": 1})),
    ],
)
def test_everything_else_does_not(sent: bytes) -> None:
    assert not is_progress_wanted(sent, BOTH)


def test_random_bytes_are_never_an_error() -> None:
    chance = random.Random(11)  # noqa: S311 - the same each time
    for _ in range(2_000):
        sent = bytearray(body())
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(sent))
            sent[at : at + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
        assert is_progress_wanted(bytes(sent), BOTH) in (True, False)


@pytest.mark.parametrize(
    ("body", "request_id", "taken_back"),
    [
        (b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}', 3, None),
        (b'{"jsonrpc":"2.0","id":"a","method":"tools/list"}', "a", None),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}', None, 3),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}', None, "a"),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}', None, None),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', None, None),
        (b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":3}}', None, None),
        (b'{"jsonrpc":"2.0","id":3,"result":{}}', None, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/call"}', None, None),
        *((body, None, None) for body in (b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"3")),
    ],
)
def test_what_is_called_and_what_is_taken_back(body: bytes, request_id: object, taken_back: object) -> None:
    assert called(body) == request_id
    assert cancelled(body) == taken_back
