"""The methods of DESIGN §6's table: typed parameters in, a result Struct out."""

import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from collated_readers import Budget
from collated_readers.contextful.reader import Ask
from collated_readers.contextful.wire import BACKENDS, TOOLS

from . import __version__, catalog, protocol
from .cache import Cache
from .coding import Coding
from .contexts import Contexts
from .corpora import Corpora
from .embedding import Embedders
from .errors import RequestFailed
from .examining import Examining
from .fanout import Fanout
from .federation import Federation
from .framing import Framing
from .gathering import Gathering
from .grepping import Grepping
from .inventory import Inventory
from .messages import Codec
from .protocol import METHODS, Changes, ReloadResult, StatusResult, StoresParams, StoresResult
from .reading import Reading
from .searching import Report
from .settings import Settings
from .sidecars.keeper import Keeper
from .similar import Similarity
from .state import Memory

__all__ = ["Gauges", "Methods"]

_LONGEST_S = 60.0
_LEXICAL = ("search", "grep")  # what sidecars are for
_REMEMBERED = (*_LEXICAL, "symbols", "references", "impact", "chunk", "vectors.search")


class Gauges(msgspec.Struct):
    """What the server counts and `status` shows."""

    connections: int = 0
    in_flight: int = 0
    last_used: float = 0.0


class _Flight(msgspec.Struct):
    """A request that is being answered; `encoded` stays None where that failed."""

    landed: anyio.Event
    encoded: bytes | None = None


