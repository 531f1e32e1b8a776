"""The files of who is admitted: read again when they change, refused when others may read them."""

from __future__ import annotations

import os
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collated.errors import ConfigError
from collated.mcp.http.credentials import Credential, NotAdmitted, digest, parse
from collated.mcp.http.keyring import Keyring, add, new_token

ENDS = datetime(2030, 1, 1, tzinfo=UTC)


def credential(name: str) -> Credential:
    return Credential(name, digest(name), "here", ENDS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the one credential `first`."""
    add(tmp_path / "keys.toml", credential("first"))
    return tmp_path / "keys.toml"


def ids(keyring: Keyring) -> list[str]:
    return [each.id for each in keyring.keys().credentials]


def refused(keyring: Keyring) -> str:
    with pytest.raises(NotAdmitted) as error:
        keyring.keys()
    return error.value.identifier


def test_a_credential_that_was_added_is_admitted_at_once(path: Path) -> None:
    keyring = Keyring(path)
    assert ids(keyring) == ["first"]
    add(path, credential("second"))
    assert ids(keyring) == ["first", "second"]


def test_a_file_that_is_gone_wrong_or_open_to_others_admits_nobody_until_it_is_right_again(
    path: Path,
) -> None:
    keyring = Keyring(path)
    good = path.read_bytes()
    path.write_text("[[credential]]\n")
    assert refused(keyring) == "CredentialsUnreadable"
    path.write_bytes(b"\xff")
    assert refused(keyring) == "CredentialsUnreadable"
    path.write_bytes(good)
    assert ids(keyring) == ["first"]
    path.chmod(0o640)
    assert refused(keyring) == "CredentialsUnreadable"
    path.chmod(0o600)
    assert ids(keyring) == ["first"]
    path.unlink()
    assert refused(keyring) == "CredentialsUnreadable"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_file_that_others_may_read_is_refused_with_what_to_do(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"chmod 600"):
        Keyring(path)
    with pytest.raises(ConfigError, match=r"chmod 600"):
        add(path, credential("second"))


def test_nothing_starts_without_credentials_that_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        Keyring(tmp_path / "none")
    with pytest.raises(ConfigError, match="not a regular file"):
        Keyring(tmp_path)


def test_a_pipe_holds_nobody_up(tmp_path: Path, path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        Keyring(tmp_path / "pipe")
    assert refused(Keyring(path, tmp_path / "pipe")) == "DenylistUnreadable"


def test_the_denylist_is_read_each_time(tmp_path: Path, path: Path) -> None:
    denylist = tmp_path / "gone.txt"
    keyring = Keyring(path, denylist)
    assert refused(keyring) == "DenylistUnreadable"
    denylist.write_text("# nobody\n")
    assert keyring.keys().denied == frozenset()
    denylist.write_text("first\n")
    assert keyring.keys().denied == {"first"}
    denylist.write_bytes(b"\xff\n")
    assert refused(keyring) == "DenylistUnreadable"


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n\n", b" # end"])
def test_adding_keeps_every_byte_that_was_there(path: Path, end: bytes) -> None:
    path.write_bytes(b"# mine\r\n" + path.read_bytes().rstrip(b"\n") + end)
    before = path.read_bytes()
    add(path, credential("second"))
    assert path.read_bytes().startswith(before)
    assert [each.id for each in parse(path.read_text())] == ["first", "second"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_adding_through_a_symbolic_link_keeps_the_link(tmp_path: Path, path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    add(link, credential("second"))
    assert link.is_symlink()
    assert ids(Keyring(path)) == ["first", "second"]


def test_an_id_that_is_there_or_a_file_that_is_wrong_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="twice"):
        add(path, credential("first"))
    assert path.read_bytes() == before
    path.write_text("no TOML")
    with pytest.raises(ConfigError, match="refused"):
        add(path, credential("second"))
    assert path.read_text() == "no TOML"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_in_no_directory_cannot_be_added_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        add(tmp_path / "none" / "keys.toml", credential("first"))


def test_of_many_that_add_at_once_none_is_lost(path: Path) -> None:
    names = [f"number-{number}" for number in range(12)]
    threads = [threading.Thread(target=add, args=(path, credential(name))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids(Keyring(path))) == sorted(["first", *names])


def test_tokens_are_long_and_never_the_same() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 43
