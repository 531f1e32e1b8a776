"""`collate setup` where a real `systemd --user` runs: in namespaces of its own, as in test_systemd.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.system.processes import COLLATE
from tests.system.user_manager import entering, user_manager

if TYPE_CHECKING:
    from tests.system.setup.conftest import Home, Tree

    Project = Callable[..., Path]

pytestmark = pytest.mark.slow


class Managed:
    """A home whose user manager runs; commands run inside of its namespaces."""

    def __init__(self, home: Home, inside: int) -> None:
        self.home = home
        self.units = home.path / ".config" / "systemd" / "user"
        self._enter = entering(inside)

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._enter, *command],
            env={**self.home.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def collate(self, *typed: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-c", COLLATE, *typed, **environ)

    def state(self, verb: str, unit: str) -> str:
        return self.run("systemctl", "--user", verb, unit).stdout.strip()

    def states(self) -> list[str]:
        return [self.state("is-active", f"collated.{kind}") for kind in ("socket", "service")]

    def stores(self) -> Any:
        ran = self.collate("stores", "--json", "--no-spawn")
        assert ran.returncode in (0, 1), ran.stderr
        return [store["name"] for store in json.loads(ran.stdout)["stores"]]

    def tree(self) -> Tree:
        """Return what is in the home but for what the daemon itself keeps there."""
        own = (b".cache", b".local")
        return {path: entry for path, entry in self.home.tree().items() if path.split(b"/")[0] not in own}


def make_command(folder: Path) -> Path:
    folder.mkdir(parents=True)
    command = folder / "collated"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m collated "$@"\n')
    command.chmod(0o755)
    return command


@pytest.fixture
def managed(empty_home: Home, project: Project) -> Iterator[Managed]:
    """The manager of a home with one store."""
    units = empty_home.path / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "default.target").write_text("[Unit]\nDescription=nothing\n")
    project(empty_home.path / "src" / "handbook")
    with user_manager(empty_home.environ) as inside:
        yield Managed(empty_home, inside)


def at(command: Path) -> Mapping[str, str]:
    """Return the environment in which *command* is the one in use."""
    return {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_service_is_installed_started_and_taken_back(managed: Managed) -> None:
    usual = at(make_command(managed.home.path / ".local" / "bin"))
    before = managed.tree()

    ran = managed.collate("setup", "--yes", **usual)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert managed.states() == ["active", "active"]
    assert managed.state("is-enabled", "collated.socket") == "enabled"
    assert managed.state("is-enabled", "collated.service") == "enabled"
    assert not (managed.units / "collated.service.d").exists()
    assert managed.stores() == ["handbook"]

    set_up = managed.tree()
    again = managed.collate("setup", "--yes", **usual)
    assert "nothing to do" in again.stdout
    assert managed.tree() == set_up

    undone = managed.collate("setup", "--undo", "--yes", **usual)
    assert (undone.returncode, undone.stderr) == (0, "")
    assert managed.states() == ["inactive", "inactive"]
    assert managed.state("is-enabled", "collated.socket") in ("", "not-found")
    assert managed.tree() == before


def test_a_command_elsewhere_is_named_in_a_drop_in(managed: Managed) -> None:
    command = make_command(managed.home.path / "my env" / "bin")
    before = managed.tree()

    ran = managed.collate("setup", "--yes", **at(command))

    assert (ran.returncode, ran.stderr) == (0, "")
    assert managed.stores() == ["handbook"]
    drop_in = managed.units / "collated.service.d" / "collate-setup.conf"
    assert f'ExecStart="{command}" run' in drop_in.read_text()
    assert managed.collate("setup", "--undo", "--yes", **at(command)).returncode == 0
    assert managed.tree() == before


def test_a_daemon_that_a_command_started_gives_way(managed: Managed) -> None:
    usual = at(make_command(managed.home.path / ".local" / "bin"))
    first = json.loads(managed.collate("status", "--json", COLLATE_SOCKET="", **usual).stdout)["pid"]

    managed.collate("setup", "--yes", **usual)

    assert managed.stores() == ["handbook"]
    second = json.loads(managed.collate("status", "--json").stdout)["pid"]
    managed.run("kill", str(first))
    assert first != second


def test_a_service_that_was_there_before_is_left_alone(managed: Managed) -> None:
    usual = at(make_command(managed.home.path / ".local" / "bin"))
    for unit in (Path(__file__).parents[3] / "systemd").iterdir():
        shutil.copyfile(unit, managed.units / unit.name)
    managed.run("systemctl", "--user", "daemon-reload")

    ran = managed.collate("setup", "--yes", **usual)

    assert ran.returncode == 0
    assert "installed before: collated.socket is disabled" in ran.stdout
    managed.collate("setup", "--undo", "--yes", **usual)
    assert (managed.units / "collated.socket").exists()


def test_a_unit_that_was_changed_by_hand_stays(managed: Managed) -> None:
    usual = at(make_command(managed.home.path / ".local" / "bin"))
    managed.collate("setup", "--yes", **usual)
    unit = managed.units / "collated.service"
    unit.write_text(unit.read_text() + "# by hand\n")

    assert "nothing to do" in managed.collate("setup", "--yes", **usual).stdout

    undone = managed.collate("setup", "--undo", "--yes", **usual)
    assert undone.returncode == 3
    assert f"kept {unit}: it was changed since" in undone.stderr
    assert unit.read_text().endswith("# by hand\n")


def test_a_service_that_does_not_start_is_told(managed: Managed) -> None:
    command = make_command(managed.home.path / ".local" / "bin")
    command.write_text("#!/bin/sh\nexit 1\n")

    ran = managed.collate("setup", "--yes", **at(command))

    assert ran.returncode == 3
    assert "the service was installed but does not start" in ran.stderr
    assert managed.collate("setup", "--undo", "--yes", **at(command)).returncode == 0
    assert not (managed.units / "collated.socket").exists()


@pytest.mark.parametrize("name", ["COLLATE_SOCKET", "COLLATE_CONFIG"])
def test_what_a_service_would_not_know_of_makes_none(managed: Managed, name: str) -> None:
    ran = managed.collate("setup", "--yes", **{name: str(managed.home.path / "x")})

    assert ran.returncode == 0, ran.stderr
    assert f"no service: it would not know of {name}" in ran.stdout
    assert not (managed.units / "collated.socket").exists()
