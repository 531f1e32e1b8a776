"""An OpenAI-compatible endpoint: `POST URL {"model": …, "input": [TEXT]}`.

The key goes to the configured address alone: redirects, proxies and `.netrc` are not followed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from collated_readers.secrets import redacted

if TYPE_CHECKING:
    import httpx

__all__ = ["HTTPX_MISSING", "Endpoint", "EndpointFailed"]

HTTPX_MISSING = "the Python package httpx is not installed; pip install 'collated[embed]'"

_LONGEST_ANSWER = 4 * 1024 * 1024
_SHOWN_CHARACTERS = 200
_PAUSE_S = 0.1
_ASK_AGAIN = frozenset({429, 500, 502, 503, 504})


class EndpointFailed(Exception):
    """The endpoint gave no vector; the message says why, `is_retryable` whether it may next time."""

    def __init__(self, message: str, *, is_retryable: bool = False) -> None:
        """Keep the *message*."""
        super().__init__(message)
        self.message = message
        self.is_retryable = is_retryable


class _Item(Struct):
    embedding: list[float]


class _Answer(Struct):
    data: list[_Item]


class Endpoint:
    """Asks one address; for one event loop. Its connections are kept open between queries."""

    def __init__(self, url: str, model: str, key: str | None) -> None:
        """Ask *url* for vectors of its *model*, with *key* as the bearer's token if there is one."""
        self._url = url
        self._model = model
        self._key = key.strip() if key else None
        self._name = url.partition("?")[0]
        self._making: asyncio.Task[httpx.AsyncClient] | None = None
        self._asking = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def embed(self, text: str, timeout_s: float) -> list[float]:
        """Return the vector of *text*; a failure that may pass is tried once more.

        Raises:
            EndpointFailed: no answer within *timeout_s* seconds, or none that holds one vector.
        """
        self._asking += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._asked_twice(text)
        except TimeoutError as error:
            raise EndpointFailed(f"{self._name} did not answer within {timeout_s:.3g} s") from error
        finally:
            self._asking -= 1
            if not self._asking:
                self._idle.set()

    async def close(self) -> None:
        """Close the connections, once nobody waits for an answer any more."""
        await self._idle.wait()
        making, self._making = self._making, None
        if making is not None:
            with suppress(ImportError):  # then there is none to close
                await (await making).aclose()

    async def _asked_twice(self, text: str) -> list[float]:
        try:
            return await self._ask(text)
        except EndpointFailed as failed:
            if not failed.is_retryable:
                raise
        await asyncio.sleep(_PAUSE_S)
        return await self._ask(text)

    async def _ask(self, text: str) -> list[float]:
        client = await self._opened()
        import httpx  # which has been imported just now in a thread: it takes a tenth of a second

        body = {"model": self._model, "input": [text], "encoding_format": "float"}
        try:
            async with client.stream("POST", self._url, json=body) as response:
                content = await self._content(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EndpointFailed(
                f"{self._name} cannot be asked: {_reason(error)}", is_retryable=True
            ) from error
        if not response.is_success:
            again = response.status_code in _ASK_AGAIN
            message = f"{self._name} answers {response.status_code}: {self._shown(content)}"
            raise EndpointFailed(message, is_retryable=again)
        return self._vector(content)

    def _vector(self, content: bytes) -> list[float]:
        try:
            data = msgspec.json.decode(content, type=_Answer).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EndpointFailed(f"{self._name} answers what is no list of vectors: {error}") from error
        if len(data) != 1:
            raise EndpointFailed(f"{self._name} answers {len(data)} vectors for one text")
        return data[0].embedding

    async def _content(self, response: httpx.Response) -> bytes:
        parts = bytearray()
        async for part in response.aiter_raw():
            parts += part
            if len(parts) > _LONGEST_ANSWER:
                raise EndpointFailed(f"{self._name} answers more than {_LONGEST_ANSWER} bytes")
        return bytes(parts)

    def _shown(self, content: bytes) -> str:
        """Return the beginning of an error, which may repeat the key."""
        text = " ".join(content.decode("utf-8", "replace").split())
        if self._key:
            text = text.replace(self._key, "<key>")
        return redacted(text)[:_SHOWN_CHARACTERS] or "nothing more"

    async def _opened(self) -> httpx.AsyncClient:
        making = self._making
        if making is None:
            making = self._making = asyncio.create_task(asyncio.to_thread(_client, self._key))
        try:
            # Who gives up waiting must not leave behind a client that nobody knows.
            return await asyncio.shield(making)
        except ImportError as error:
            if self._making is making:
                self._making = None
            raise EndpointFailed(HTTPX_MISSING) from error


def _reason(error: Exception) -> str:
    import httpx

    if isinstance(error, httpx.LocalProtocolError):  # its text would show the header
        return "the key is not one that can be sent"
    return str(error) or type(error).__name__


def _client(key: str | None) -> httpx.AsyncClient:
    import httpx

    headers = {b"Accept-Encoding": b"identity"}  # a small answer must not become a large one
    if key:
        headers[b"Authorization"] = f"Bearer {key}".encode()
    # The time is kept by the caller, for the whole of an answer and its repetition.
    return httpx.AsyncClient(headers=headers, timeout=None, trust_env=False, follow_redirects=False)  # noqa: S113 - each question has its own, `asyncio.timeout`
