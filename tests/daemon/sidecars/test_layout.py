"""A segment's file is believed when every byte is right, and then nothing done to the file touches it."""

from __future__ import annotations

import errno
import gc
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from collated import __version__
from collated.sidecars.layout import LayoutError, load_segment, segment_names, sweep, write_segment
from collated.sidecars.segment import Segment

if TYPE_CHECKING:
    from tests.conftest import Program
    from tests.daemon.sidecars.conftest import MakeSegment

pytestmark = pytest.mark.slow

PREFIX = struct.Struct("<8sIII")
DTYPES = ["<u1", "<u2", "<u4", "<i8", "<f8", "|b1", "|S3", ">u4", "<U2"]


def with_arrays(segment: Segment, **arrays: np.ndarray[Any, Any]) -> Segment:
    return Segment(segment.pieces, {**segment.arrays, **arrays})


def is_same(one: Segment, other: Segment) -> bool:
    return (
        one.pieces == other.pieces
        and list(one.arrays) == list(other.arrays)
        and all(
            array.dtype == other.arrays[name].dtype and array.tobytes() == other.arrays[name].tobytes()
            for name, array in one.arrays.items()
        )
    )


@pytest.fixture
def file(make_segment: MakeSegment, tmp_path: Path) -> Path:
    """A sound file of one store, alone in its directory."""
    return write_segment(make_segment("f"), tmp_path, serial=7)


def as_written(size: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


# --------------------------------------------------------------------------- there and back


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    drawn=st.dictionaries(
        st.sampled_from("abc"),
        st.sampled_from(DTYPES).flatmap(lambda dtype: arrays_of.arrays(dtype, st.integers(0, 200))),
    ),
    serial=st.integers(0, 2**53),
)
def test_what_is_loaded_is_what_was_written(
    make_segment: MakeSegment, tmp_path: Path, drawn: dict[str, Any], serial: int
) -> None:
    segment = with_arrays(make_segment("f", b"\xff\x00 word", rows=3), **drawn)
    path = write_segment(segment, tmp_path, serial=serial)

    loaded = load_segment(path, tmp_path)

    little = {name: array.astype(array.dtype.newbyteorder("<")) for name, array in segment.arrays.items()}
    assert is_same(loaded.segment, Segment(segment.pieces, little))
    assert (loaded.name, loaded.serial, loaded.size_bytes) == (path.name, serial, path.stat().st_size)
    assert segment_names(tmp_path)[path.name] == loaded.identity
    path.unlink()


def test_arrays_lie_at_multiples_of_64_bytes_and_cannot_be_written_to(file: Path, tmp_path: Path) -> None:
    loaded = load_segment(file, tmp_path).segment

    for array in loaded.arrays.values():
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array.resize(0, refcheck=False) if not len(array) else array.__setitem__(0, 0)


def test_two_files_never_have_one_name(make_segment: MakeSegment, tmp_path: Path) -> None:
    segment = make_segment("f")
    assert write_segment(segment, tmp_path, serial=1) != write_segment(segment, tmp_path, serial=1)
    assert len(segment_names(tmp_path)) == 2


def test_arrays_in_any_order_of_memory_are_written_as_they_read(
    make_segment: MakeSegment, tmp_path: Path
) -> None:
    every_second = np.arange(100, dtype=np.uint32)[::-2]
    path = write_segment(with_arrays(make_segment("f"), extra=every_second), tmp_path, serial=1)
    assert load_segment(path, tmp_path).segment.arrays["extra"].tolist() == every_second.tolist()


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.zeros((2, 2)),
        np.zeros(3, "M8[s]"),
        np.zeros(3, [("a", "u1")]),
    ],
)
def test_what_is_no_plain_array_is_refused(
    make_segment: MakeSegment, tmp_path: Path, array: np.ndarray[Any, Any]
) -> None:
    with pytest.raises(ValueError, match="the array extra"):
        write_segment(with_arrays(make_segment("f"), extra=array), tmp_path, serial=1)
    assert list(tmp_path.iterdir()) == []


