"""Has questions answered by worker processes, which die in its place and are killed when time is up."""

import os
import threading
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from collated_readers import Budget, RequestError, StoreError
from collated_readers.contextful.refusals import refused

from .jobs import Answer, Confinement, Fault
from .process import Died, NotReady, Overdue, Process
from .roster import Roster, crashed, too_late

__all__ = ["HANDLER", "Limits", "Stats", "Workers"]

HANDLER = "collated_readers.contextful.serving:Service"
_ENGINE = "duckdb"

log = structlog.get_logger()


class Limits(Struct, frozen=True):
    """What workers may take: *memory_bytes* each, *processes* at once.

    A worker has *grace_s* after a deadline to say so itself before it is killed. It is replaced after *jobs*
    of them, or when it holds more than half its memory after one, and ends after *idle_s* without any.
    """

    memory_bytes: int = 1 << 30
    processes: int = (os.cpu_count() or 1) + 2
    jobs: int = 1000
    idle_s: float = 60.0
    grace_s: float = 0.1


class Stats(Struct, frozen=True):
    """How the workers are, for `status`; counts are since the start.

    *confinement* is that of the worker that answered last, None before the first.
    """

    is_available: bool
    limit: int
    processes: int
    busy: int
    waiting: int
    resident_bytes: int
    started: int
    killed: int
    crashed: int
    retired: int
    confinement: Confinement | None


class Workers:
    """Asks workers; blocking, safe to use from many threads at once."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        handler: str = HANDLER,
        engine: str = _ENGINE,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Have *handler* asked, which needs the module *engine*. Nothing is started before it is."""
        self.limits = limits or Limits()
        self.is_available = find_spec(engine) is not None
        memory_bytes = self.limits.memory_bytes
        given = os.environ if environ is None else environ
        self._engine = engine
        self._roster = Roster(
            lambda: Process(memory_bytes, handler, given), self.limits.processes, self.limits.idle_s
        )
        self._lock = threading.Lock()  # of what follows
        self._ended = Counter[str]()
        self._confinement: Confinement | None = None

    def ask(self, tool: str, root: str, params: dict[str, Any], budget: Budget) -> Any:
        """Return what the handler answers, in a worker.

        Raises:
            RequestError: the handler's own; `ReadBackendAbsent` where the engine is not installed;
                `invalid_params` for what cannot be passed on to a worker.
            StoreError: the handler's own; `deadline_exceeded` when the budget ended, be it 0.3 s ago;
                `engine_crashed` when the worker died over it; `engine_memory` when it takes more than a
                worker has; `internal`.
        """
        if not self.is_available:
            raise refused(
                "ReadBackendAbsent", f"{self._engine} is not installed", "install collated[contextful]"
            )
        budget.check()
        _check_sayable(params)
        while (answer := self._try(tool, root, params, budget)) is None:
            pass
        if answer.fault is None:
            return answer.result
        raise _error(answer.fault, tool)

    def stats(self) -> Stats:
        """Return how they are."""
        counts = self._roster.counts()
        return Stats(
            is_available=self.is_available,
            limit=self.limits.processes,
            processes=counts.processes,
            busy=counts.busy,
            waiting=counts.waiting,
            resident_bytes=counts.resident_bytes,
            started=counts.started,
            killed=self._ended["killed"],
            crashed=self._ended["crashed"],
            retired=self._ended["retired"],
            confinement=self._confinement,
        )

    def close(self) -> None:
        """End all workers, whatever they are at, and wait until they are gone; safe to call again."""
        self._roster.close()

    def _try(self, tool: str, root: str, params: dict[str, Any], budget: Budget) -> Answer | None:
        """Return a worker's answer, None if it had died before it was asked: that is no concern of ours."""
        process = self._roster.acquire(root, budget)
        was_ready = process.confinement is not None
        try:
            answer = process.ask(tool, root, params, budget, self.limits.grace_s)
        except NotReady as error:
            self._roster.release(process)
            raise too_late("no worker was ready before the deadline") from error
        except Overdue as error:
            self._end(process, "killed")
            log.info("engine_killed", tool=tool, is_cancelled=budget.cancelled)
            raise too_late("the store did not answer in time") from error
        except Died as error:
            self._end(process, "crashed")
            log.warning("engine_crashed", tool=tool, reason=str(error), had_begun=error.had_begun)
            if was_ready and not error.had_begun:
                return None
            raise crashed("ended while it was asked") from error
        except BaseException:
            self._roster.retire(process)
            raise
        self._confinement = process.confinement
        if answer.is_last or self._is_spent(process):
            self._end(process, "retired")
        else:
            self._roster.release(process)
        return answer

    def _end(self, process: Process, how: str) -> None:
        self._roster.retire(process)
        with self._lock:
            self._ended[how] += 1

    def _is_spent(self, process: Process) -> bool:
        return process.jobs >= self.limits.jobs or process.resident_bytes > self.limits.memory_bytes // 2


def _check_sayable(params: dict[str, Any]) -> None:
    """Raise `invalid_params` for what JSON can say and MessagePack cannot: a number of 65 bits, say."""
    try:
        msgspec.msgpack.encode(params)
    except (OverflowError, RecursionError, ValueError) as error:
        raise RequestError("invalid_params", f"an argument cannot be passed on: {error}") from error


def _error(fault: Fault, tool: str) -> RequestError | StoreError:
    if fault.kind == "request":
        return RequestError(fault.code, fault.message, fault.suggestion)
    if fault.kind == "internal":
        log.error("engine_fault", tool=tool, trace=fault.trace)
    return StoreError(fault.code, fault.message)
