"""The worker: what it makes of stores, what it refuses, and that nothing which becomes of it does harm."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from collated.sidecars.child import Child, WorkerDied, command_of
from collated.sidecars.combining import combine
from collated.sidecars.jobs import Build, Combine, Done, Refusal, Source, write_message
from collated.sidecars.layout import load_segment, segment_names, sweep
from collated.sidecars.segment import Segment, index_store
from collated.sidecars.worker import Workshop
from collated_readers.contextpull import ContextPull
from collated_readers.opening import take_signature

if TYPE_CHECKING:
    from tests.conftest import OpenStore, Snapshot, Sql
    from tests.daemon.conftest import PutStore

pytestmark = pytest.mark.slow

GIB = 1 << 30


def source(path: Path, fingerprint: str | None = None) -> Source:
    return Source(os.fsencode(path), take_signature(path), fingerprint or path.stem, "contextpull")


def is_same(one: Segment, other: Segment) -> bool:
    return one.pieces == other.pieces and all(
        array.dtype == other.arrays[name].dtype and array.tobytes() == other.arrays[name].tobytes()
        for name, array in one.arrays.items()
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory that files are put into."""
    path = tmp_path / "sidecars"
    path.mkdir()
    return path


@pytest.fixture
def workshop(directory: Path, tmp_path: Path) -> Workshop:
    return Workshop(directory, tmp_path / "copies", GIB)


@pytest.fixture
def fruit(put_store: PutStore, tmp_path: Path) -> Path:
    return put_store(tmp_path / "stores" / "fruit.sqlite", "fruit")


@pytest.fixture
def trees(put_store: PutStore, tmp_path: Path) -> Path:
    return put_store(tmp_path / "stores" / "trees.sqlite", "trees")


@pytest.fixture
def indexed(open_at: OpenStore) -> Callable[[Path], Segment]:
    """`indexed(path)` makes the segment of a store as the worker should."""

    def make(path: Path) -> Segment:
        db, reader = open_at(path), ContextPull()
        postings = reader.postings(db)
        assert postings is not None
        return index_store(path.stem, "contextpull", postings, [text for _, text in reader.texts(db)])

    return make


Start = Callable[..., Child]


@pytest.fixture
def start(directory: Path, tmp_path: Path) -> Iterator[Start]:
    """`start(data_limit_bytes)` starts a worker process, which is ended with the test."""
    started: list[Child] = []

    def begin(data_limit_bytes: int = GIB) -> Child:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        child = Child(command_of(directory, tmp_path / "copies", GIB, data_limit_bytes), environ)
        started.append(child)
        return child

    yield begin
    for child in started:
        child.close()


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory, put_store: PutStore) -> Path:
    """A store that takes a worker a second or more; sound, of 5,003 sections."""
    path = put_store(tmp_path_factory.mktemp("large") / "large.sqlite", "fruit")
    text = " ".join(f"word{number}" for number in range(100))
    ids = [f"apple.md#{number}" for number in range(10, 5_010)]
    with sqlite3.connect(path) as db:
        db.executemany(
            "INSERT INTO sections VALUES (?, 1, ?, 'A', 1, 'prose', ?, 9, 'x', NULL, NULL)",
            [(record_id, number, text) for number, record_id in enumerate(ids, 10)],
        )
        db.executemany(
            "INSERT INTO sections_fts (id, heading_path, text) VALUES (?, 'A', ?)",
            [(record_id, text) for record_id in ids],
        )
    db.close()
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


# --------------------------------------------------------------------------- what is made


def test_a_store_becomes_a_file_that_holds_what_its_reader_says(
    workshop: Workshop, directory: Path, fruit: Path, indexed: Callable[[Path], Segment]
) -> None:
    done = workshop.do(Build([source(fruit)], serial=3))
    assert done.file is not None
    assert (done.refusals, done.code, list(segment_names(directory))) == ([], None, [done.file])
    loaded = load_segment(directory / done.file, directory)
    assert loaded.serial == 3
    assert is_same(loaded.segment, indexed(fruit))


def test_stores_of_a_batch_become_one_file_and_files_another(
    workshop: Workshop, directory: Path, fruit: Path, trees: Path, indexed: Callable[[Path], Segment]
) -> None:
    both = workshop.do(Build([source(fruit), source(trees)], serial=1))
    one = workshop.do(Build([source(trees, "again")], serial=2))
    assert both.file
    assert one.file
    loaded = load_segment(directory / both.file, directory).segment
    expected = combine([(indexed(fruit), (0,)), (indexed(trees), (0,))])
    assert is_same(loaded, expected)

    done = workshop.do(Combine([(both.file, [1]), (one.file, [0])], serial=3))

    assert done.file
    combined = load_segment(directory / done.file, directory)
    assert [piece.fingerprint for piece in combined.segment.pieces] == ["trees", "again"]
    assert combined.serial == 3
    assert len(segment_names(directory)) == 3  # whoever asked removes the old ones


