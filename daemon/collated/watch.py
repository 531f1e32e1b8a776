"""Says "look again", and nothing more (DESIGN §4).

One watchfiles task for all directories, not recursive. What changed is found by a scan, so a lost,
doubled or misleading event costs time at most, never correctness.
"""

import os
from collections.abc import Callable, Iterable

import anyio
import structlog
from watchfiles import Change, awatch  # pyright: ignore[reportUnknownVariableType] - names trio

__all__ = ["Watch"]

log = structlog.get_logger()

# watchfiles: how long events are gathered, and how often it looks whether more came.
_DEBOUNCE_MS = 40
_STEP_MS = 10
# The native watcher notices a cancelled task only when its own wait ends; `stop_event` is the quick way.
_RUST_TIMEOUT_MS = 1_000
# When a new watch is surely armed: what happened between the scan that asked for it and then is unreported.
_ARMING_S = 0.1
# After a failed watch (a limit, a directory that went away) try again so often; rescans go on meanwhile.
_RETRY_S = 5.0


class Watch:
    """Watches a set of directories that may change at any time.

    It calls *wake* after every batch of events, and when watching begins to fail.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Call *wake* on the event loop; it must not block."""
        self._wake = wake
        self._directories: frozenset[str] = frozenset()
        self._has_lost_one = False
        self._stop = anyio.Event()
        self.error: str | None = None
        self.batches = 0

    @property
    def directories(self) -> frozenset[str]:
        """Return the directories that are to be watched."""
        return self._directories

    def cover(self, directories: Iterable[str]) -> bool:
        """Watch *directories* from now on; tell whether that begins a new watch.

        What happens until the new watch is armed is not reported: the caller looks again after it.
        """
        wanted = frozenset(directories)
        if wanted == self._directories and not self._has_lost_one:
            return False
        self._directories = wanted
        self._stop.set()
        return True

    async def run(self) -> None:
        """Watch until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stop_at_cancellation)
            await self._run()

    async def _stop_at_cancellation(self) -> None:
        # The native watcher's thread does not see a cancellation, and its own task waits for the thread.
        try:
            await anyio.sleep_forever()
        finally:
            self._stop.set()

    async def _run(self) -> None:
        while True:
            self._stop = anyio.Event()
            try:
                await self._watch_once()
            except Exception as raised:  # noqa: BLE001 - watchfiles raises its own, OSError and RuntimeError alike
                error = _cause(raised)
                if "Unable to decode path" in str(error):  # news of a name that is not UTF-8 ends the watch
                    self._wake()
                    continue
                if self.error is None:
                    self._wake()  # who looks now and then has to look often from here on
                self.error = _advice(error)
                log.warning("watch_failed", error=self.error, directories=len(self._directories))
                with anyio.move_on_after(_RETRY_S):
                    await self._stop.wait()

    async def _watch_once(self) -> None:
        present = [path for path in self._directories if os.path.isdir(path)]  # noqa: ASYNC240, PTH112 - one stat
        self._has_lost_one = len(present) < len(self._directories)
        if not present:
            await self._stop.wait()
            return
        batches = awatch(
            *present,
            watch_filter=_is_news,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self._stop,
            rust_timeout=_RUST_TIMEOUT_MS,
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_once_armed)
            async for batch in batches:
                self.error = None
                if batch:
                    # One that was removed and made again at once is another, which nobody watches yet.
                    self._has_lost_one |= any(
                        change is Change.deleted and path in self._directories for change, path in batch
                    )
                    self.batches += 1
                    self._wake()
            tasks.cancel_scope.cancel()

    async def _look_once_armed(self) -> None:
        await anyio.sleep(_ARMING_S)
        self._wake()


def _is_news(_: Change, path: str) -> bool:
    # Reading a store in WAL mode touches its -shm; that is never news.
    return not path.endswith("-shm")


def _cause(error: BaseException) -> BaseException:
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())  # a task group's, or it is the cause
    return _cause(inner[0]) if inner else error


def _advice(error: BaseException) -> str:
    text = str(error)
    if "limit reached" in text or "Too many open files" in text:
        return f"{text}; raise fs.inotify.max_user_watches or max_user_instances (sysctl)"
    return text
