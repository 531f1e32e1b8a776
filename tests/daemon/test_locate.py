from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from collated.catalog import Found
from collated.locate import Listing, listing, pinned_names
from collated.settings import Pinned, Watched
from collated_readers.opening import take_signature

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make("a/b.sqlite")` writes a file below the test's directory."""

    def write(name: str | bytes, content: bytes = b"x") -> Path:
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write


def look(path: Path, *patterns: str) -> Listing:
    return listing([Watched(str(path), match=patterns or ("*.sqlite", "*.db"))], ())


def found_in(result: Listing, root: Path) -> list[str]:
    return sorted(os.path.relpath(path, root) for path in result.found)


def watched_in(result: Listing, root: Path) -> list[str]:
    return sorted(os.path.relpath(path, root) for path in result.directories)


def reasons(founds: Iterable[Found]) -> dict[str, str]:
    return {Path(each.path).name: each.reason.code for each in founds if each.reason}


# --------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.sqlite", ["a.sqlite", "b.sqlite"]),
        ("[ab].sqlite", ["a.sqlite", "b.sqlite"]),
        ("b.*", ["b.db", "b.sqlite"]),
        ("a.sqlite", ["a.sqlite"]),
        ("*/.contextpull/*.sqlite", ["p/.contextpull/store.sqlite", "q/.contextpull/store.sqlite"]),
        ("p/*.sqlite", ["p/c.sqlite"]),
        (".hidden/*.sqlite", [".hidden/h.sqlite"]),
        (".*/*.sqlite", [".hidden/h.sqlite"]),
        ("*/*/*/*.sqlite", ["q/deep/er/d.sqlite"]),
        ("**/*.sqlite", ["a.sqlite", "b.sqlite", "p/c.sqlite", "q/deep/er/d.sqlite"]),
        ("q/**/*.sqlite", ["q/deep/er/d.sqlite"]),
        ("**/.contextpull/*.sqlite", ["p/.contextpull/store.sqlite", "q/.contextpull/store.sqlite"]),
        ("nothing*", []),
        ("a.sqlite/*", []),
    ],
)
def test_a_pattern_matches_as_in_a_shell(tmp_path: Path, make: Make, pattern: str, found: list[str]) -> None:
    for name in (
        *(
            "a.sqlite",
            "b.sqlite",
            "b.db",
            ".dot.sqlite",
            "p/c.sqlite",
            ".hidden/h.sqlite",
            "q/deep/er/d.sqlite",
        ),
        *("p/.contextpull/store.sqlite", "q/.contextpull/store.sqlite"),
    ):
        make(name)

    assert found_in(look(tmp_path, pattern), tmp_path) == found


def test_what_two_patterns_match_is_found_once(tmp_path: Path, make: Make) -> None:
    make("a.sqlite")

    assert found_in(look(tmp_path, "*.sqlite", "a*", "**/*"), tmp_path) == ["a.sqlite"]


def test_files_that_sqlite_keeps_beside_a_store_are_no_stores(tmp_path: Path, make: Make) -> None:
    for suffix in "", "-wal", "-shm", "-journal":
        make(f"a.sqlite{suffix}")

    assert found_in(look(tmp_path, "*"), tmp_path) == ["a.sqlite"]


def test_only_directories_that_a_pattern_can_reach_are_watched(tmp_path: Path, make: Make) -> None:
    for name in "p/.contextpull/s.sqlite", "p/src/deep/x.py", "q/y.py", ".hidden/z.sqlite", "file":
        make(name)

    result = look(tmp_path, "*/.contextpull/*.sqlite")

    assert watched_in(result, tmp_path) == [".", "p", "p/.contextpull", "q"]


def test_a_directory_that_does_not_exist_yet_is_waited_for_in_the_nearest_one_that_does(
    tmp_path: Path,
) -> None:
    result = look(tmp_path / "not" / "there")

    assert (result.found, watched_in(result, tmp_path)) == ({}, ["."])


def test_a_file_where_a_directory_is_to_be_watched_holds_nothing(tmp_path: Path, make: Make) -> None:
    result = look(make("file"))

    assert (result.found, watched_in(result, tmp_path)) == ({}, ["."])


def test_a_path_may_begin_with_the_home_directory() -> None:
    nowhere = "~/.collated-test-that-is-not-there"

    assert listing([Watched(nowhere)], ()).directories == {os.path.expanduser("~")}  # noqa: PTH111 - as locate


# --------------------------------------------------------------------------- what is there


def test_a_file_comes_with_its_signature(tmp_path: Path, make: Make) -> None:
    path = make("a.sqlite")

    assert look(tmp_path).found == {str(path): Found(str(path), None, take_signature(path))}


@pytest.mark.parametrize(
    "name", [b"caf\xe9.sqlite", b"a#b?c%20 d.sqlite", b"\xff\xfe.db", "é日本.db".encode()]
)
def test_a_name_of_any_bytes_is_found(tmp_path: Path, make: Make, name: bytes) -> None:
    path = make(name)

    (found,) = look(tmp_path).found.values()
    assert os.fsencode(found.path) == os.fsencode(path)
    assert found.signature is not None


def test_what_is_no_file_is_listed_with_the_reason(tmp_path: Path, make: Make) -> None:
    make("empty.db", b"")
    (tmp_path / "folder.db").mkdir()
    os.mkfifo(tmp_path / "fifo.db")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.db"))

    founds = look(tmp_path).found.values()

    assert reasons(founds) == {
        "empty.db": "empty_file",
        "folder.db": "not_a_file",
        "fifo.db": "not_a_file",
        "socket.db": "not_a_file",
    }
    assert not any(each.signature for each in founds)


def test_symlinks_that_lead_nowhere_or_in_a_circle_are_listed_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "dangling.db").symlink_to("gone")
    (tmp_path / "loop.db").symlink_to("pool.db")
    (tmp_path / "pool.db").symlink_to("loop.db")
    (tmp_path / "self.db").symlink_to("self.db")

    founds = look(tmp_path).found

    assert reasons(founds.values()) == dict.fromkeys(
        ("dangling.db", "loop.db", "pool.db", "self.db"), "broken_symlink"
    )
    reason = founds[str(tmp_path / "dangling.db")].reason
    assert reason is not None
    assert reason.message.endswith("remove the symlink or bring its target back")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter any directory")
def test_a_directory_that_may_not_be_entered_is_a_reason(tmp_path: Path, make: Make) -> None:
    target = make("closed/a.sqlite")
    (tmp_path / "a.db").symlink_to(target)
    target.parent.chmod(0)
    try:
        assert reasons(look(tmp_path).found.values()) == {"a.db": "permission_denied"}
        assert look(target.parent).found == {}
    finally:
        target.parent.chmod(0o700)


# --------------------------------------------------------------------------- symlinks


def test_a_symlink_is_its_target_and_asks_for_its_own_name(tmp_path: Path, make: Make) -> None:
    target = make("far/away/store.sqlite")
    (tmp_path / "stores").mkdir()
    (tmp_path / "stores" / "uv-docs.sqlite").symlink_to(target)

    result = look(tmp_path / "stores")

    assert result.found == {str(target): Found(str(target), "uv-docs", take_signature(target))}
    assert watched_in(result, tmp_path) == ["far/away", "stores"]


def test_a_symlink_whose_name_cannot_name_a_store_asks_for_none(tmp_path: Path, make: Make) -> None:
    target = make("far/store.sqlite")
    (tmp_path / "Uv Docs.sqlite").symlink_to(target)

    assert look(tmp_path).found[str(target)].wanted is None


def test_a_store_that_is_found_twice_is_one_and_its_name_does_not_depend_on_the_order(
    tmp_path: Path, make: Make
) -> None:
    target = make("far/store.sqlite")
    for name in "z.db", "a.db", "m.db":
        (tmp_path / name).symlink_to(target)
    watched = [Watched(str(tmp_path)), Watched(str(tmp_path / "far"))]

    for order in watched, watched[::-1]:
        assert {each.wanted for each in listing(order, ()).found.values()} == {"a"}


def test_a_directory_that_is_a_symlink_is_looked_into_but_never_in_a_circle(
    tmp_path: Path, make: Make
) -> None:
    target = make("far/p/.contextpull/s.sqlite")
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "p").symlink_to(target.parents[1])
    (tmp_path / "near" / "round").symlink_to(tmp_path / "near")

    assert list(look(tmp_path / "near", "*/.contextpull/*.sqlite").found) == [str(target)]
    assert look(tmp_path / "near", "**/*.sqlite").found == {}


# --------------------------------------------------------------------------- pinned stores


def test_a_pinned_store_is_found_wherever_it_lies(tmp_path: Path, make: Make) -> None:
    path = make("deep/er/no-suffix")

    result = listing((), [Pinned(str(path), "mine")])

    assert list(result.found) == [str(path)]
    assert watched_in(result, tmp_path) == ["deep/er"]


def test_a_pinned_store_that_is_not_there_is_listed_and_waited_for(tmp_path: Path) -> None:
    missing = tmp_path / "later" / "store.sqlite"
    result = listing((), [Pinned(str(missing), "mine")])
    assert reasons(result.found.values()) == {"store.sqlite": "vanished"}
    assert result.directories == {str(tmp_path)}


def test_the_place_that_a_broken_symlink_leads_to_is_watched(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.sqlite").symlink_to(tmp_path / "later" / "store.sqlite")
    result = look(tmp_path / "links")
    assert reasons(result.found.values()) == {"a.sqlite": "broken_symlink"}
    assert watched_in(result, tmp_path) == [".", "links"]


def test_names_are_pinned_to_real_paths(tmp_path: Path, make: Make) -> None:
    target = make("far/store.sqlite")
    link = tmp_path / "link.sqlite"
    link.symlink_to(target)

    assert pinned_names([Pinned(str(link), "mine"), Pinned("/nameless")]) == {str(target): "mine"}


# --------------------------------------------------------------------------- network file systems


@pytest.mark.parametrize(
    ("below", "must_poll"), [("", True), ("x/y", True), ("../other", False), ("../mnt2", False)]
)
def test_what_lies_on_a_network_file_system_is_polled(tmp_path: Path, below: str, must_poll: bool) -> None:
    mount = tmp_path.resolve() / "mnt"

    assert listing([Watched(str(mount / below))], (), [str(mount)]).must_poll == must_poll


def test_a_directory_is_polled_when_the_configuration_says_so(tmp_path: Path) -> None:
    assert listing([Watched(str(tmp_path), poll=True), Watched(str(tmp_path))], ()).must_poll
    assert not listing([Watched(str(tmp_path))], ()).must_poll
