"""`collate setup` on a whole home: found, written once, taken back, and believed by a real daemon."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.mcp.configs import AGENTS, where

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


def test_a_configuration_that_was_changed_since_is_kept_and_named(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")
    empty_home.collate("setup", "--yes")
    with empty_home.config.open("a") as file:
        file.write("# by hand\n")
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


# --------------------------------------------------------------------------- what is typed


def test_only_the_folders_that_are_named_are_looked_into(empty_home: Home, project: Project) -> None:
    one, _other = project(empty_home.path / "src" / "a"), project(empty_home.path / "src" / "b")

    ran = empty_home.collate("setup", str(empty_home.path / "src" / "a"), "--dry-run", "--json")

    assert [store["path"] for store in ran.json["stores"]] == [str(one)]
    assert f'path = "{empty_home.path}/src/a"' in ran.json["added"]


def test_a_depth_is_kept_to(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")

    assert empty_home.collate("setup", "--depth", "1", "--dry-run").code == 1
    assert empty_home.collate("setup", "--depth", "2", "--dry-run").code == 0
    assert empty_home.collate("setup", "--depth", "-1", "--dry-run").code == 1


def test_a_home_without_stores_is_told_what_to_do(empty_home: Home) -> None:
    before = empty_home.tree()

    ran = empty_home.collate("setup", "--yes")

    assert ran.code == 1
    assert "contextpull ingest" in ran.err
    assert empty_home.tree() == before


def test_a_root_that_is_none_is_refused(empty_home: Home) -> None:
    for root in ("nowhere", "\x1b[31m"):
        ran = empty_home.collate("setup", root)
        assert (ran.code, ran.out) == (2, "")
        assert "is no folder" in ran.err
        assert "\x1b" not in ran.err


@pytest.mark.parametrize("undo", [(), ("--undo",)])
def test_without_a_yes_nothing_is_written(empty_home: Home, project: Project, undo: Sequence[str]) -> None:
    project(empty_home.path / "src" / "a")
    if undo:
        empty_home.collate("setup", "--yes")
    before = empty_home.tree()

    ran = empty_home.collate("setup", *undo)

    assert ran.code == 2
    assert "nothing was written; --yes does it" in ran.err
    assert empty_home.at_terminal("setup", *undo, answer="n\n")[0] == 2
    assert empty_home.at_terminal("setup", *undo, answer="\n")[0] == 2
    assert empty_home.tree() == before
    assert empty_home.at_terminal("setup", *undo, answer="y\n")[0] == 0
    assert empty_home.tree() != before


def test_a_dry_undo_changes_nothing(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")
    empty_home.collate("setup", "--yes")
    before = empty_home.tree()

    ran = empty_home.collate("setup", "--undo", "--dry-run")

    assert ran.code == 0
    assert str(empty_home.config) in ran.out
    assert empty_home.tree() == before


def test_without_a_service_manager_it_says_so_and_goes_on(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")

    ran = empty_home.collate("setup", "--yes", PATH=str(empty_home.path))

    assert ran.code == 0
    assert "no user service manager runs here; the commands start the daemon by themselves" in ran.out
    assert "no service, as you said" in empty_home.collate("setup", "--yes", "--no-service").out


def test_the_lines_for_every_agent_are_printed(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")

    ran = empty_home.collate("setup", "--yes")

    for agent in AGENTS:
        assert f"for {agent}, {where(agent)}" in ran.out
    assert "claude mcp add --scope user collated -- /" in ran.out


def run(home: Home, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=home.environ, capture_output=True, text=True, timeout=30, check=False)


def test_the_lines_name_the_command_that_was_typed(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")
    command = empty_home.path / "my bin" / "collate"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom collated.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)

    ran = run(empty_home, command, "setup", "--yes")

    assert f"claude mcp add --scope user collated -- '{command}' mcp" in ran.stdout, ran.stderr


def test_what_is_edited_while_it_asks_is_not_written_over(empty_home: Home, project: Project) -> None:
    project(empty_home.path / "src" / "a")
    code = (
        "import pathlib, sys\n"
        "from collated.cli import main\n"
        "class Person:\n"
        "    def isatty(self): return True\n"
        "    def readline(self):\n"
        "        path = pathlib.Path(sys.argv[1])\n"
        "        path.parent.mkdir(parents=True)\n"
        "        path.write_text('# mine')\n"
        "        return 'y'\n"
        "sys.stdin = Person()\n"
        "sys.exit(main(['setup']))"
    )

    ran = run(empty_home, sys.executable, "-c", code, empty_home.config)

    assert ran.returncode == 2
    assert "was changed meanwhile" in ran.stderr
    assert empty_home.config.read_text() == "# mine"


def test_two_at_once_do_not_undo_each_other(empty_home: Home, project: Project) -> None:
    for number in range(20):
        project(empty_home.path / "src" / str(number))
    before = empty_home.tree()
    command = [sys.executable, "-c", "import sys; from collated.cli import main; sys.exit(main())"]

    both = [
        subprocess.Popen(
            [*command, "setup", "--yes"],
            env=empty_home.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]

    assert 0 in [process.wait(30) for process in both]
    assert empty_home.config.read_text().count(">>> collate setup >>>") == 1
    assert empty_home.collate("setup", "--undo", "--yes").code == 0
    assert empty_home.tree() == before


def test_folders_that_may_not_be_read_are_named(
    empty_home: Home, project: Project, unprivileged: Sequence[str]
) -> None:
    project(empty_home.path / "src" / "a")
    project(empty_home.path / "private" / "diary")
    (empty_home.path / "private").chmod(0)
    try:
        ran = empty_home.collate("setup", "--yes", "--json", wrapper=unprivileged)
        assert ran.code == 0, ran.err
        assert [store["name"] for store in ran.json["stores"]] == ["a"]
        assert ran.json["left_out"] == {str(empty_home.path / "private"): "Permission denied"}
    finally:
        (empty_home.path / "private").chmod(0o700)


def test_a_disk_that_takes_no_file_is_told_and_nothing_is_lost(
    empty_home: Home, project: Project, unprivileged: Sequence[str]
) -> None:
    project(empty_home.path / "src" / "a")
    empty_home.config.parent.mkdir(parents=True)
    empty_home.config.write_bytes(MINE)
    empty_home.config.parent.chmod(0o500)
    before = empty_home.tree()
    try:
        ran = empty_home.collate("setup", "--yes", wrapper=unprivileged)
        assert ran.code == 2
        assert "Permission denied" in ran.err
        assert "Traceback" not in ran.err
        assert empty_home.collate("setup", "--undo", "--yes", wrapper=unprivileged).code == 0
        assert empty_home.tree() == before
    finally:
        empty_home.config.parent.chmod(0o700)


def test_interrupted_it_ends_and_leaves_nothing(filled: Filled) -> None:
    before = filled.home.tree()
    code = (
        "import os, signal, sys\n"
        "from collated.cli import main\n"
        "def audit(event, _): event == 'os.scandir' and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(audit)\n"
        "sys.exit(main(['setup', '--yes']))"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code], env=filled.home.environ, capture_output=True, timeout=30, check=False
    )

    assert ran.returncode in (130, -signal.SIGINT), ran.stderr
    assert b"Traceback" not in ran.stderr
    assert filled.home.tree() == before
