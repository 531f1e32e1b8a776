"""The daemon put together, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.daemon.conftest import PutStore

pytestmark = pytest.mark.slow

# What `collated run` does, without the command line.
PROGRAM = """
import os, sys
from pathlib import Path
from collated.app import run
from collated.places import load_settings
config = Path(sys.argv[1])
settings = load_settings(config, os.environ)
sys.exit(run(settings, config=config, environ=os.environ, idle_exit_s=float(sys.argv[2])))
"""


class Process:
    """A daemon with directories of its own, and the one connection of a simple client."""

    def __init__(self, root: Path, config: str, idle_exit_s: float) -> None:
        self.config = root / "config.toml"
        self.config.write_text(config, encoding="utf-8")
        self.socket = root / "s"
        self._log = root / f"log-{time.monotonic_ns()}"
        places = {
            f"XDG_{name}_HOME": str(root / name.lower()) for name in ("STATE", "CACHE", "DATA", "CONFIG")
        }
        environ = {**os.environ, **places, "COLLATE_SOCKET": str(self.socket)}
        environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        for name in "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "COLLATE_CONFIG", "JOURNAL_STREAM":
            environ.pop(name, None)
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(self.config), str(idle_exit_s)], env=environ, stderr=log
            )

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]

    def wait_for(self, event: str, times: int = 1) -> dict[str, Any]:
        """Return the *times*-th event of that name that the daemon has logged."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = [each for each in self.events() if each["event"] == event]
            if len(found) >= times:
                return found[times - 1]
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.01)
        raise AssertionError(f"no {event} in {self._log.read_text()}")

    def ask(self, method: str, **params: object) -> Any:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(self.socket))
            client.sendall(json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n")
            with client.makefile("rb") as replies:
                return json.loads(replies.readline())

    def end(self) -> int:
        """Ask it to stop, and return the exit code."""
        self.process.terminate()
        return self.process.wait(20)


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(config="", idle_exit_s=0)` starts a daemon, whose end is waited for."""
    started: list[Process] = []

    def begin(config: str = "", idle_exit_s: float = 0.0) -> Process:
        started.append(Process(tmp_path, config, idle_exit_s))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait(20)


def test_the_daemon_answers_from_start_to_stop(start: Start, tmp_path: Path, put_store: PutStore) -> None:
    put_store(tmp_path / "data" / "collated" / "stores" / "fruit.sqlite", "fruit")
    daemon = start()
    assert daemon.wait_for("listening")["pid"] == daemon.process.pid

    found = daemon.ask("search", query="apple")["result"]
    assert [hit["ref"] for hit in found["hits"]] == ["fruit:apple.md#0"]
    assert daemon.ask("status")["result"]["pid"] == daemon.process.pid

    assert daemon.end() == 0
    assert daemon.wait_for("stopped")["unanswered"] == 0
    assert not daemon.socket.exists()


def test_a_second_daemon_is_refused_in_words_and_the_first_goes_on(start: Start) -> None:
    first = start()
    first.wait_for("listening")
    second = start()

    assert second.process.wait(20) == 78
    (refused,) = second.events()
    assert (refused["event"], refused["code"]) == ("start_refused", "socket_taken")
    assert f"process {first.process.pid}" in refused["message"]
    assert first.ask("ping")["result"] == {}


def test_a_daemon_that_nobody_comes_to_leaves(start: Start) -> None:
    daemon = start(idle_exit_s=0.1)

    assert daemon.process.wait(20) == 0
    assert [event["event"] for event in daemon.events()][-2:] == ["idle_exit", "stopped"]


def test_a_hangup_reads_the_configuration_again_and_keeps_the_old_one_when_it_is_wrong(start: Start) -> None:
    daemon = start("[search]\ndeadline_s = 3\n")
    daemon.wait_for("listening")

    daemon.config.write_text("[search]\ndeadline_s = 4\n[discovery]\nevents = false\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert daemon.wait_for("reloaded")["changed"] == ["discovery.events", "search.deadline_s"]
    assert daemon.wait_for("restart_needed")["key"] == "discovery.events"

    daemon.config.write_text("[search]\ndeadline = 5\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert "`deadline`" in daemon.wait_for("reload_refused")["message"]
    refused = daemon.ask("reload")["error"]
    assert refused["data"]["code"] == "invalid_params"
    assert "deadline" in daemon.ask("status")["result"]["config_error"]
    assert daemon.ask("initialize")["result"]["limits"]["deadline_s"] == 4.0

    daemon.config.write_text("[search]\ndeadline_s = 5\n")
    assert daemon.ask("reload")["result"]["settings"] == ["discovery.events", "search.deadline_s"]
    assert daemon.ask("status")["result"]["config_error"] is None
