"""What a confined process can no longer do: each wall by itself, and all of them."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.engines.jobs import Confinement
from collated.engines.landlock import available_abi
from collated.engines.seccomp import ARCHITECTURES

if TYPE_CHECKING:
    from tests.conftest import Snapshot

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls of Linux"),
]

has_landlock = pytest.mark.skipif(available_abi() < 6, reason="a kernel with a whole Landlock")
has_filter = pytest.mark.skipif(
    platform.machine() not in ARCHITECTURES, reason="a machine whose calls are known"
)

# What Landlock leaves, which is why there is the other one.
QUIET = {"chmod", "chown", "utime", "setxattr", "limit of another", "datagram", "unix socket", "fork"}


def attempted(walls: str, folder: Path, port: int, environ: dict[str, str]) -> dict[str, str]:
    command = [sys.executable, "-m", "engine_handlers", walls, str(folder), str(port)]
    done = subprocess.run(command, env=environ, capture_output=True, check=True, timeout=50)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def possible(found: dict[str, str]) -> set[str]:
    return {name for name, what in found.items() if what == "done"}


@has_filter
@pytest.mark.parametrize("walls", ["seccomp", pytest.param("all", marks=has_landlock)])
def test_nothing_can_be_changed_or_reached(
    folder: Path, port: int, environ: dict[str, str], snapshot: Snapshot, walls: str
) -> None:
    before = snapshot(folder)
    found = attempted(walls, folder, port, environ)
    assert possible(found) == set()
    assert set(found.values()) == {"PermissionError"}
    assert snapshot(folder) == before


@has_landlock
def test_landlock_by_itself_keeps_every_file_and_leaves_what_it_does_not_know(
    folder: Path, port: int, environ: dict[str, str]
) -> None:
    content = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert possible(attempted("landlock", folder, port, environ)) <= QUIET
    assert {path: path.read_bytes() for path in content} == content


def test_without_a_wall_all_of_it_can_be_done(folder: Path, port: int, environ: dict[str, str]) -> None:
    found = attempted("", folder, port, environ)
    left = {name: what for name, what in found.items() if what != "done"}
    # What went before has taken the file away from some.
    assert set(left.values()) <= {"FileNotFoundError", "FileExistsError"}, left
    assert {
        "write",
        "rename",
        "chmod",
        "connect",
        "abstract socket",
        "signal",
        "execute",
        "fork",
    } <= possible(found)
    for path in (Path("/tmp/engine-was-here"), Path("/dev/shm/engine-was-here")):  # noqa: S108
        path.unlink()


@pytest.mark.parametrize(
    ("abi", "is_filtered", "is_read_only", "is_offline"),
    [(7, True, True, True), (7, False, True, False), (2, False, False, False), (0, True, True, True)],
)
def test_one_wall_is_enough_where_it_knows_enough(
    abi: int, *, is_filtered: bool, is_read_only: bool, is_offline: bool
) -> None:
    confinement = Confinement(abi, is_filtered, None)
    assert (confinement.is_read_only, confinement.is_offline) == (is_read_only, is_offline)