def test_files_are_private(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600


# --------------------------------------------------------------------------- what is not believed


def test_a_file_cut_short_anywhere_is_not_believed(file: Path, tmp_path: Path) -> None:
    load_segment(file, tmp_path)
    for size in reversed(range(file.stat().st_size)):
        os.truncate(file, size)
        with pytest.raises(LayoutError):
            load_segment(file, tmp_path)


def test_a_file_with_any_byte_changed_is_not_believed(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    with file.open("r+b", buffering=0) as opened:
        for at, byte in enumerate(whole):
            os.pwrite(opened.fileno(), bytes([byte ^ 1 << at % 8]), at)
            with pytest.raises(LayoutError):
                load_segment(file, tmp_path)
            os.pwrite(opened.fileno(), bytes([byte]), at)
    load_segment(file, tmp_path)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_longer_than_it_says_is_not_believed(file: Path, tmp_path: Path) -> None:
    with file.open("ab") as end:
        end.write(bytes(64))
    with pytest.raises(LayoutError):
        load_segment(file, tmp_path)


@given(st.binary(max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_bytes_whatever_do_more_than_not_being_believed(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.segment"
    path.write_bytes(b"\x93collseg\x01\0\0\0" + data)
    with pytest.raises(LayoutError):
        load_segment(path, tmp_path)


Change = Callable[[dict[str, Any]], object]
LIES: dict[str, Change] = {
    "another release": lambda header: header.update(release="0.0.1"),
    "a longer body": lambda header: header.update(body_bytes=header["body_bytes"] + 64),
    "a body beyond all bounds": lambda header: header.update(body_bytes=2**62),
    "a negative body": lambda header: header.update(body_bytes=-64),
    "an array of objects": lambda header: header["arrays"][0].update(dtype="|O8"),
    "a type that NumPy does not know": lambda header: header["arrays"][0].update(dtype="<u3"),
    "a type of no size": lambda header: header["arrays"][0].update(dtype="|S0"),
    "a type of many gigabytes": lambda header: header["arrays"][0].update(dtype="|S999999999"),
    "a type that is code": lambda header: header["arrays"][0].update(dtype="<i8,<i8"),
    "a longer array": lambda header: header["arrays"][-1].update(length=2**40),
    "a negative array": lambda header: header["arrays"][-1].update(length=-1),
    "an array before the body": lambda header: header["arrays"][1].update(offset=-64),
    "an array over another": lambda header: header["arrays"][1].update(offset=0),
    "an array beyond the end": lambda header: header["arrays"][-1].update(offset=2**50),
    "an unaligned array": lambda header: header["arrays"][1].update(offset=header["arrays"][1]["offset"] + 1),
    "two arrays of one name": lambda header: header["arrays"][1].update(name=header["arrays"][0]["name"]),
    "an array under another name": lambda header: header["arrays"][0].update(name="unheard_of"),
    "no arrays": lambda header: header.update(arrays=[]),
    "a store of less than no rows": lambda header: header["pieces"][0].update(rows=-1),
    "a number for a name": lambda header: header["arrays"][0].update(name=3),
    "no pieces at all": lambda header: header.pop("pieces"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_under_a_right_checksum_is_not_believed(
    file: Path, tmp_path: Path, lie: str
) -> None:
    whole = file.read_bytes()
    magic, layout, length, _ = PREFIX.unpack(whole[: PREFIX.size])
    header = msgspec.msgpack.decode(whole[PREFIX.size : PREFIX.size + length])
    assert header["release"] == __version__
    body = whole[-header["body_bytes"] :]
    LIES[lie](header)
    encoded = msgspec.msgpack.encode(header)
    head = PREFIX.pack(magic, layout, len(encoded), crc32(encoded)) + encoded
    file.write_bytes(head + bytes(-len(head) % 64) + body)

    with pytest.raises(LayoutError):
        load_segment(file, tmp_path)


def test_a_header_longer_than_the_file_is_not_read(file: Path, tmp_path: Path) -> None:
    file.write_bytes(PREFIX.pack(b"\x93collseg", 1, 0xFFFF_FFFF, 0))
    os.truncate(file, 2**33)
    with pytest.raises(LayoutError, match="within its header"):
        load_segment(file, tmp_path)


def test_what_is_no_file_is_neither_waited_for_nor_believed(tmp_path: Path, file: Path) -> None:
    os.mkfifo(tmp_path / "fifo.segment")
    (tmp_path / "directory.segment").mkdir()
    (tmp_path / "link.segment").symlink_to(file)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket.segment"))
    for name in ("fifo", "directory", "link", "socket"):
        with pytest.raises(LayoutError, match="not a file"):
            load_segment(tmp_path / f"{name}.segment", tmp_path)
    listener.close()
    with pytest.raises(FileNotFoundError):
        load_segment(tmp_path / "gone.segment", tmp_path)


# --------------------------------------------------------------------------- what is loaded stays

FATES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "cut to nothing": lambda path: os.truncate(path, 0),
    "cut short": lambda path: os.truncate(path, 100),
    "overwritten in place": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "replaced": lambda path: Path(shutil.copy(__file__, path.with_name("other"))).replace(path),
    "gone with its directory": lambda path: shutil.rmtree(path.parent),
}


@pytest.mark.parametrize("fate", FATES)
def test_nothing_that_becomes_of_the_file_touches_what_is_loaded(
    make_segment: MakeSegment, tmp_path: Path, fate: str
) -> None:
    directory = tmp_path / "sidecars"
    directory.mkdir()
    segment = with_arrays(make_segment("f"), extra=as_written(3 << 20))
    path = write_segment(segment, directory, serial=1)
    loaded = load_segment(path, directory)

    FATES[fate](path)

    assert is_same(loaded.segment, segment)


def test_a_loaded_file_has_no_other_name_and_goes_with_its_last_array(
    file: Path, make_segment: MakeSegment, tmp_path: Path
) -> None:
    kept = load_segment(file, tmp_path).segment.arrays["rows"]
    assert list(tmp_path.iterdir()) == [file]
    assert kept.tolist() == make_segment("f").arrays["rows"].tolist()
    maps = Path("/proc/self/maps")
    assert str(tmp_path) in maps.read_text()
    del kept
    gc.collect()
    assert str(tmp_path) not in maps.read_text()


def test_reading_and_writing_take_little_memory_whatever_the_size(program: Program, tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
import numpy as np
from collated.sidecars.layout import load_segment, write_segment
from collated.sidecars.segment import Segment
directory = Path(sys.argv[1])
size = 64 << 20
names = ("row_starts norms rows freqs counts positions term_hashes term_starts term_bytes "
         "term_entries term_positions entry_slots entry_firsts").split()
whole = np.ones(size, np.uint8)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
path = write_segment(Segment((), {**dict.fromkeys(names, whole[:0]), "whole": whole}), directory, serial=1)
written = peak()
loaded = load_segment(path, directory)
print(written - before, peak() - written)
"""
    said = program(code, tmp_path).communicate(timeout=50)[0]
    written, loaded = map(int, said.split())
    assert written < 16 << 20
    assert loaded < 16 << 20


# --------------------------------------------------------------------------- failing


def test_a_full_disk_leaves_nothing(make_segment: MakeSegment, tmp_path: Path) -> None:
    segment = with_arrays(make_segment("f"), extra=as_written(100_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 10, 4_096, 99_999):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(OSError, match="too large") as failed:
                write_segment(segment, tmp_path, serial=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert failed.value.errno == errno.EFBIG
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_fault_of_the_file(make_segment: MakeSegment, tmp_path: Path) -> None:
    path = write_segment(with_arrays(make_segment("f"), extra=as_written(100_000)), tmp_path, serial=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            load_segment(path, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load_segment(path, tmp_path).serial == 1


def test_a_sweep_removes_what_is_half_written_and_nothing_else(file: Path, tmp_path: Path) -> None:
    (tmp_path / "tmpx.part").write_bytes(b"half")
    (tmp_path / "directory.part").mkdir()
    (tmp_path / "lock").touch()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {file.name, "directory.part", "lock"}


WRITING = """
import sys
from pathlib import Path
import numpy as np
from collated.sidecars.layout import write_segment
from collated.sidecars.segment import Segment
names = ("row_starts norms rows freqs counts positions term_hashes term_starts term_bytes "
         "term_entries term_positions entry_slots entry_firsts").split()
arrays = {**dict.fromkeys(names, np.zeros(0, np.uint8)), "whole": np.ones(8 << 20, np.uint8)}
for serial in range(1_000_000):
    print(serial, flush=True)
    write_segment(Segment((), arrays), Path(sys.argv[1]), serial=serial)
"""


@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_a_writer_that_is_killed_leaves_whole_files_and_what_is_swept(
    program: Program, tmp_path: Path, share: float
) -> None:
    writer = program(WRITING, tmp_path)
    assert writer.stdout is not None
    writer.stdout.readline()
    began = time.monotonic()
    writer.stdout.readline()
    took = time.monotonic() - began
    deadline = time.monotonic() + share * took  # somewhere within the second one
    while time.monotonic() < deadline:
        pass
    writer.send_signal(signal.SIGKILL)
    writer.wait()

    sweep(tmp_path)

    names = segment_names(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    for name in names:
        assert load_segment(tmp_path / name, tmp_path).segment.arrays["whole"].all()


def test_this_module_brings_in_no_part_of_the_daemon() -> None:
    code = "import sys, collated.sidecars.layout; print(*sorted(m for m in sys.modules if 'collated' in m))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"collated.server", "collated.methods", "collated.settings", "anyio"} & set(ran.stdout.split())
