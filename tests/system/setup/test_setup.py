"""`collate setup` on a whole home: found, written once, taken back, and believed by a real daemon."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.system.setup.conftest import Filled, Home

    Project = Callable[..., Path]

pytestmark = pytest.mark.slow


def shown(path: str) -> str:
    """Return a path as JSON has it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


# --------------------------------------------------------------------------- a whole home


def test_stores_of_every_kind_are_found_and_nothing_else(filled: Filled) -> None:
    before = filled.home.tree()

    ran = filled.home.collate("setup", "--dry-run", "--json")

    assert ran.code == 0, ran.err
    found = {store["path"]: store["format"] for store in ran.json["stores"]}
    assert found == {shown(path): kind for path, kind in filled.stores.items()}
    assert all(store["is_new"] for store in ran.json["stores"])
    fifo = str(filled.home.path / "src" / "pipe" / ".contextpull" / "store.sqlite")
    assert ran.json["left_out"] == {fifo: "a FIFO, not a file"}
    assert ran.json["is_written"] is False
    assert filled.home.tree() == before


def test_a_dry_run_shows_exactly_what_is_then_written(filled: Filled) -> None:
    ran = filled.home.collate("setup", "--dry-run", "--json")
    texts = {change["path"]: change["text"] for change in ran.json["files"] if change["text"] is not None}
    links = {change["path"]: change["target"] for change in ran.json["files"] if change["target"] is not None}

    assert filled.home.collate("setup", "--yes").code == 0

    assert set(texts) == {str(filled.home.config)}
    assert len(links) == 1  # of the path that no configuration can say
    for path, text in texts.items():
        assert Path(path).read_text() == text
    for path, target in links.items():
        assert shown(os.readlink(path)) == target  # noqa: PTH115 - it may be no text


def test_a_daemon_finds_all_of_them_by_the_names_that_were_shown(filled: Filled) -> None:
    home = filled.home
    shown_first = {
        store["path"]: store["name"] for store in home.collate("setup", "--yes", "--json").json["stores"]
    }

    listed = home.collate("stores", "--json")

    by_path = {store["path"]: store for store in listed.json["stores"]}
    assert set(shown_first) == {shown(path) for path in filled.stores}
    for path, name in shown_first.items():
        assert by_path[path]["name"] == name
        assert (by_path[path]["state"], by_path[path]["reason"]) == ("open", None)
    others = set(by_path) - set(shown_first)
    assert {Path(path).parts[-3:] for path in others} == {("pipe", ".contextpull", "store.sqlite")}


def test_a_new_project_beside_others_is_found_by_itself(filled: Filled, project: Project) -> None:
    home = filled.home
    home.collate("setup", "--yes")
    store = project(home.path / "src" / "newcomer")

    listed = home.collate("stores", "--json")

    assert str(store) in {each["path"] for each in listed.json["stores"]}
    assert home.collate("setup", "--yes", "--json").json["is_written"] is False


def test_the_home_itself_is_not_watched(filled: Filled) -> None:
    home = filled.home
    home.collate("setup", "--yes")

    watched = [entry["path"] for entry in tomllib.loads(home.config.read_text())["watch"]]

    assert str(home.path) not in watched
    assert str(home.path / "src") in watched


def test_a_second_run_changes_nothing(filled: Filled) -> None:
    assert filled.home.collate("setup", "--yes").code == 0
    before = filled.home.tree()

    ran = filled.home.collate("setup", "--yes")

    assert ran.code == 0
    assert "nothing to do" in ran.out
    assert filled.home.tree() == before


def test_undo_leaves_the_home_as_it_was(filled: Filled) -> None:
    home = filled.home
    before = home.tree()
    home.collate("setup", "--yes")
    assert home.tree() != before

    ran = home.collate("setup", "--undo", "--yes")

    assert (ran.code, ran.err) == (0, "")
    assert home.tree() == before
    again = home.collate("setup", "--undo", "--yes")
    assert (again.code, again.err) == (1, "collate: nothing to undo: no setup is on record\n")
    assert home.tree() == before


def test_nothing_that_is_shown_reaches_a_terminal_raw(filled: Filled) -> None:
    code, text = filled.home.at_terminal("setup", "--yes")

    assert code == 0
    assert "esc\x1b" not in text
    assert "\u202e" not in text
    assert "esc\\x1b[31m\\u202e" in text.replace("\r\n", "")


