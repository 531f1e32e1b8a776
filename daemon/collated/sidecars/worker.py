"""The process that makes the files.

    python -P -m collated.sidecars.worker DIRECTORY COPIES COPY_LIMIT_BYTES DATA_LIMIT_BYTES

Jobs come in on standard input, what became of them goes out on standard output. It ends as soon as its
input does, whatever it is at, so none is left when a daemon is killed; killed itself, it leaves a
half-written file under a name that nobody believes, for the next sweep.

It is polite: niceness 19, and `SCHED_BATCH`, so that it never takes a core from a request that wakes up.
Not `SCHED_IDLE`: on a busy machine that may not run for minutes, while a store's lock is held or a
private copy lies about. And it is bounded: what does not fit into DATA_LIMIT_BYTES of memory is not built.
"""

import errno
import os
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from collated_readers import Budget, StoreError
from collated_readers.opening import StoreConnection, StoreMoved, ask, open_store, take_signature
from collated_readers.postings import Postings
from collated_readers.registry import recognised

from .combining import combine
from .jobs import Build, Combine, Done, Job, Refusal, Source, read_message, write_message
from .layout import LayoutError, load_segment, write_segment
from .segment import Segment, index_store

__all__ = ["Workshop", "main"]

# However large a store is. One that has its writer wait for us while it is read is given less.
_READING_S = 300.0
_LOCKED_READING_S = 2.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Refused(Exception):
    """A store that is not built, for a reason that is no fault of it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Workshop:
    """Does jobs, one after the other, in the calling thread."""

    def __init__(self, directory: Path, copies: Path, copy_limit_bytes: int) -> None:
        """Put files into *directory*, and private copies of stores into *copies*."""
        self._directory = directory
        self._copies = copies
        self._copy_limit_bytes = copy_limit_bytes

    def do(self, job: Job) -> Done:
        """Return what became of *job*; nothing that goes wrong with it is raised."""
        began = time.monotonic()
        try:
            done = self._build(job) if isinstance(job, Build) else self._combine(job)
        except OSError as error:
            is_full = error.errno in _NO_ROOM
            done = Done(code="disk_full" if is_full else "io_error", message=error.strerror or str(error))
        except MemoryError:
            done = Done(code="memory", message="it takes more memory than the worker has")
        except Exception as error:  # noqa: BLE001 - one job's fault must not end the worker
            traceback.print_exc()
            done = Done(code="internal", message=f"{type(error).__name__}: {error}")
        return msgspec.structs.replace(done, seconds=round(time.monotonic() - began, 4))

    def _build(self, job: Build) -> Done:
        refusals: list[Refusal] = []
        parts: list[Segment] = []
        for source in job.sources:
            try:
                parts.append(self._index(source))
            except Exception as error:  # noqa: BLE001 - one store's fault must not cost the others theirs
                refusals.append(_refusal(source, error, is_alone=len(job.sources) == 1))
        if not parts:
            return Done(refusals=refusals)
        segment = parts[0] if len(parts) == 1 else combine([(part, (0,)) for part in parts])
        return Done(write_segment(segment, self._directory, serial=job.serial).name, refusals)

    def _index(self, source: Source) -> Segment:
        budget = Budget.lasting(_READING_S)
        path = Path(os.fsdecode(source.path))
        if take_signature(path) != source.signature:  # whatever is wrong with it now, it is another one
            raise StoreMoved
        db = open_store(
            path,
            copies=self._copies,
            copy_limit_bytes=self._copy_limit_bytes,
            budget=budget,
        )
        try:
            if db.signature != source.signature:
                raise StoreMoved
            if db.mode == "rollback":
                budget = Budget.lasting(_LOCKED_READING_S)
            # Everything is read before anything is made of it: a writer may be waiting for our lock.
            postings, texts = ask(db, lambda db: _read(db, source), budget)
        finally:
            db.close()
        return index_store(source.fingerprint, source.format, postings, texts)

    def _combine(self, job: Combine) -> Done:
        parts: list[tuple[Segment, list[int]]] = []
        damaged: list[str] = []
        for name, slots in job.parts:
            try:
                parts.append((load_segment(self._directory / name, self._directory).segment, slots))
            except (LayoutError, FileNotFoundError):
                damaged.append(name)
        if damaged:
            return Done(damaged=damaged, code="damaged", message="files of the cache directory are damaged")
        return Done(write_segment(combine(parts), self._directory, serial=job.serial).name)


def _read(db: StoreConnection, source: Source) -> tuple[Postings, list[bytes]]:
    reader = recognised(db)
    if reader.format != source.format:
        raise StoreMoved
    postings = reader.postings(db)
    if postings is None:
        raise _Refused("not_offered", "the store has no index of a kind that is known here")
    texts: list[bytes] = []
    for row, (record_id, text) in enumerate(reader.texts(db)):
        if row >= len(postings.ids) or record_id != postings.ids[row]:
            raise StoreError("damaged", "the index and the records do not agree")
        texts.append(text)
    if len(texts) != len(postings.ids):
        raise StoreError("damaged", "the index and the records do not agree")
    return postings, texts


def _refusal(source: Source, error: Exception, *, is_alone: bool) -> Refusal:
    # Readers turn what SQLite says when it is out of memory into a fault of the store.
    if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
        code = "too_large" if is_alone else "memory"
        return Refusal(source.fingerprint, code, "it takes more memory than the worker has")
    if isinstance(error, StoreError | _Refused):
        return Refusal(source.fingerprint, error.code, error.message)
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return Refusal(source.fingerprint, "disk_full", "no room for a private copy of the store")
    traceback.print_exception(error)
    return Refusal(source.fingerprint, "internal", f"{type(error).__name__}: {error}")


# --------------------------------------------------------------------------- the process


def main(directory: str, copies: str, copy_limit_bytes: str, data_limit_bytes: str) -> None:
    """Do what comes in until nothing more does."""
    _give_way(int(data_limit_bytes))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything here might print is no reply
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, jobs.put), daemon=True).start()
    workshop = Workshop(Path(directory), Path(copies), int(copy_limit_bytes))
    while True:
        done = workshop.do(jobs.get())
        try:
            write_message(replies, done)
        except OSError:  # the daemon has gone
            os._exit(0)


def _give_way(data_limit_bytes: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # meant for the daemon, which ends us
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError, AttributeError):  # forbidden by whoever confines us, or not Linux
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(OSError):  # should memory be short, rather us than anybody else
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    with suppress(OSError, ValueError):  # there is a lower limit already
        resource.setrlimit(resource.RLIMIT_DATA, (data_limit_bytes, data_limit_bytes))


def _listen(stream: BinaryIO, put: Callable[[Job], None]) -> None:
    while (body := read_message(stream)) is not None:
        put(msgspec.msgpack.decode(body, type=Job))
    os._exit(0)  # whatever the other thread is at: no file is believed before it is whole


if __name__ == "__main__":
    main(*sys.argv[1:])
