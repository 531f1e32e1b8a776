"""`collate mcp --new-credential`: a token that is printed once, and kept nowhere."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.mcp.http.credentials import digest, parse

if TYPE_CHECKING:
    from tests.system.conftest import Daemon, StartDaemon

pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    """Surroundings in which no daemon runs, and none is needed."""
    return start_daemon(is_launched=False)


@pytest.fixture
def keys(daemon: Daemon) -> Path:
    return daemon.base / "keys.toml"


def new(daemon: Daemon, keys: Path, name: str = "laptop", *more: str) -> subprocess.CompletedProcess[str]:
    given = ("--credentials", str(keys), "--audience", "home", *more)
    return daemon.collate("mcp", "--new-credential", name, *given)


def test_the_token_is_all_of_the_output_and_the_file_has_its_digest(daemon: Daemon, keys: Path) -> None:
    made = new(daemon, keys, "laptop", "--stores", "docs,notes", "--days", "7")
    token = made.stdout.removesuffix("\n")
    assert made.returncode == 0
    assert "shown this once" in made.stderr
    assert token not in made.stderr + keys.read_text()
    (credential,) = parse(keys.read_text())
    assert credential.sha256 == digest(token)
    assert (credential.id, credential.audience) == ("laptop", "home")
    assert credential.stores == frozenset({"docs", "notes"})
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert not daemon.socket.exists()


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("my laptop", [], "id"),
        ("laptop\x1b[2J", [], "id"),
        ("laptop", ["--days", "0"], "--days"),
        ("laptop", ["--days", "99999999"], "--days"),
        ("laptop", ["--stores", ""], "--stores"),
        ("laptop", ["--stores", "docs, notes"], "--stores"),
        ("laptop", ["--audience", ""], "--audience"),
        ("laptop", ["--audience", "a\x1b[2J"], "printed"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_written(
    daemon: Daemon, keys: Path, name: str, more: list[str], says: str
) -> None:
    made = new(daemon, keys, name, *more)
    assert made.returncode == 2
    assert made.stdout == ""
    assert says in made.stderr
    assert "\x1b" not in made.stderr
    assert not keys.exists()


def test_an_id_is_given_once(daemon: Daemon, keys: Path) -> None:
    assert new(daemon, keys).returncode == 0
    before = keys.read_bytes()
    again = new(daemon, keys)
    assert (again.returncode, again.stdout) == (2, "")
    assert "laptop is there twice" in again.stderr
    assert keys.read_bytes() == before


def test_a_file_that_others_may_read_is_refused(daemon: Daemon, keys: Path) -> None:
    assert new(daemon, keys).returncode == 0
    keys.chmod(0o644)
    refused = new(daemon, keys, "phone")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"chmod 600 {keys}" in refused.stderr
