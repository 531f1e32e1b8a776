"""The daemon put together: parts, signals, reload, drain (DESIGN §8)."""

import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import msgspec
import structlog

from collated_readers.contextful.reader import Contextful
from collated_readers.opening import sweep_copies
from collated_readers.registry import READERS

from .cache import Cache
from .claim import Claim
from .corpora import Corpora
from .embedding import Embedders
from .engines.workers import Workers
from .errors import CollatedError, ConfigError, RequestFailed
from .examining import Examining
from .fanout import Fanout
from .inventory import Inventory
from .methods import Methods
from .places import cache_dir, config_file, load_settings, socket_path, state_dir, stores_dir
from .pool import Pool
from .protocol import ReloadResult
from .server import Server
from .service import Notifier, activated_sockets, give_back_memory, raise_descriptor_limit
from .settings import Settings
from .sidecars.keeper import Keeper
from .state import Memory

__all__ = ["run"]

log = structlog.get_logger()

EXIT_UNANSWERED = 1
EXIT_REFUSED = 78  # EX_CONFIG: trying again will not help
_STATUS_S = 5.0
# Where arrays answer for all, most stores are opened once and never asked again; a few were asked just now.
_IDLE_S, _BRIEF_S = 120.0, 20.0
_MANY = 32
# What needs a restart to take effect.
_FIXED = frozenset({"server.socket", "discovery.events", "search.max_open_stores"})


def run(
    settings: Settings,
    *,
    config: Path | None,
    environ: Mapping[str, str],
    socket: str = "",
    idle_exit_s: float = 0.0,
) -> int:
    """Serve until a signal or `idle_exit_s` ends it, and return the exit code.

    *config* is the file that a reload reads again, None for the default one; *socket* overrides the
    configured path; *idle_exit_s* is for a daemon that a client started, where nothing is configured.
    """
    configure_logging()
    try:
        path = Path(socket) if socket else socket_path(environ, settings.server.socket)
        daemon = _Daemon(settings, config, environ, path, settings.server.idle_exit_s or idle_exit_s)
        return anyio.run(daemon.main, backend_options={"use_uvloop": _has_uvloop()})
    except CollatedError as error:
        log.error("start_refused", code=error.code, message=str(error))  # noqa: TRY400 - a person reads this line
        return EXIT_REFUSED