def test_a_store_that_is_being_written_is_read_from_a_copy(
    workshop: Workshop, tmp_path: Path, fruit: Path, sql: Callable[[Path], Sql], snapshot: Snapshot
) -> None:
    other = sql(fruit)
    assert other.run("INSERT INTO meta VALUES ('x', 'y')") == "ok"
    before = snapshot(fruit.parent)
    assert workshop.do(Build([source(fruit)], serial=1)).file
    assert snapshot(fruit.parent) == before
    assert list((tmp_path / "copies").iterdir()) == []


@pytest.mark.parametrize("is_rollback", [True, False])
def test_nothing_is_left_beside_a_store(
    workshop: Workshop, fruit: Path, snapshot: Snapshot, is_rollback: bool
) -> None:
    if is_rollback:
        with sqlite3.connect(fruit) as db:
            db.execute("PRAGMA journal_mode = DELETE")
        db.close()
        os.utime(fruit, (1_000_000_000, 1_000_000_000))
    before = snapshot(fruit.parent)
    assert workshop.do(Build([source(fruit)], serial=1)).file
    assert snapshot(fruit.parent) == before


# --------------------------------------------------------------------------- what is refused


def _moved(path: Path) -> Source:
    return replace(source(path), signature=replace(take_signature(path), mtime_ns=1))


def _of_another_format(path: Path) -> Source:
    return replace(source(path), format="book-agent")


def _vanished(path: Path) -> Source:
    wanted = source(path)
    path.unlink()
    return wanted


def _no_store(path: Path) -> Source:
    path.write_bytes(b"no database " * 100)
    return source(path)