# --------------------------------------------------------------------------- configuration that is there


MINE = b"# mine\r\n[search]\r\ndeadline_s = 5.0\r\n\r\n[[watch]]\npath = '~/nothing'"


def test_a_configuration_that_is_there_is_added_to_and_kept(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")
    empty_home.config.parent.mkdir(parents=True)
    empty_home.config.write_bytes(MINE)
    empty_home.config.chmod(0o640)
    before = empty_home.tree()

    assert empty_home.collate("setup", "--yes").code == 0

    assert empty_home.config.read_bytes().startswith(MINE + b"\n\n# >>> collate setup >>>")
    assert MINE in [path.read_bytes() for path in (empty_home.state / "setup").iterdir()]
    assert len(tomllib.loads(empty_home.config.read_text())["watch"]) == 2
    assert empty_home.collate("setup", "--undo", "--yes").code == 0
    assert empty_home.tree() == before


def test_a_configuration_that_is_a_link_stays_one(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")
    real = empty_home.path / "dotfiles" / "collated.toml"
    real.parent.mkdir()
    real.write_bytes(MINE)
    empty_home.config.parent.mkdir(parents=True)
    empty_home.config.symlink_to(real)
    before = empty_home.tree()

    assert empty_home.collate("setup", "--yes").code == 0

    assert empty_home.config.is_symlink()
    assert real.read_bytes() != MINE
    assert empty_home.collate("setup", "--undo", "--yes").code == 0
    assert empty_home.tree() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[search]\nnonsense = 1\n", "nonsense"),
        (b"[search", "not valid TOML"),
        (b"\xff", "cannot be read"),
        (b"watch = [{path = '~/x'}]\n", "nothing can be added to"),
    ],
)
def test_a_configuration_that_cannot_be_added_to_is_left_alone(
    empty_home: Home, project: Project, text: bytes, said: str
) -> None:
    project(empty_home.path / "src" / "a")
    empty_home.config.parent.mkdir(parents=True)
    empty_home.config.write_bytes(text)
    before = empty_home.tree()

    ran = empty_home.collate("setup", "--yes")

    assert ran.code == 2
    assert said in ran.err
    assert empty_home.tree() == before


def test_what_was_added_is_cut_out_of_a_configuration_that_was_edited_since(
    empty_home: Home, project: Project
) -> None:
    project(empty_home.path / "src" / "a")
    empty_home.collate("setup", "--yes")
    with empty_home.config.open("a") as file:
        file.write("# by hand\n")

    assert empty_home.collate("setup", "--undo", "--yes").code == 0

    assert empty_home.config.read_text() == "# by hand\n"


def test_a_configuration_whose_entries_were_changed_since_is_kept_and_named(
    empty_home: Home, project: Project
) -> None:
    project(empty_home.path / "src" / "a")
    empty_home.collate("setup", "--yes")
    empty_home.config.write_text(empty_home.config.read_text().replace("[[watch]]", "[[watch]] # by hand"))
    edited = empty_home.config.read_bytes()

    ran = empty_home.collate("setup", "--undo", "--yes")

    assert ran.code == 3
    assert f"kept {empty_home.config}: it was changed since" in ran.err
    assert empty_home.config.read_bytes() == edited


def test_a_later_run_adds_what_is_new_and_undo_takes_back_both(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")
    before = empty_home.tree()
    empty_home.collate("setup", "--yes")
    late = project(empty_home.path / "later")

    ran = empty_home.collate("setup", "--yes", "--json")

    assert {store["path"] for store in ran.json["stores"] if store["is_new"]} == {str(late)}
    assert empty_home.config.read_text().count(">>> collate setup >>>") == 2
    assert empty_home.collate("setup", "--undo", "--yes").code == 0
    shutil.rmtree(empty_home.path / "later")
    assert empty_home.tree() == before


def test_a_daemon_that_runs_is_told_at_once(empty_home: Home, project: Project) -> None:
    assert empty_home.collate("stores", "--json").json["stores"] == []
    project(empty_home.path / "src" / "a")

    empty_home.collate("setup", "--yes")

    assert [each["name"] for each in empty_home.collate("stores", "--json", "--no-spawn").json["stores"]] == [
        "a"
    ]
    empty_home.collate("setup", "--undo", "--yes")
    assert empty_home.collate("stores", "--json", "--no-spawn").json["stores"] == []
