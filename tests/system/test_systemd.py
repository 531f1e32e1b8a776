"""The units, run by a real `systemd --user` in namespaces of its own (ENGINEERING §6)."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.user_manager import DEADLINE_S, entering, user_manager

import collated
import collated_readers

pytestmark = pytest.mark.slow

UNITS = Path(__file__).parents[2] / "systemd"
CONFINED = Path(__file__).parent / "confined"


def until(condition: Callable[[], object], what: Callable[[], object]) -> None:
    """Return once *condition* holds; fail after DEADLINE_S with *what* there is instead."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


class Manager:
    """A user manager with the units installed, seen from outside its namespaces."""

    def __init__(self, base: Path) -> None:
        """Lay out a home below *base*, whose path is short enough for a socket's."""
        self.home = base / "home"
        self.runtime = base / "run"
        self.socket = self.runtime / "collated" / "collated.sock"
        self.units = self.home / ".config" / "systemd" / "user"
        self.inside = 0
        places = {Path(package.__path__[0]).parent for package in (collated, collated_readers)}
        self.environ = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }

    def install(self) -> None:
        """Put the units and the command where a person would have them; the log goes to ~/log."""
        self.runtime.mkdir(mode=0o700)
        self.units.mkdir(parents=True)
        for unit in ("collated.service", "collated.socket"):
            shutil.copy(UNITS / unit, self.units)
        (self.units / "default.target").write_text("[Unit]\nDescription=nothing\n")
        self.override("collated.service", "StandardError=append:%h/log")
        command = self.home / ".local" / "bin" / "collated"
        command.parent.mkdir(parents=True)
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m collated "$@"\n')
        command.chmod(0o755)

    def override(self, unit: str, *lines: str) -> None:
        """Replace the drop-in of *unit* by a [Service] section of *lines*."""
        drop_in = self.units / f"{unit}.d" / "test.conf"
        drop_in.parent.mkdir(exist_ok=True)
        drop_in.write_text("\n".join(["[Service]", *lines, ""]))

    def run(self, *command: str) -> str:
        """Run *command* as the manager's user inside its namespaces and return what it printed."""
        ran = subprocess.run(
            [*entering(self.inside), *command],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert ran.returncode == 0, f"{command}: {ran.stderr}{self.log()}"
        return ran.stdout

    def systemctl(self, *arguments: str) -> str:
        return self.run("systemctl", "--user", *arguments)

    def show(self, name: str, unit: str = "collated.service") -> str:
        return self.systemctl("show", "--value", f"--property={name}", unit).strip()

    def log(self) -> str:
        file = self.home / "log"
        return file.read_text(errors="replace") if file.exists() else ""

    def ask(self, method: str) -> dict[str, Any]:
        """Connect, send one request as a line of JSON and return the answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(DEADLINE_S)
            client.connect(str(self.socket))
            client.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode() + b"\n")
            line = client.makefile("rb").readline()
        assert line, f"the connection was closed without an answer\n{self.log()}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def process(self) -> int:
        """Return the daemon's process id as its own namespace sees it."""
        answer = self.ask("status")
        return int(answer["result"]["pid"])


@pytest.fixture(scope="module")
def running() -> Iterator[Manager]:
    with tempfile.TemporaryDirectory(prefix="collated-") as base:
        manager = Manager(Path(base))
        manager.install()
        with user_manager(manager.environ) as manager.inside:
            yield manager


@pytest.fixture
def manager(running: Manager) -> Iterator[Manager]:
    """The manager with the socket listening and no daemon yet; afterwards both are stopped again."""
    running.systemctl("daemon-reload")
    running.systemctl("start", "collated.socket")
    yield running
    running.systemctl("stop", "collated.socket", "collated.service")
    running.systemctl("reset-failed")
    running.override("collated.service", "StandardError=append:%h/log")
    (running.home / "log").unlink(missing_ok=True)


def test_the_units_are_free_of_faults(running: Manager) -> None:
    for unit in ("collated.service", "collated.socket"):
        ran = subprocess.run(
            ["systemd-analyze", "--user", "--man=no", "verify", str(UNITS / unit)],
            env=running.environ,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_first_question_starts_the_daemon(manager: Manager) -> None:
    assert manager.show("ActiveState") == "inactive"
    assert (manager.socket.stat().st_mode & 0o777, manager.socket.parent.stat().st_mode & 0o777) == (
        0o600,
        0o700,
    )

    assert manager.ask("ping")["result"] == {}

    assert manager.show("ActiveState") == "active"
    assert manager.process() == int(manager.show("MainPID"))


def test_a_command_starts_the_daemon_through_its_socket_unit(manager: Manager) -> None:
    manager.systemctl("stop", "collated.socket")
    assert not manager.socket.exists()

    command = "import sys; from collated.cli import main; sys.exit(main())"
    answer = json.loads(manager.run(sys.executable, "-c", command, "status", "--json"))

    assert manager.show("ActiveState", "collated.socket") == "active"
    assert answer["pid"] == int(manager.show("MainPID"))
    assert not (manager.home / ".local" / "state" / "collated" / "daemon.log").exists()


def test_the_manager_shows_how_many_stores_are_open(manager: Manager) -> None:
    manager.systemctl("start", "collated.service")  # returns when the daemon says READY=1

    assert manager.show("SubState") == "running"
    until(
        lambda: manager.show("StatusText") == "0 of 0 stores open",
        lambda: f"{manager.show('StatusText')}{manager.log()}",
    )


def test_a_reload_reads_the_configuration_again_and_keeps_the_old_one_when_it_is_refused(
    manager: Manager,
) -> None:
    config = manager.home / ".config" / "collated" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    manager.ask("ping")
    process = manager.process()

    config.write_text("[server]\nnonsense = 1\n")
    manager.systemctl("reload", "collated.service")
    until(lambda: "nonsense" in manager.show("StatusText"), manager.log)
    config.unlink()
    manager.systemctl("reload", "collated.service")
    until(lambda: "refused" not in manager.show("StatusText"), manager.log)

    assert manager.process() == process
    assert manager.show("ActiveState") == "active"


def test_a_restart_keeps_the_socket_and_whoever_connects_meanwhile_is_answered(manager: Manager) -> None:
    manager.ask("ping")
    before, socket_file = manager.process(), manager.socket.stat().st_ino

    manager.systemctl("restart", "--no-block", "collated.service")
    answers = [manager.ask("status")]
    while answers[-1].get("result", {"pid": before})["pid"] == before:
        answers.append(manager.ask("status"))

    # Who was connected before the end is told so; all others wait for the new daemon.
    told = [answer["error"]["data"]["code"] for answer in answers if "error" in answer]
    assert set(told) <= {"draining"}
    assert manager.socket.stat().st_ino == socket_file


def test_a_stop_is_clean_and_the_next_question_starts_a_new_daemon(manager: Manager) -> None:
    manager.ask("ping")
    process = manager.process()

    manager.systemctl("stop", "collated.service")

    assert (manager.show("Result"), manager.show("ExecMainStatus")) == ("success", "0")
    assert manager.ask("ping")["result"] == {}
    assert manager.process() != process


def test_a_stopped_socket_leaves_no_file_behind(manager: Manager) -> None:
    manager.ask("ping")

    manager.systemctl("stop", "collated.socket")

    assert not manager.socket.exists()
    until(lambda: manager.show("ActiveState") == "inactive", manager.log)


BY_HAND = [sys.executable, "-m", "collated", "run"]


def test_a_daemon_started_by_hand_does_not_steal_the_socket(manager: Manager) -> None:
    for is_running in (False, True):
        if is_running:
            manager.ask("ping")
        socket_file = manager.socket.stat().st_ino

        ran = subprocess.run(
            BY_HAND, env=manager.environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

        assert (ran.returncode, "already listens" in ran.stderr) == (78, True), ran.stderr
        assert manager.socket.stat().st_ino == socket_file


def test_the_socket_unit_takes_over_from_a_daemon_started_by_hand(manager: Manager) -> None:
    manager.systemctl("stop", "collated.socket")
    by_hand = subprocess.Popen(BY_HAND, env=manager.environ, stderr=subprocess.DEVNULL)
    try:
        until(manager.socket.exists, manager.log)
        manager.systemctl("start", "collated.socket")

        assert manager.process() == int(manager.show("MainPID"))
        by_hand.terminate()
        assert by_hand.wait(DEADLINE_S) == 0
        assert manager.ask("ping")["result"] == {}
    finally:
        by_hand.kill()
        by_hand.wait()


def test_a_daemon_that_hangs_is_killed_by_the_watchdog_and_started_again(manager: Manager) -> None:
    manager.override("collated.service", "StandardError=append:%h/log", "WatchdogSec=2")
    manager.systemctl("daemon-reload")
    manager.ask("ping")
    process = manager.process()

    manager.run("kill", "-STOP", str(process))

    until(lambda: manager.show("MainPID") not in {"0", str(process)}, manager.log)
    assert manager.show("NRestarts") == "1"
    assert manager.process() != process


def test_a_refused_configuration_is_not_tried_again_and_again(manager: Manager) -> None:
    config = manager.home / ".config" / "collated" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("[server]\nnonsense = 1\n")
    try:
        with pytest.raises(AssertionError, match="nonsense"):
            manager.systemctl("start", "collated.service")

        assert (manager.show("ActiveState"), manager.show("NRestarts")) == ("failed", "0")
    finally:
        config.unlink()


def test_the_daemon_runs_confined(manager: Manager) -> None:
    status = manager.run("cat", f"/proc/{manager.process()}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)

    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    assert int(fields["CapEff"], 16) == 0
    assert fields["Umask"] == "0077"


def probe(manager: Manager, name: str, unit: str, *lines: str) -> dict[str, Any]:
    """Run probe.py once as a service made of *unit* and *lines*, and return what it found."""
    (manager.units / f"{name}.service").write_text(unit)
    manager.override(
        f"{name}.service",
        "Type=oneshot",
        "ExecStart=",
        f"ExecStart={sys.executable} {CONFINED / 'probe.py'}",
        f"StandardOutput=file:%h/{name}.json",
        "StandardError=append:%h/log",
        *lines,
    )
    manager.systemctl("daemon-reload")
    manager.systemctl("start", f"{name}.service")
    found: dict[str, Any] = json.loads((manager.home / f"{name}.json").read_text())
    return found


def test_the_hardening_takes_effect_and_takes_nothing_that_is_needed(manager: Manager) -> None:
    unit = (UNITS / "collated.service").read_text()

    free = probe(manager, "free", "[Service]\n")
    confined = probe(manager, "confined", unit, "Restart=no", "WatchdogSec=0")

    assert set(free["harmful"].values()) == {"allowed"}, free  # else the refusals below would prove nothing
    assert set(confined["harmful"].values()) == {"refused"}, confined
    assert set(confined["needed"].values()) == {"allowed"}, confined
    assert confined["umask"] == "0o77"