class _Daemon:
    """One run of the daemon."""

    def __init__(
        self,
        settings: Settings,
        config: Path | None,
        environ: Mapping[str, str],
        path: Path,
        idle_exit_s: float,
    ) -> None:
        self._config = config
        self._environ = environ
        self._path = path
        self._idle_exit_s = idle_exit_s
        copies = cache_dir(environ) / "copies"
        sweep_copies(copies)
        self._memory = Memory(state_dir(environ) / "state.sqlite")
        # An open store takes up to three descriptors, and clients need some too.
        most = max(1, raise_descriptor_limit() // 4)
        self._pool = Pool(copies, settings.cache.copy_limit_bytes, min(settings.search.max_open_stores, most))
        self._cache = Cache(settings.cache.answers_bytes)
        self._engine = Workers(environ=environ)
        readers = (Contextful(self._engine), *READERS)
        self._inventory = Inventory(settings, stores_dir(environ), self._pool, self._memory, readers)
        self._keeper = Keeper(cache_dir(environ) / "sidecars", copies, settings.cache)
        self._examining = Examining(self._inventory, copies)
        self._examining.copy_limit_bytes = settings.cache.copy_limit_bytes
        self._embedders = Embedders(settings.embedding, environ)
        self._methods = Methods(
            settings,
            inventory=self._inventory,
            fanout=Fanout(self._inventory, self._pool),
            cache=self._cache,
            memory=self._memory,
            corpora=Corpora(self._inventory, self._keeper),
            keeper=self._keeper,
            examining=self._examining,
            embedders=self._embedders,
            engine=self._engine,
            socket=path,
            reload=self.reload,
        )
        read = config or config_file(environ)
        self._methods.config = str(read) if read.exists() else None
        self._server = Server(self._methods)
        self._notifier = Notifier.from_environ(environ)
        self._stopped = anyio.Event()

    async def main(self) -> int:
        """Serve; return 0, or 1 when requests were left unanswered."""
        async with AsyncExitStack() as stack:
            listeners = activated_sockets(self._environ)
            if not listeners:
                listeners = [stack.enter_context(Claim(self._path)).listen()]
            stack.push_async_callback(self._memory.close)
            stack.push_async_callback(self._pool.close)
            stack.push_async_callback(self._embedders.close)
            stack.push_async_callback(anyio.to_thread.run_sync, self._engine.close)
            tasks = await stack.enter_async_context(_cancelled_at_exit())
            tasks.start_soon(self._inventory.run)
            tasks.start_soon(self._keep)
            tasks.start_soon(self._examining.run)
            for listener in listeners:
                tasks.start_soon(self._server.run, listener)
            await tasks.start(self._signals)
            tasks.start_soon(self._heartbeat)
            log.info("listening", socket=str(self._path), pid=os.getpid())
            self._notifier.ready("looking for stores")
            await self._stopped.wait()
            self._notifier.stopping()
            unanswered = await self._server.drain(self._methods.settings.server.drain_s)
        log.info("stopped", unanswered=unanswered)
        return EXIT_UNANSWERED if unanswered else 0

    async def _keep(self) -> None:
        """Keep sidecars of whatever stores there are."""
        inventory = self._inventory
        inventory.listeners.add(lambda _: self._keeper.wake())

        async def are_known() -> None:
            await inventory.is_ready.wait()
            await inventory.first_opened()

        await self._keeper.run(lambda: list(inventory.stores.values()), are_known)

    async def reload(self) -> ReloadResult:
        """Read the configuration again; the old one stays when the new one is refused.

        Raises:
            RequestFailed: `invalid_params` with what is wrong in the file.
        """
        self._notifier.reloading()
        try:
            settings = await anyio.to_thread.run_sync(load_settings, self._config, self._environ)
            self._methods.config_error = None
        except ConfigError as error:
            self._methods.config_error = str(error)
            log.error("reload_refused", message=str(error))  # noqa: TRY400 - a person reads this line
            raise RequestFailed(
                "invalid_params", str(error), "the old configuration is still in force"
            ) from error
        finally:
            self._notifier.ready(self._status_line())
        changed = _changed(self._methods.settings, settings)
        self._methods.settings = settings
        self._cache.resize(0)  # another model may answer otherwise
        self._cache.resize(settings.cache.answers_bytes)
        self._pool.copy_limit_bytes = settings.cache.copy_limit_bytes
        self._keeper.adopt(settings.cache)
        self._examining.copy_limit_bytes = settings.cache.copy_limit_bytes
        self._embedders.adopt(settings.embedding)
        self._inventory.adopt(settings)
        stores = await self._methods.rescan()
        for key in _FIXED.intersection(changed):
            log.warning("restart_needed", key=key)
        log.info("reloaded", changed=changed)
        return ReloadResult(changed, stores)

    async def _signals(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            task_status.started()
            async with anyio.create_task_group() as reloads:  # a slow one must not hold up a stop
                async for number in received:
                    if number == signal.SIGHUP:
                        reloads.start_soon(self._reload_by_signal)
                    else:
                        self._stopped.set()

    async def _reload_by_signal(self) -> None:
        try:
            await self.reload()
        except RequestFailed:
            log.debug("reload_refused_by_signal")  # said in full where it happened

    async def _heartbeat(self) -> None:
        """Keep the watchdog quiet, the status line true, and leave when nobody has come for long."""
        every = min(self._notifier.watchdog_s or _STATUS_S, _STATUS_S, self._idle_exit_s or _STATUS_S)
        gauges = self._methods.gauges
        closed = 0
        while True:
            self._notifier.alive()
            self._notifier.status(self._status_line())
            if closed > _MANY:  # the last time, so that they are closed by now
                await anyio.to_thread.run_sync(give_back_memory)
            closed = self._pool.close_idle(_IDLE_S)
            if self._keeper.is_done:
                closed += self._pool.close_idle(_BRIEF_S, but=_MANY)
            await anyio.sleep(every)
            idle = time.monotonic() - gauges.last_used
            if self._idle_exit_s and not gauges.connections and idle >= self._idle_exit_s:
                log.info("idle_exit", idle_s=round(idle))
                self._stopped.set()
                return

    def _status_line(self) -> str:
        states = [store.state.value for store in self._inventory.stores.values()]
        line = f"{states.count('open')} of {len(states)} stores open"
        error = self._methods.config_error
        return f"{line}; configuration refused: {error}" if error else line


@asynccontextmanager
async def _cancelled_at_exit() -> AsyncGenerator[anyio.abc.TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


def _changed(before: Settings, after: Settings) -> list[str]:
    """Return the keys whose values differ, `section.key` or the name of a list."""
    old, new = _flat(before), _flat(after)
    return sorted(key for key in new if new[key] != old[key])


def _flat(settings: Settings) -> dict[str, object]:
    values: dict[str, object] = {}
    for section in settings.__struct_fields__:
        value = getattr(settings, section)
        if isinstance(value, msgspec.Struct):
            values |= {f"{section}.{key}": getattr(value, key) for key in value.__struct_fields__}
        else:
            values[section] = value
    return values


def _has_uvloop() -> bool:
    from importlib.util import find_spec

    return find_spec("uvloop") is not None


def configure_logging() -> None:
    """Log to standard error: words for a person at a terminal, JSON for everything else."""
    is_terminal = sys.stderr.isatty()
    renderer = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if is_terminal
        else (structlog.processors.JSONRenderer())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            *([structlog.processors.TimeStamper(fmt="iso")] if "JOURNAL_STREAM" not in os.environ else []),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