class Methods:
    """Everything that a session can ask for. `settings` is replaced as a whole by a reload."""

    def __init__(  # noqa: PLR0913 - the daemon's parts, put together in one place (app.py)
        self,
        settings: Settings,
        *,
        inventory: Inventory,
        fanout: Fanout,
        cache: Cache,
        memory: Memory,
        corpora: Corpora,
        keeper: Keeper,
        examining: Examining,
        embedders: Embedders,
        engine: Ask,
        socket: Path,
        reload: Callable[[], Awaitable[ReloadResult]],
    ) -> None:
        """Answer from *inventory* through *fanout*; *reload* reads the configuration again."""
        self.settings = settings
        self.inventory = inventory
        self.gauges = Gauges(last_used=time.monotonic())
        self.config: str | None = None
        self.config_error: str | None = None
        self.cache = cache
        self._fanout = fanout
        self._federation = Federation(fanout, corpora, cache, embedders)
        grepping, reading = Grepping(fanout, corpora, cache), Reading(fanout, Gathering(fanout, cache))
        coding, similarity = Coding(fanout, reading, cache), Similarity(fanout, cache)
        contexts = Contexts(reading, engine)
        self._engine = engine
        self._keeper = keeper
        self._examining = examining
        self._memory = memory
        self._socket = socket
        self._whole: dict[str, Callable[[], Awaitable[Any]]] = {"rescan": self.rescan, "reload": reload}
        self._reported: dict[str, Callable[[Any, Budget, Report | None], Awaitable[Any]]] = {
            "search": self._federation.search,
            "grep": grepping.grep,
        }
        self._asked: dict[str, Callable[[Any, Budget], Awaitable[Any]]] = {
            "read": reading.read,
            "neighbours": reading.neighbours,
            "index": reading.index,
            "symbols": coding.symbols,
            "references": coding.references,
            "impact": coding.impact,
            "chunk": coding.chunk,
            "architecture": coding.architecture,
            "vectors.search": similarity.search,
            **{tool: partial(contexts.ask, tool) for tool in TOOLS},
        }
        self._started = time.monotonic()

        self._flights: dict[tuple[object, ...], _Flight] = {}
        self._codecs: dict[Framing, Codec] = {}

    def codec(self, framing: Framing) -> Codec:
        """Return the codec of *framing*; connections share it, for it holds no state of theirs."""
        return self._codecs.setdefault(framing, Codec(framing))

    # ----------------------------------------------------------------- at once

    def initialize(self, framing: str, require: Sequence[str] = ()) -> protocol.InitializeResult:
        """Return what this daemon speaks over a connection of *framing*.

        Raises:
            RequestFailed: `RequiredFaceAbsent` for what is required and not there.
        """
        server = self.settings.server
        result = protocol.InitializeResult(
            protocol=protocol.PROTOCOL_VERSION,
            server={"name": "collated", "version": __version__},
            framing=framing,
            methods=sorted(METHODS),
            formats=self.inventory.formats,
            limits={
                "max_frame_bytes": server.max_frame_bytes,
                "max_in_flight": server.max_in_flight,
                "deadline_s": self.settings.search.deadline_s,
            },
            backends=list(BACKENDS) if self._engine.is_available else [],
        )
        if absent := set(require) - {*result.methods, *result.formats, *result.backends}:
            message = f"RequiredFaceAbsent: there is no {', '.join(sorted(absent)):.500}"
            raise RequestFailed("RequiredFaceAbsent", message, "`initialize` without `require` lists all")
        return result

    def status(self, _: protocol.NoParams) -> StatusResult:
        """Return how the daemon is."""
        stores: dict[str, int] = {}
        for store in self.inventory.stores.values():
            stores[store.state.value] = stores.get(store.state.value, 0) + 1
        watch = self.inventory.watch
        return StatusResult(
            version=__version__,
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - self._started, 3),
            socket=catalog.shown(str(self._socket)),
            config=self.config,
            config_error=self.config_error,
            stores=stores,
            cache=self.cache.stats(),
            memory={"rss_bytes": _rss_bytes(), "open_stores": self._fanout.open_stores},
            watch={
                "directories": len(watch.directories),
                "batches": watch.batches,
                "looks": self.inventory.looks,
                "error": watch.error,
                "state_error": self._memory.error,
            },
            connections=self.gauges.connections,
            in_flight=self.gauges.in_flight,
            sidecars=self._keeper.stats(),
            engines=msgspec.to_builtins(self._engine.stats()),
        )

    def stores(self, params: StoresParams) -> StoresResult:
        """Return the stores by name.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params` for an unknown format.
        """
        self._fanout.choosing.check_formats(params.formats)
        chosen = self.inventory.in_order()
        if params.stores:
            chosen = [self._fanout.choosing.known(name) for name in sorted(set(params.stores))]
        return StoresResult(
            [
                catalog.status_of(store, self.inventory.capabilities(store), self._examining.details(store))
                for store in chosen
                if not params.formats or store.format in params.formats
            ]
        )

    def is_at_once(self, method: str) -> bool:
        """Tell whether *method* is answered without waiting; `stores` waits for the first look at them."""
        return method != "stores" or self.inventory.is_ready.is_set()

    def remembered(self, codec: Codec, method: str, params: Any) -> bytes | None:
        """Return the encoded answer if it is remembered, or if no store has to be asked for it.

        Raises:
            RequestFailed: `unknown_store`, `invalid_params`.
        """
        if method in _LEXICAL:
            self._keeper.touch(params.stores)
        key = self._key(codec, method, params)
        if key is None:
            return None
        encoded: bytes | None = self.cache.get(key)
        if encoded is None and method == "search" and params.partialResultToken is None:
            self._budget(params.deadline_ms)
            result = self._federation.at_once(params)
            encoded = None if result is None else codec.encode(result)
        return encoded

    def _key(self, codec: Codec, method: str, params: Any) -> tuple[object, ...] | None:
        if method == "search" and params.ranking == "default":
            params.ranking = self.settings.search.ranking
        if method not in _REMEMBERED or params.sync or not self.inventory.is_ready.is_set():
            return None
        is_binary = codec.framing == "msgpack"
        return (self.inventory.epoch, is_binary, method, msgspec.msgpack.encode(params))

    # ----------------------------------------------------------------- in a task

    async def answer(self, codec: Codec, method: str, params: Any, report: Report | None) -> bytes:
        """Return the encoded result of *method*, whose *params* are already of the right type.

        Who asks what is being asked already waits for that answer.

        Raises:
            RequestFailed: any code of `errors.CODES`.
        """
        key = self._key(codec, method, params)
        if key is None or report is not None:
            return await self._encoded(codec, method, params, report, key)
        while flight := self._flights.get(key):
            await flight.landed.wait()  # it began before us, so it ends before we have to
            if flight.encoded is not None:
                return flight.encoded
        flight = self._flights[key] = _Flight(anyio.Event())
        try:
            flight.encoded = await self._encoded(codec, method, params, report, key)
        finally:
            flight.landed.set()
            if self._flights.get(key) is flight:
                del self._flights[key]
        return flight.encoded

    async def _encoded(
        self, codec: Codec, method: str, params: Any, report: Report | None, key: tuple[object, ...] | None
    ) -> bytes:
        result = await self.call(method, params, report)
        encoded = codec.encode(result)
        # Asked before a store changed, an answer must not be found after it.
        if key is not None and _is_lasting(params, result) and key[0] == self.inventory.epoch:
            self.cache.put(key, encoded, len(encoded))
        return encoded

    async def call(self, method: str, params: Any, report: Report | None) -> Any:
        """Return the result of *method*, whose *params* are already of the right type.

        Raises:
            RequestFailed: any code of `errors.CODES`.
        """
        if method in self._whole:
            return await self._whole[method]()
        if method == "cache":
            return await self._sidecars(params)
        if method == "stores":
            await self._ready(Budget.lasting(self.settings.search.deadline_s), sync=False)
            return self.stores(params)
        budget = self._budget(params.deadline_ms)
        await self._ready(budget, sync=params.sync)
        if method in self._reported:
            return await self._reported[method](params, budget, report)
        return await self._asked[method](params, budget)

    async def _sidecars(self, params: protocol.CacheParams) -> protocol.CacheResult:
        keeper = self._keeper
        freed_bytes = await keeper.clear() if params.clear else 0
        return protocol.CacheResult(
            directory=catalog.shown(str(keeper.directory)),
            bytes=keeper.size_bytes,
            limit_bytes=keeper.limit_bytes,
            freed_bytes=freed_bytes,
            error=keeper.error,
            entries=await keeper.entries(self.inventory.in_order()),
        )

    async def rescan(self) -> Changes:
        """Look at every directory now, and try stores again that were left alone."""
        self._fanout.health.forgive()
        return await self.inventory.look(now=True)

    def _budget(self, deadline_ms: int | None) -> Budget:
        if deadline_ms is None:
            return Budget.lasting(self.settings.search.deadline_s)
        if deadline_ms <= 0:
            raise RequestFailed("invalid_params", "`deadline_ms` must be positive")
        return Budget.lasting(min(deadline_ms / 1_000, _LONGEST_S))

    async def _ready(self, budget: Budget, *, sync: bool) -> None:
        """Wait for the first look, or with *sync* for one that begins now."""
        if not sync and self.inventory.is_settled:
            return
        with anyio.move_on_after(budget.remaining()) as scope:
            if sync:
                await self.inventory.look(now=True)
                # A look does not wait for a store that takes long to open, but whoever wants the latest does.
                with anyio.move_on_after(budget.remaining() / 2):
                    await self.inventory.all_opened()
            else:
                await self.inventory.is_ready.wait()
                # After a start with many new stores; what is not open by then is named in the answer.
                with anyio.move_on_after(budget.remaining() / 2):
                    await self.inventory.first_opened()
        if scope.cancelled_caught:  # before the first look nobody knows whether a store exists
            raise RequestFailed(
                "deadline_exceeded",
                "looking at the stores took longer than the deadline",
                "raise deadline_ms",
            )


def _is_lasting(params: Any, result: Any) -> bool:
    """Tell whether the stores alone made *result* what it is: a model that failed may not the next time."""
    is_hybrid = getattr(params, "mode", "lexical") == "hybrid"
    return bool(result.complete) and not (is_hybrid and result.hint)


def _rss_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # not Linux: the peak, in bytes on macOS
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * resource.getpagesize()
