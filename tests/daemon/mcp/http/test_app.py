"""An answer by the piece is admitted by the piece, and one that is whole is not asked about again."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Receive, Send

from collated.mcp.http import keyring
from collated.mcp.http.app import App
from collated.mcp.http.credentials import Credential, digest
from collated.mcp.http.keyring import Keyring
from collated.mcp.http.serving import Limits

if TYPE_CHECKING:
    from tests.daemon.mcp.http.conftest import Client, Running

    Serve = Callable[..., Awaitable[Running]]

pytestmark = pytest.mark.anyio

TOKEN = "t" * 43
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
MADE = Credential("mine", digest(TOKEN), "test", LATER, frozenset({"docs"}))


class Files:
    """The credential and the denylist, on disk."""

    def __init__(self, base: Path) -> None:
        self.credentials = base / "keys.toml"
        self.denylist = base / "gone.txt"
        self.denylist.write_text("")
        keyring.add(self.credentials, MADE)
        self.keyring = Keyring(self.credentials, self.denylist)

    def change(self, **fields: Any) -> None:
        """Have another credential of the same token."""
        self.credentials.unlink()
        keyring.add(self.credentials, replace(MADE, **fields))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Pieces:
    """What answers by the piece: each time `more` is set, then by a last one once it is `last`."""

    def __init__(self) -> None:
        self.more = anyio.Event()
        self.last = False

    async def __call__(self, caller: object, scope: object, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not self.last:
            await send({"type": "http.response.body", "body": b"piece", "more_body": True})
            await self.more.wait()
            self.more = anyio.Event()
        await send({"type": "http.response.body", "body": b"end"})


async def is_hydrated() -> bool:
    return True


async def ask(serve: Serve, files: Files, pieces: Pieces) -> Client:
    """Return a client that has the first piece of its answer."""
    app = App("test", files.keyring, pieces, is_hydrated)
    service = await serve(Limits(1), app)
    client = await service.client()
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    await client.send(head.encode())
    data = b""
    with anyio.fail_after(10):
        while b"piece" not in data:
            data += await client.stream.receive()
    return client


def revoke(files: Files) -> None:
    files.denylist.write_text("mine\n")


def expire(files: Files) -> None:
    files.change(expires=LATER - timedelta(days=2))


def narrow(files: Files) -> None:
    files.change(stores=frozenset({"other"}))


def lose(files: Files) -> None:
    files.denylist.unlink()


async def test_pieces_go_on_while_the_credential_is_what_it_was(serve: Serve, files: Files) -> None:
    pieces = Pieces()
    async with await ask(serve, files, pieces) as client:
        await anyio.to_thread.run_sync(files.denylist.write_text, "another\n")
        pieces.more.set()
        with anyio.fail_after(10):
            assert b"piece" in await client.stream.receive()


@pytest.mark.parametrize("change", [revoke, expire, narrow, lose])
async def test_no_piece_is_sent_to_who_is_not_admitted_as_it_was(
    serve: Serve, files: Files, logs: list[dict[str, object]], change: Callable[[Files], None]
) -> None:
    pieces = Pieces()
    async with await ask(serve, files, pieces) as client:
        await anyio.to_thread.run_sync(change, files)
        pieces.more.set()
        assert await client.rest() == b""  # not even the end of a stream that ends as it should
    assert logs == []


async def test_an_answer_that_ends_is_not_cut_at_its_end(serve: Serve, files: Files) -> None:
    pieces = Pieces()
    async with await ask(serve, files, pieces) as client:
        await anyio.to_thread.run_sync(revoke, files)
        pieces.last = True
        pieces.more.set()
        assert b"end" in await client.rest()


def posted(port: int, message: dict[str, Any]) -> bytes:
    """Return a request with *message* and the credential."""
    body = json.dumps(message).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def test_a_stream_whose_call_is_taken_back_ends_with_that(serve: Serve, files: Files) -> None:
    pieces = Pieces()

    async def answer(caller: object, scope: Any, receive: Receive, send: Send) -> None:
        is_call = b"tools/call" in scope["state"]["body"]
        await (
            pieces(caller, scope, receive, send)
            if is_call
            else Response(status_code=202)(scope, receive, send)
        )

    service = await serve(Limits(2), App("test", files.keyring, answer, is_hydrated))
    async with await service.client() as client:
        await client.send(posted(service.port, {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}))
        with anyio.fail_after(10):
            while b"piece" not in await client.stream.receive():
                pass
        for request in (8, 7):
            told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}}
            assert b" 202 " in await service.ask(posted(service.port, told))
        rest = await client.rest()
    assert b'"id":7' in rest
    assert b"-32800" in rest
    assert rest.endswith(b"0\r\n\r\n")  # the stream is whole
