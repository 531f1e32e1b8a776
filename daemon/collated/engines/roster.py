"""Which workers there are and whose turn it is: as few as will do, and who asks first is served first.

A thread of its own starts and buries processes, for the kernel ends a process with the thread that started
it, and the threads that ask come and go.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from collated_readers import Budget, StoreError

from .process import Process

__all__ = ["Counts", "Roster", "chosen", "crashed", "to_start", "too_late"]

_POLL_S = 0.02  # how soon it is seen that a budget was cancelled
_BURYING_S = 0.1  # how soon it is seen that a process has ended
_ENDING_S = 5.0
_STARTING_S = 30.0  # a process that is not ready by then hangs


class Counts(Struct, frozen=True):
    """How many processes there are, at work, and have been started; and how many threads wait for one."""

    processes: int
    busy: int
    waiting: int
    started: int
    resident_bytes: int


class _Ticket:
    """A place in the queue: `ready` once there is a process for it, or none can be had."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.process: Process | None = None
        self.error: Exception | None = None


def crashed(what: str) -> StoreError:
    """Return the error of a question whose worker is no more."""
    return StoreError("engine_crashed", f"the process that reads the store {what}")


def too_late(message: str) -> StoreError:
    """Return the error of a question whose budget has ended."""
    return StoreError("deadline_exceeded", message)


def chosen(roots: Sequence[str], root: str) -> int:
    """Return which of the idle to take, longest idle first: the last that served *root*, else the last. Pure.

    So those that are not needed stay idle until they end.
    """
    same = (index for index in reversed(range(len(roots))) if roots[index] == root)
    return next(same, len(roots) - 1)


def to_start(waiting: int, starting: int, processes: int, limit: int) -> int:
    """Return how many to start beside *processes*, some of them *starting*: one for each who waits. Pure."""
    return max(0, min(waiting - starting, limit - processes))


def _wait_in_line(ticket: _Ticket, budget: Budget) -> None:
    while not ticket.ready.wait(min(_POLL_S, budget.remaining())):
        if budget.is_spent():
            raise too_late("all workers were at work until the deadline")


class Roster:
    """The processes of one kind; blocking, safe to use from many threads at once."""

    def __init__(self, start: Callable[[], Process], limit: int, idle_s: float) -> None:
        """Have at most *limit* processes, each ended after *idle_s* without anything to do."""
        self._start = start
        self._limit = limit
        self._idle_s = idle_s
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._idle: list[Process] = []  # longest idle first
        self._living: set[Process] = set()
        self._dying: list[Process] = []
        self._waiting: deque[_Ticket] = deque()
        self._unstarted = 0  # that the thread is to start
        self._starting = 0  # with the one that it is at
        self._started = 0
        self._is_closed = False

    def counts(self) -> Counts:
        """Return how many there are."""
        with self._changed:
            living, idle, waiting = list(self._living), len(self._idle), len(self._waiting)
        resident_bytes = sum(process.resident_bytes for process in living)
        return Counts(len(living), len(living) - idle, waiting, self._started, resident_bytes)

    def acquire(self, root: str, budget: Budget) -> Process:
        """Return a process that nobody else has until it is released or retired.

        Raises:
            StoreError: `deadline_exceeded` when the budget ends first; `engine_crashed` when none can be
                started.
        """
        with self._changed:
            if self._idle:
                return self._idle.pop(chosen([process.root for process in self._idle], root))
            self._have_thread()
            ticket = _Ticket()
            self._waiting.append(ticket)
            self._start_for_waiting()
        try:
            _wait_in_line(ticket, budget)
        except BaseException:
            self._leave(ticket)
            raise
        if ticket.process is None:
            raise crashed(f"could not be started: {ticket.error or 'collated is ending'}")
        return ticket.process

    def release(self, process: Process) -> None:
        """Let others have *process*, unless it has been starting for too long."""
        with self._changed:
            if process.confinement is None and time.monotonic() - process.started > _STARTING_S:
                self._bury(process)
            else:
                self._hand_over(process)

    def retire(self, process: Process) -> None:
        """End *process*, whatever it is at, and have another one started if somebody waits."""
        with self._changed:
            self._bury(process)

    def close(self) -> None:
        """End all processes and wait until they are gone; safe to call again.

        Whoever asks one sees it die, and retires it.
        """
        with self._changed:
            self._is_closed = True
            while self._idle:
                self._bury(self._idle.pop())
            for process in self._living:
                process.kill()
            while self._waiting:
                self._waiting.popleft().ready.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_ENDING_S)

    # ----------------------------------------------------------------------- with the lock held

    def _hand_over(self, process: Process) -> None:
        """Give a process to whoever has waited longest, or let it be idle."""
        if self._is_closed:
            self._bury(process)
        elif self._waiting:
            ticket = self._waiting.popleft()
            ticket.process = process
            ticket.ready.set()
        else:
            self._idle.append(process)

    def _bury(self, process: Process) -> None:
        process.close()
        self._living.discard(process)
        self._dying.append(process)
        self._start_for_waiting()
        self._changed.notify()

    def _start_for_waiting(self) -> None:
        if self._is_closed:
            while self._waiting:
                self._waiting.popleft().ready.set()
            return
        processes = len(self._living) + self._starting
        more = to_start(len(self._waiting), self._starting, processes, self._limit)
        self._unstarted += more
        self._starting += more
        if more:
            self._changed.notify()

    def _have_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._tend, name="engines", daemon=True)
            thread.start()
            self._thread = thread

    # ----------------------------------------------------------------------- the other side

    def _leave(self, ticket: _Ticket) -> None:
        with self._changed:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            elif ticket.process is not None:  # it came at the last moment
                self._hand_over(ticket.process)

    def _tend(self) -> None:
        while self._wait():
            with self._changed:
                has_to_start = self._unstarted > 0 and not self._is_closed
                self._unstarted -= has_to_start
            if has_to_start:
                self._start_one()
            with self._changed:
                self._end_idle()
                self._dying = [process for process in self._dying if not process.is_gone()]

    def _wait(self) -> bool:
        """Wait until there may be something to do; False when there never will be."""
        with self._changed:
            if not self._unstarted and not self._is_closed:
                look_s = self._idle_s / 4 if self._living else None
                self._changed.wait(_BURYING_S if self._dying else look_s)
            elif self._is_closed:
                self._changed.wait(_POLL_S)
            return not self._is_closed or bool(self._living or self._dying)

    def _start_one(self) -> None:
        try:
            process = self._start()
        except Exception as error:  # noqa: BLE001 - told to who waits; the thread must go on
            with self._changed:
                self._starting -= 1
                if self._waiting:
                    ticket = self._waiting.popleft()
                    ticket.error = error
                    ticket.ready.set()
                self._start_for_waiting()
            return
        with self._changed:
            self._starting -= 1
            self._started += 1
            self._living.add(process)
            self._hand_over(process)

    def _end_idle(self) -> None:
        since = time.monotonic() - self._idle_s
        while self._idle and self._idle[0].used < since:
            self._bury(self._idle.pop(0))