def _cut_short(path: Path) -> Source:
    os.truncate(path, path.stat().st_size // 2)
    return source(path)


def _with_another_index(path: Path) -> Source:
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE sections_fts")
        db.execute("CREATE VIRTUAL TABLE sections_fts USING fts5(id UNINDEXED, heading_path, text)")
    db.close()
    return source(path)


def _with_a_section_that_is_not_indexed(path: Path) -> Source:
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM sections WHERE rowid = (SELECT max(rowid) FROM sections)")
    db.close()
    return source(path)


REFUSED: dict[str, tuple[Callable[[Path], Source], set[str]]] = {
    "written since": (_moved, {"keeps_changing"}),
    "of another format": (_of_another_format, {"keeps_changing"}),
    "gone": (_vanished, {"vanished"}),
    "no store": (_no_store, {"not_sqlite"}),
    "cut short": (_cut_short, {"damaged"}),
    "with an index of another kind": (_with_another_index, {"not_offered"}),
    "with a section that is not indexed": (_with_a_section_that_is_not_indexed, {"damaged"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_store_that_cannot_be_indexed_is_refused_and_costs_no_other_store_anything(
    workshop: Workshop, directory: Path, fruit: Path, trees: Path, case: str
) -> None:
    spoil, codes = REFUSED[case]
    spoiled = spoil(fruit)
    if fruit.exists() and case != "written since":
        os.utime(fruit, (1_000_000_001, 1_000_000_001))
        spoiled = replace(spoiled, signature=take_signature(fruit))

    done = workshop.do(Build([spoiled, source(trees)], serial=1))

    (refusal,) = done.refusals
    assert refusal.fingerprint == "fruit"
    assert refusal.code in codes
    assert refusal.message
    assert done.file
    pieces = load_segment(directory / done.file, directory).segment.pieces
    assert [piece.fingerprint for piece in pieces] == ["trees"]
    assert workshop.do(Build([spoiled], serial=2)).file is None


def test_a_job_of_nothing_makes_nothing(workshop: Workshop, directory: Path) -> None:
    assert replace(workshop.do(Build([], serial=1)), seconds=0.0) == Done()
    assert segment_names(directory) == {}


def test_files_that_are_damaged_or_gone_are_named(
    workshop: Workshop, directory: Path, fruit: Path, trees: Path
) -> None:
    one, other = (workshop.do(Build([source(path)], serial=1)).file for path in (fruit, trees))
    assert one
    assert other
    os.truncate(directory / one, 100)
    done = workshop.do(Combine([(one, [0]), (other, [0]), ("gone.segment", [0])], serial=2))
    assert (done.file, done.code, done.damaged) == (None, "damaged", [one, "gone.segment"])


def test_a_full_disk_is_told_and_leaves_nothing(workshop: Workshop, directory: Path, fruit: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        done = workshop.do(Build([source(fruit)], serial=1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (done.file, done.code) == (None, "disk_full")
    assert list(directory.iterdir()) == []


def test_a_directory_that_is_gone_is_told(workshop: Workshop, directory: Path, fruit: Path) -> None:
    directory.rmdir()
    done = workshop.do(Build([source(fruit)], serial=1))
    assert (done.file, done.code) == (None, "io_error")


def test_a_fault_of_our_own_ends_no_worker(
    workshop: Workshop, directory: Path, fruit: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = workshop.do(Build([source(fruit)], serial=1)).file
    assert file
    done = workshop.do(Combine([(file, [7])], serial=2))  # there is no slot 7
    assert (done.file, done.code) == (None, "internal")
    assert "Traceback" in capfd.readouterr().err


# --------------------------------------------------------------------------- the process


def test_a_worker_does_one_job_after_the_other_at_low_priority(
    start: Start, directory: Path, fruit: Path, trees: Path
) -> None:
    child = start()
    first = child.ask(Build([source(fruit)], serial=1))
    second = child.ask(Build([source(trees)], serial=2))
    assert set(segment_names(directory)) == {first.file, second.file}
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
    assert os.sched_getscheduler(child.pid) == os.SCHED_BATCH
    assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "500"


def test_what_is_meant_for_the_daemon_does_not_end_its_worker(start: Start, fruit: Path, trees: Path) -> None:
    child = start()
    assert child.ask(Build([source(fruit)], serial=1)).file
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(child.pid, number)
    assert child.ask(Build([source(trees)], serial=1)).file


@pytest.mark.slow
def test_what_does_not_fit_into_memory_is_refused_for_good_and_others_are_built(
    start: Start, large: Path, fruit: Path
) -> None:
    child = start(150 << 20)
    assert child.ask(Build([source(large)], serial=1)).refusals[0].code == "too_large"
    done = child.ask(Build([source(large), source(fruit)], serial=1))
    assert [refusal.code for refusal in done.refusals] == ["memory"]
    assert done.file


def ended(pid: int) -> bool:
    """Tell whether a child process ends within ten seconds, and leave it to be waited for."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], 10)[0])
    finally:
        os.close(descriptor)


def wait_until_at_work(child: Child, path: Path) -> None:
    """Wait until the worker has the store at *path* open."""
    deadline = time.monotonic() + 20
    descriptors = Path(f"/proc/{child.pid}/fd")
    while path not in (each.readlink() for each in descriptors.iterdir() if each.is_symlink()):
        assert time.monotonic() < deadline, "the worker does not begin"


def test_a_worker_ends_with_its_daemon_even_in_the_middle_of_a_job(
    start: Start, directory: Path, large: Path
) -> None:
    child = start()
    assert child.ask(Build([], serial=1)) is not None
    assert child.stdin is not None
    write_message(child.stdin, Build([source(large)], serial=1))
    wait_until_at_work(child, large)
    child.stdin.close()
    assert ended(child.pid)
    assert list(directory.iterdir()) == []


def test_whoever_asks_a_worker_that_is_killed_is_told_so(start: Start, large: Path) -> None:
    child = start()
    assert child.ask(Build([], serial=1)) is not None
    child.kill()
    with pytest.raises(WorkerDied, match="-9"):
        child.ask(Build([source(large)], serial=1))


@pytest.mark.slow
@pytest.mark.timeout(300)  # a worker gives way to everything else on the machine
def test_a_worker_that_is_killed_at_any_moment_leaves_nothing_that_is_believed(
    start: Start, directory: Path, large: Path, fruit: Path, trees: Path
) -> None:
    warm = start()
    built = [warm.ask(Build([source(path)], serial=1)).file for path in (fruit, trees)]
    parts = [(name, [0]) for name in built if name]
    job = Build([source(large), source(fruit)], serial=2)
    began = time.monotonic()
    whole = warm.ask(job)
    took = time.monotonic() - began
    assert whole.file
    for share in (0.1, 0.5, 0.8, 0.95, 1.0):
        child = start()
        assert child.ask(Combine(list(parts), serial=3)).file
        assert child.stdin is not None
        write_message(child.stdin, job)
        deadline = time.monotonic() + share * took
        while time.monotonic() < deadline:
            pass
        child.kill()
        child.close()
        sweep(directory)
        assert all(path.suffix == ".segment" for path in directory.iterdir())
        for name in segment_names(directory):
            assert load_segment(directory / name, directory).segment.pieces


def test_refusals_survive_the_way(start: Start, fruit: Path) -> None:
    moved = _moved(fruit)
    assert start().ask(Build([moved], serial=1)).refusals == [
        Refusal("fruit", "keeps_changing", "the store changed while it was read")
    ]


def test_a_path_of_any_bytes_is_found(start: Start, fruit: Path) -> None:
    odd = fruit.with_name(os.fsdecode(b"caf\xe9\n.sqlite"))
    shutil.move(fruit, odd)
    assert start().ask(Build([replace(source(odd), fingerprint="odd")], serial=1)).file
