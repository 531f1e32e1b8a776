"""Which model's vectors a query can be given, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from math import isfinite

from msgspec import Struct

from collated.cache import Cache
from collated.settings import Embedding
from collated_readers import Budget, RequestError

from .endpoint import HTTPX_MISSING, Endpoint, EndpointFailed
from .local import LocalModel, MissingModel, load, missing

__all__ = ["Embedders", "NotEmbedded", "Vectors", "obstacle", "place"]

_CACHE_BYTES = 4 * 1024 * 1024
_NUMBER_BYTES = 32  # a float and its place in a list
_SHARE = 0.5  # of what is left of a request's time; the words are searched in the rest


class NotEmbedded(Struct, frozen=True):
    """Why a query has no vector under a model.

    `code` is `query_model_mismatch` where the configuration has no such model or one of other dimensions,
    and `embedder_failed` where it may work another time; `message` is for a person.
    """

    code: str
    message: str


class Vectors(Struct, frozen=True):
    """One text under several models: for each its vector, or why there is none."""

    text: str
    found: Mapping[str, Sequence[float]]
    failed: Mapping[str, NotEmbedded]

    def embed(self, model: str, text: str) -> Sequence[float]:
        """Return the vector of *text*, which is this one's: what `Reader.fused` is given.

        Raises:
            RequestError: `query_model_mismatch`: there is none; the store may name another model by now.
        """
        vector = self.found.get(model)
        if vector is None or text != self.text:
            reason = self.failed.get(model)
            message = reason.message if reason else _unknown(model, self.found)
            raise RequestError("query_model_mismatch", message)
        return vector


class Embedders:
    """Gives queries their vectors, as `[embedding]` says; for one event loop.

    Local models are loaded by the first query that needs one, in a thread of their own, and kept.
    """

    def __init__(self, configured: Mapping[str, Embedding], environ: Mapping[str, str]) -> None:
        """Take what is *configured* for each model's name; *environ* has the keys of endpoints."""
        self._environ = environ
        self._configured: Mapping[str, Embedding] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._models: dict[str, LocalModel] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._cache = Cache(_CACHE_BYTES)
        self._closing: set[asyncio.Task[None]] = set()
        self.adopt(configured)

    def adopt(self, configured: Mapping[str, Embedding]) -> None:
        """Embed as *configured* from now on; models that were loaded are kept."""
        if configured == self._configured:
            return
        self._configured = dict(configured)
        self._cache = Cache(_CACHE_BYTES)
        old, self._endpoints = list(self._endpoints.values()), {}
        for endpoint in old:  # only within a running loop has there been any
            task = asyncio.ensure_future(endpoint.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def vectors(self, models: Iterable[str], text: str, budget: Budget) -> Vectors:
        """Return *text* under each of *models*, all asked at once."""
        names = sorted(set(models))
        answers = await asyncio.gather(*(self.embed(name, text, budget) for name in names))
        found: dict[str, Sequence[float]] = {}
        failed: dict[str, NotEmbedded] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, NotEmbedded):
                failed[name] = answer
            else:
                found[name] = answer
        return Vectors(text, found, failed)

    async def embed(self, model: str, text: str, budget: Budget) -> Sequence[float] | NotEmbedded:
        """Return the vector of *text* under *model*, or why there is none.

        It takes half of what is left of *budget* at most.
        """
        entry = self._entry(model)
        if entry is None:
            return NotEmbedded("query_model_mismatch", _unknown(model, self._configured))
        name, embedding = entry
        key = (name, text)
        if (known := self._cache.get(key)) is not None:
            kept: Sequence[float] = known
            return kept
        cache = self._cache  # of what is configured now; a reload begins another
        seconds = min(embedding.timeout_s, budget.remaining() * _SHARE)
        try:
            vector = await self._asked(name, embedding, embedding.prefix + text, seconds)
        except (EndpointFailed, MissingModel) as error:
            return NotEmbedded("embedder_failed", f"no vector for the query under {model}: {error}")
        if wrong := _wrong(model, embedding, vector):
            return wrong
        cache.put(key, vector, len(vector) * _NUMBER_BYTES)
        return vector

    async def close(self) -> None:
        """Close the endpoints' connections and end the models' thread."""
        endpoints, self._endpoints = list(self._endpoints.values()), {}
        for endpoint in endpoints:
            await endpoint.close()
        if self._closing:
            await asyncio.wait(self._closing)
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def _entry(self, model: str) -> tuple[str, Embedding] | None:
        if model in self._configured:
            return model, self._configured[model]
        wanted = model.casefold()
        return next((entry for entry in self._configured.items() if entry[0].casefold() == wanted), None)

    async def _asked(self, name: str, embedding: Embedding, text: str, seconds: float) -> list[float]:
        if embedding.url:
            if name not in self._endpoints:
                key = self._environ.get(embedding.key_env) if embedding.key_env else None
                self._endpoints[name] = Endpoint(embedding.url, embedding.name or name, key)
            return await self._endpoints[name].embed(text, seconds)
        self._thread = self._thread or ThreadPoolExecutor(1, "embedding")
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._local, embedding.local, text)
        try:
            # The thread cannot be stopped; a model that is being loaded is there for the next query.
            async with asyncio.timeout(seconds):
                return await running
        except TimeoutError as error:
            raise MissingModel(f"{embedding.local} was not done within {seconds:.3g} s") from error

    def _local(self, package: str, text: str) -> list[float]:
        try:
            model = self._models.get(package) or load(package)
            vector = model.embed(text)
        except MissingModel:
            raise
        except Exception as error:  # a damaged file shows in any way, and `tokenizers` raises no other type
            reason = f"{type(error).__name__}: {error}"
            raise MissingModel(f"the files of the installed {package} are damaged: {reason}") from error
        self._models[package] = model
        return vector


def place(embedding: Embedding) -> str:
    """Return where queries are embedded, for people: without a query string, which may hold a key."""
    return embedding.url.partition("?")[0] or embedding.local


def obstacle(embedding: Embedding, environ: Mapping[str, str]) -> str | None:
    """Return what is missing on this machine to embed as configured, None for nothing. Asks nobody."""
    if embedding.local:
        return missing(embedding.local)
    if find_spec("httpx") is None:
        return HTTPX_MISSING
    if embedding.key_env and not environ.get(embedding.key_env):
        return f"the environment variable {embedding.key_env}, which should have the key, is not set"
    return None


def _unknown(model: str, configured: Iterable[str]) -> str:
    names = ", ".join(sorted(configured)) or "no model"
    return f"the store's vectors are of model {model}; [embedding] has {names}"


def _wrong(model: str, embedding: Embedding, vector: list[float]) -> NotEmbedded | None:
    where = place(embedding)
    if embedding.dimensions not in (0, len(vector)):
        message = f"{where} gives {len(vector)} numbers, [embedding] says {embedding.dimensions} for {model}"
        return NotEmbedded("query_model_mismatch", message)
    if not all(map(isfinite, vector)) or not any(vector):
        return NotEmbedded("embedder_failed", f"{where} gives no finite vector other than zero for the query")
    return None
