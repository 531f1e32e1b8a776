"""What is typed at `collate setup`, who sits there, and what the machine does not allow."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.mcp.configs import AGENTS, where

if TYPE_CHECKING:
    from tests.system.setup.conftest import Filled, Home

    Project = Callable[..., Path]

pytestmark = pytest.mark.slow

MINE = b"# mine\r\n[search]\r\ndeadline_s = 5.0\r\n\r\n[[watch]]\npath = '~/nothing'"


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
