"""An endpoint is asked once more at most, never trusted, and given its key and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import socket
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from collated.embedding.endpoint import HTTPX_MISSING, Endpoint, EndpointFailed

from .conftest import HOST, Served, answer, response

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

VECTOR = [0.6, -0.8, 0.0]
GOOD = response(answer(VECTOR))
KEY = "made-up" + "-key-1234567890"
LONG_S = 30.0

Open = Callable[..., Endpoint]


@pytest.fixture
async def to(served: Served) -> AsyncIterator[Open]:
    """`to(url, key)` is an endpoint that is closed with the test."""
    opened: list[Endpoint] = []

    def make(url: str = "", key: str | None = None) -> Endpoint:
        opened.append(Endpoint(url or served.url, "bge-m3", key))
        return opened[-1]

    yield make
    for endpoint in opened:
        await endpoint.close()


async def failure(endpoint: Endpoint, timeout_s: float = LONG_S) -> str:
    with pytest.raises(EndpointFailed) as caught:
        await endpoint.embed("what", timeout_s)
    return caught.value.message


async def test_it_is_asked_as_others_ask_it(served: Served, to: Open) -> None:
    served.answers = [GOOD]
    assert await to(key=KEY).embed("wie geht's? 🦀", LONG_S) == VECTOR
    assert served.asked == [{"model": "bge-m3", "input": ["wie geht's? 🦀"], "encoding_format": "float"}]
    assert served.headers[0][""] == "POST /v1/embeddings HTTP/1.1"
    assert served.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_without_a_key_none_is_sent(served: Served, to: Open) -> None:
    served.answers = [GOOD]
    await to().embed("what", LONG_S)
    assert "authorization" not in served.headers[0]


async def test_whole_numbers_are_numbers(served: Served, to: Open) -> None:
    served.answers = [response(answer([1, 0, -2]))]
    assert await to().embed("what", LONG_S) == [1.0, 0.0, -2.0]


async def test_the_environment_says_nothing_of_where_it_is(
    served: Served, to: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    served.answers = [GOOD]
    assert await to().embed("what", LONG_S) == VECTOR


@pytest.mark.parametrize(
    "first", [b"", *(response(b"busy", status) for status in (429, 500, 502, 503, 504))], ids=repr
)
async def test_what_may_pass_is_tried_once_more(served: Served, to: Open, first: bytes) -> None:
    served.answers = [first, GOOD]
    assert await to().embed("what", LONG_S) == VECTOR
    assert len(served.asked) == 2


@pytest.mark.parametrize("each", [b"", response(b"still busy", 503)], ids=["closed", "busy"])
async def test_and_not_a_third_time(served: Served, to: Open, each: bytes) -> None:
    served.answers = [each]
    assert served.url in await failure(to())
    assert len(served.asked) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_what_will_not_pass_is_not_repeated(served: Served, to: Open, status: int) -> None:
    served.answers = [response(b'{"error": "no\n  such model"}', status)]
    assert await failure(to()) == f'{served.url} answers {status}: {{"error": "no such model"}}'
    assert len(served.asked) == 1


async def test_a_redirect_is_not_followed(served: Served, to: Open) -> None:
    served.answers = [response(b"", 307, {"Location": f"http://{HOST}:9/v1/embeddings"}), GOOD]
    assert "answers 307" in await failure(to(key=KEY))
    assert len(served.asked) == 1


async def test_no_secret_is_repeated(served: Served, to: Open) -> None:
    other = "sk-" + "proj-abcdefghijklmnop1234"
    served.answers = [response(f"wrong key {KEY}, not {other}".encode(), 401)]
    message = await failure(to(f"{served.url}?secret=1234", KEY))
    assert message.endswith("answers 401: wrong key <key>, not <<redacted:openai_key>>")
    assert "1234" not in message


WRONG = {
    "no_json": b"<html>",
    "empty": b"",
    "other": b"{}",
    "a_list": b"[]",
    "not_utf8": b'{"data": "\xff"}',
    "base64": answer("AAAA"),
    "null": answer([1.0, None]),
    "nan": b'{"data": [{"embedding": [NaN]}]}',
    "none": b'{"data": []}',
    "two": b'{"data": [{"embedding": [1]}, {"embedding": [2]}]}',
    "deep": b"[" * 100_000,
    "long": answer([0.123456789] * 400_000),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_answer_is_no_vector(served: Served, to: Open, body: bytes) -> None:
    served.answers = [response(body)]
    assert (await failure(to())).startswith(f"{served.url} answers ")
    assert len(served.asked) == 1


async def test_an_answer_that_would_grow_is_not_unpacked(served: Served, to: Open) -> None:
    served.answers = [response(gzip.compress(b" " * 10_000_000), headers={"Content-Encoding": "gzip"})]
    assert "answers what is no list of vectors" in await failure(to())


async def test_an_answer_that_does_not_come_is_not_waited_for(served: Served, to: Open) -> None:
    served.answers = [None]
    assert await failure(to(), 0.05) == f"{served.url} did not answer within 0.05 s"


async def test_nor_one_that_does_not_end(served: Served, to: Open) -> None:
    served.answers = [response(answer(VECTOR)).replace(b"Content-Length: ", b"Content-Length: 9")]
    assert "did not answer within" in await failure(to(), 0.05)


async def test_a_caller_that_goes_away_ends_the_request(served: Served, to: Open) -> None:
    served.answers = [None]
    task = asyncio.create_task(to().embed("what", LONG_S))
    async with asyncio.timeout(10):
        await served.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await served.left.wait()


async def test_nobody_listens(to: Open) -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else gets the port meanwhile
        bound.bind((HOST, 0))
        url = f"http://{HOST}:{bound.getsockname()[1]}/v1"
        assert (await failure(to(url))).startswith(f"{url} cannot be asked: ")


async def test_an_address_that_is_none(to: Open) -> None:
    assert "cannot be asked" in await failure(to("http://h\x7f/v1"))


async def test_the_package_that_asks_may_not_be_installed(to: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert await failure(to()) == HTTPX_MISSING


async def test_white_space_around_a_key_is_none_of_it(served: Served, to: Open) -> None:
    served.answers = [GOOD]
    await to(key=f" {KEY}\r\n").embed("what", LONG_S)
    assert served.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_a_key_that_cannot_be_sent_is_not_shown(served: Served, to: Open) -> None:
    served.answers = [GOOD]
    message = await failure(to(key=f"{KEY}\n{KEY}"))
    assert message == f"{served.url} cannot be asked: the key is not one that can be sent"


async def test_a_key_of_any_letters_is_sent(served: Served, to: Open) -> None:
    served.answers = [GOOD]
    assert await to(key="schlüssel").embed("what", LONG_S) == VECTOR
