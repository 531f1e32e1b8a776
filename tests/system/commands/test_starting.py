"""A command starts the daemon when nothing listens, once, and says so when it cannot."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from collated.claim import is_listening

if TYPE_CHECKING:
    from tests.system.commands.conftest import Collate, StartCollate
    from tests.system.conftest import Daemon

TIMEOUT_S = 30


def starts(home: Daemon) -> int:
    return log_of(home).count('"listening"')


def log_of(home: Daemon) -> str:
    log = home.state / "daemon.log"
    return log.read_text(encoding="utf-8") if log.exists() else ""


def test_the_daemon_is_started_when_nothing_listens(home: Daemon, collate: Collate) -> None:
    ran = collate(home, "stores")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "collate: no stores; add one with `collate add PATH`\n"
    status = collate(home, "status", "--json").json
    assert status["socket"] == str(home.socket)
    assert os.getsid(status["pid"]) == status["pid"]
    assert stat.S_IMODE(home.socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.state / "daemon.log").stat().st_mode) == 0o600
    assert starts(home) == 1


def test_many_at_once_start_one_daemon(home: Daemon, start_collate: StartCollate) -> None:
    processes = [start_collate(home, "status", "--json") for _ in range(5)]
    answers = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 5
    assert len({json.loads(answer)["pid"] for answer in answers}) == 1
    assert starts(home) == 1


def test_a_daemon_that_a_command_started_leaves_when_it_is_idle(home: Daemon, collate: Collate) -> None:
    home.configure("[server]\nidle_exit_s = 0.3\n")
    pid = collate(home, "status", "--json").json["pid"]
    descriptor = os.pidfd_open(pid)
    try:
        assert select.select([descriptor], [], [], TIMEOUT_S)[0]
    finally:
        os.close(descriptor)
    assert "idle_exit" in log_of(home)


def test_a_command_waits_for_a_daemon_that_is_still_answering_its_last_request(
    home: Daemon, make_slow_store: Callable[[Path], Path], slow_query: str, collate: Collate
) -> None:
    make_slow_store(home.stores / "slow.sqlite")
    home.start()
    home.wait_state("slow", "open")
    with home.client() as client:
        client.send("search", query=slow_query, deadline_ms=1_500)
        home.wait_for(lambda: home.ask("status")["in_flight"] > 0, what="the request to be accepted")
        os.kill(home.pid, signal.SIGTERM)
        home.wait_for(lambda: not is_listening(home.socket), what="the daemon to stop listening")
        ran = collate(home, "status", "--json")
        assert client.receive()["error"]["data"]["code"] == "deadline_exceeded"
    assert ran.code == 0, ran.err
    assert ran.json["pid"] != home.pid
    assert "socket_taken" in log_of(home)


def test_a_command_is_refused_a_start_and_says_how_to(home: Daemon, collate: Collate) -> None:
    ran = collate(home, "stores", "--no-spawn")
    assert (ran.code, ran.out) == (69, "")
    assert f"no daemon listens at {home.socket}" in ran.err
    assert "`collated run`" in ran.err
    assert not home.socket.parent.exists()


def test_a_daemon_that_does_not_start_has_its_own_words_shown(home: Daemon, collate: Collate) -> None:
    home.configure("[search]\ndeadline_s = 0\n")
    ran = collate(home, "stores")
    assert ran.code == 69
    assert "the daemon did not start" in ran.err
    assert "search.deadline_s is 0.0; it must be between" in ran.err
    home.configure("")
    assert collate(home, "stores").code == 1
    home.configure("[search]\ndeadline_s = 0\n")


def test_a_configuration_that_hides_the_socket_is_told_at_once(home: Daemon, collate: Collate) -> None:
    home.configure("[server]\nsokcet = 'x'\n")
    environ = {"COLLATE_SOCKET": ""}
    ran = collate(home, "stores", **environ)
    assert (ran.code, ran.out) == (2, "")
    assert "sokcet" in ran.err
    home.configure("")


def test_the_socket_comes_from_the_option_the_environment_or_the_configuration(
    home: Daemon, collate: Collate, end: Callable[[int], None]
) -> None:
    other = home.base / "run" / "other"
    home.configure(f"[server]\nsocket = '{other}'\n")
    pid = collate(home, "status", "--json", COLLATE_SOCKET="").json["pid"]
    try:
        assert collate(home, "status", "--json", "--socket", str(other)).json["pid"] == pid
        assert collate(home, "status", "--json", COLLATE_SOCKET=str(other)).json["pid"] == pid
        assert collate(home, "status", "--no-spawn").code == 69
        relative = os.path.relpath(other)
        assert collate(home, "status", "--json", "--socket", relative).json["pid"] == pid
        assert collate(home, "status", "--json", COLLATE_SOCKET=relative).json["pid"] == pid
    finally:
        end(pid)


def test_a_directory_that_others_may_write_to_is_no_place_for_the_socket(
    home: Daemon, collate: Collate
) -> None:
    home.socket.parent.mkdir()
    home.socket.parent.chmod(0o777)
    ran = collate(home, "stores")
    assert ran.code == 69
    assert f"chmod 700 {home.socket.parent}" in ran.err


def test_what_a_directory_holds_is_never_run_by_a_command_typed_there(home: Daemon, tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('run from the current directory')")
    (tmp_path / "collated.py").write_text("raise SystemExit('run from the current directory')")
    packages = [
        str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part
    ]
    ran = subprocess.run(
        [sys.executable, "-P", "-c", "import sys; from collated.cli import main; sys.exit(main())", "stores"],
        env={**home.environ, "PYTHONPATH": os.pathsep.join(packages)},
        cwd=tmp_path,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ran.returncode, b"current directory" in ran.stderr) == (1, False)


def test_the_configuration_is_checked(home: Daemon, collate: Collate) -> None:
    ran = collate(home, "check", program="collated")
    assert (ran.code, ran.out, ran.err) == (0, f"{home.config} is valid\n", "")
    home.configure("[[watch]]\npath = '/nonexistent'\n")
    assert "/nonexistent is watched and is no directory" in collate(home, "check", program="collated").err
    home.configure("[search]\ndeadlines = 1\n")
    bad = collate(home, "check", "--config", str(home.config), program="collated")
    assert (bad.code, bad.out) == (2, "")
    assert "deadlines" in bad.err
    missing = collate(home, "check", "--config", "nowhere.toml", program="collated")
    assert (missing.code, "there is no configuration file" in missing.err) == (2, True)
    home.configure("")
    assert (
        "every setting is at its default" in collate(home, "check", program="collated", COLLATE_CONFIG="").out
    )
