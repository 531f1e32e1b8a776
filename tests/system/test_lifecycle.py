"""Starting, reloading, stopping and dying: who may have the socket, and what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import MakeStore, Program, Sql
    from tests.system.conftest import Daemon, MakeSlowStore, StartDaemon

pytestmark = pytest.mark.slow

REFUSED = 78  # EX_CONFIG
USAGE = 2
WORDS = {"a.md": "# A\n\nsound words\n"}


def _run(daemon: Daemon, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `collated run` beside *daemon*, in its environment, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "collated", "run", *arguments],
        env={**daemon.environ, **environ},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


# --------------------------------------------------------------------------- the socket


def test_the_socket_is_for_its_owner_alone_and_is_gone_at_the_end(daemon: Daemon) -> None:
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.socket.parent.stat().st_mode) == 0o700
    assert daemon.ask("status")["socket"] == str(daemon.socket)
    assert daemon.stop() == 0
    assert not daemon.socket.exists()


def test_a_second_daemon_is_refused_and_the_first_one_goes_on(daemon: Daemon) -> None:
    second = _run(daemon)
    assert second.returncode == REFUSED
    assert "socket_taken" in second.stderr
    assert f"process {daemon.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert daemon.ask("status")["pid"] == daemon.pid


def test_a_second_daemon_may_run_at_another_socket(daemon: Daemon, start_daemon: StartDaemon) -> None:
    second = start_daemon()
    assert daemon.ask("status")["pid"] == daemon.pid
    assert second.ask("status")["pid"] == second.pid


def test_the_socket_of_a_daemon_that_was_killed_is_taken_over(daemon: Daemon, make_store: MakeStore) -> None:
    make_store(daemon.stores / "good.sqlite", WORDS)
    daemon.wait_state("good", "open")
    assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
    assert daemon.socket.exists()
    with pytest.raises(ConnectionRefusedError):
        daemon.client()
    daemon.start()
    assert daemon.found("sound") == ["good:a.md#0"]


def test_a_file_in_the_sockets_place_is_taken_over(start_daemon: StartDaemon) -> None:
    daemon = start_daemon(is_launched=False)
    daemon.socket.parent.mkdir(mode=0o700)
    daemon.socket.write_text("not a socket", encoding="utf-8")
    daemon.start()
    assert daemon.ask("ping") == {}


@pytest.mark.parametrize("kind", ["writable by others", "a file", "below a file"])
def test_a_directory_that_is_not_safe_for_a_socket_is_refused_in_words(
    start_daemon: StartDaemon, kind: str
) -> None:
    daemon = start_daemon(is_launched=False)
    if kind == "writable by others":
        daemon.socket.parent.mkdir()
        daemon.socket.parent.chmod(0o777)
    else:
        daemon.socket.parent.touch()
    path = daemon.socket / "deeper" / "s" if kind == "below a file" else daemon.socket
    refused = _run(daemon, COLLATE_SOCKET=str(path))
    assert refused.returncode == REFUSED
    assert str(daemon.socket.parent) in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_socket_path_that_is_too_long_is_refused_in_words(start_daemon: StartDaemon) -> None:
    daemon = start_daemon(is_launched=False)
    refused = _run(daemon, COLLATE_SOCKET=str(daemon.base / ("x" * 100) / "s"))
    assert refused.returncode in (REFUSED, USAGE)
    assert "COLLATE_SOCKET" in refused.stderr
    assert "Traceback" not in refused.stderr


STRANGER = r"""
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
try:
    stream.sendall(b'{"id":1,"method":"ping"}\n')
    print(stream.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""


@pytest.mark.rule("per-request-admission", "credential-missing", "admission-refused")
def test_a_client_of_another_user_is_not_answered(daemon: Daemon, program: Program) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for path in (daemon.base, daemon.socket.parent):
        path.chmod(0o755)  # what a careless user may do
    daemon.socket.chmod(0o666)
    stranger = program(STRANGER, daemon.socket)
    answer, _ = stranger.communicate(timeout=20)
    assert answer.strip() == "b''"
    assert daemon.ask("ping") == {}
    assert "another user" in daemon.log


# --------------------------------------------------------------------------- the configuration


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[search]\ndeadlines = 2\n", "deadlines"),
        ("[surch]\n", "surch"),
        ("[[watch]]\npath = '/tmp'\nmatches = ['*']\n", "matches"),
        ("[search]\ndeadline_s = 'soon'\n", "deadline_s"),
        ("[server]\nmax_frame_bytes = 99999999\n", "max_frame_bytes"),
        ("[search\n", "line 1"),
    ],
)
def test_a_configuration_that_is_wrong_stops_the_start_and_names_the_key(
    start_daemon: StartDaemon, text: str, named: str
) -> None:
    daemon = start_daemon(text, is_launched=False)
    refused = _run(daemon)
    assert refused.returncode == USAGE
    assert named in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not daemon.socket.exists()


@pytest.mark.parametrize("by_signal", [False, True])
def test_a_reload_takes_a_right_configuration_and_keeps_the_old_one_otherwise(
    daemon: Daemon, make_store: MakeStore, by_signal: bool
) -> None:
    make_store(daemon.base / "more" / "more.sqlite", {"a.md": "# A\n\nfurther words\n"})
    daemon.configure(f'[search]\ndeadline_s = 3\n[[watch]]\npath = "{daemon.base / "more"}"\n')
    _reload(daemon, by_signal)
    daemon.wait_for(lambda: daemon.found("further") == ["more:a.md#0"], what="the new directory")
    with daemon.client() as client:
        assert client.ask("initialize")["limits"]["deadline_s"] == 3
        daemon.configure("[search]\ndeadline_seconds = 4\n")
        _reload(daemon, by_signal)
        daemon.wait_for(lambda: daemon.ask("status")["config_error"], what="the refusal")
        assert "deadline_seconds" in daemon.ask("status")["config_error"]
        assert client.ask("initialize")["limits"]["deadline_s"] == 3
        assert daemon.found("further") == ["more:a.md#0"]
        daemon.configure("")
        _reload(daemon, by_signal)
        daemon.wait_for(lambda: daemon.ask("status")["config_error"] is None, what="the new configuration")
        assert client.ask("initialize")["limits"]["deadline_s"] == 2
    daemon.wait_for(lambda: daemon.status_of("more") is None, what="the old directory to be left")


def _reload(daemon: Daemon, by_signal: bool) -> None:
    if by_signal:
        os.kill(daemon.pid, signal.SIGHUP)
        return
    try:
        daemon.ask("reload")
    except daemon.Error as refused:
        assert refused.code == "invalid_params"
        assert "deadline_seconds" in refused.message


def test_a_reload_says_what_changed(daemon: Daemon, make_store: MakeStore) -> None:
    make_store(daemon.base / "more" / "more.sqlite", WORDS)
    daemon.configure(f'[search]\ndeadline_s = 3\n[[watch]]\npath = "{daemon.base / "more"}"\n')
    changed = daemon.ask("reload")
    assert changed["settings"] == ["search.deadline_s", "watch"]
    assert changed["stores"] == {"added": ["more"], "changed": [], "removed": []}


# --------------------------------------------------------------------------- stopping


@pytest.fixture
def busy(start_daemon: StartDaemon, make_slow_store: MakeSlowStore) -> Daemon:
    """A daemon with a store that keeps a query busy for many seconds."""
    daemon = start_daemon("[server]\ndrain_s = 2\n", is_launched=False)
    make_slow_store(daemon.stores / "slow.sqlite")
    assert daemon.start().found("quick") == ["slow:a.md#0"]
    return daemon


@pytest.mark.rule("stop-drain", "draining-health")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_what_was_accepted_and_admits_nothing_new(
    busy: Daemon, slow_query: str, number: signal.Signals
) -> None:
    with busy.client() as client, busy.client() as other:
        other.ask("ping")
        accepted = client.send("search", query=slow_query, deadline_ms=1_500)
        busy.wait_for(lambda: busy.ask("status")["in_flight"] == 1, what="the search to run")
        os.kill(busy.pid, number)
        busy.wait_for(lambda: _is_draining(other), what="the daemon to admit nothing new")
        with pytest.raises(OSError, match=r"refused|reset|No such"):
            busy.ask("ping")
        answer = client.receive()
        assert answer["id"] == accepted
        assert answer["error"]["data"]["code"] == "deadline_exceeded"
        assert client.receive() is None
    assert busy.process is not None
    assert busy.process.wait(20) == 0
    assert '"unanswered": 0' in busy.log


def _is_draining(client: Any) -> bool:
    client.send("ping")
    answer = client.receive()
    if "result" in answer:
        return False
    assert answer["error"]["code"] == -32008
    assert answer["error"]["data"]["code"] == "draining"
    assert answer["error"]["data"]["retryable"] is True
    return True


@pytest.mark.rule("drain-unfinished")
def test_a_stop_that_cannot_wait_any_longer_names_what_is_unanswered(busy: Daemon, slow_query: str) -> None:
    with busy.client() as client:
        for _ in range(2):
            client.send("search", query=slow_query, deadline_ms=60_000)
        busy.wait_for(lambda: busy.ask("status")["in_flight"] == 2, what="the searches to run")
        assert busy.stop() == 1
    assert '"unanswered": 2' in busy.log


def test_a_stop_with_idle_clients_waits_for_none_of_them(daemon: Daemon) -> None:
    with daemon.client() as client, daemon.raw() as silent:
        client.ask("subscribe", topics=["stores/changed"])
        assert daemon.stop() == 0
        assert client.receive() is None
        assert silent.recv(1) == b""


def test_a_daemon_without_clients_leaves_after_its_idle_time(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[server]\nidle_exit_s = 0.5\n")
    assert daemon.process is not None
    with daemon.client() as client:
        client.ask("ping")
        begin = time.monotonic()
        while time.monotonic() < begin + 1.0:
            assert client.ask("ping") == {}  # who is connected keeps it alive
    assert daemon.process.wait(20) == 0
    assert not daemon.socket.exists()


# --------------------------------------------------------------------------- dying


def test_a_daemon_killed_while_it_copies_leaves_nothing_harmful(
    start_daemon: StartDaemon, make_slow_store: MakeSlowStore, sql: Callable[[Path], Sql]
) -> None:
    daemon = start_daemon()
    for number in range(4):
        path = make_slow_store(daemon.stores / f"big{number}.sqlite")
        other = sql(path)
        assert other.run("PRAGMA journal_mode = WAL") == "ok"
        assert other.run("INSERT INTO meta VALUES ('x', 'y')") == "ok"  # from now on only a copy will do
    daemon.wait_for(
        lambda: daemon.copies.exists() and any(daemon.copies.iterdir()), what="a copy in the making"
    )
    daemon.stop(signal.SIGKILL)
    left = list(daemon.copies.iterdir())
    daemon.start()
    daemon.wait_for(lambda: len(daemon.found("quick")) == 4, what="all stores to answer")
    daemon.wait_for(lambda: not list(daemon.copies.iterdir()), what="no copy to be left")
    print(f"{len(left)} copies were left, and swept")


def test_a_store_directory_that_is_removed_while_its_stores_answer_ends_nothing(
    start_daemon: StartDaemon, make_store: MakeStore
) -> None:
    daemon = start_daemon("[cache]\nanswers_bytes = 0\n", is_launched=False)
    make_store(daemon.stores / "one.sqlite", WORDS)
    make_store(daemon.stores / "two.sqlite", WORDS)
    assert len(daemon.start().found("sound")) == 2
    with daemon.client() as client:
        ids = [client.send("search", query="sound", limit=1 + n % 40) for n in range(40)]
        shutil.rmtree(daemon.stores)
        answers = [client.receive() for _ in ids]
        for answer in answers:
            codes = {failure["code"] for failure in answer["result"]["stores"]["failed"]}
            assert codes <= {"vanished", "keeps_changing"}
        daemon.wait_for(lambda: client.ask("stores")["stores"] == [], what="the stores to be gone")
    make_store(daemon.stores / "three.sqlite", WORDS)
    daemon.wait_for(lambda: daemon.found("sound") == ["three:a.md#0"], what="the directory to be there again")


def test_more_stores_than_descriptors_are_answered_or_named(
    start_daemon: StartDaemon, make_store: MakeStore, tmp_path: Path
) -> None:
    made = make_store(tmp_path / "made.sqlite", WORDS)
    daemon = start_daemon(is_launched=False, wrapper=("sh", "-c", 'ulimit -n 48 && exec "$@"', "sh"))
    for number in range(100):
        shutil.copyfile(made, daemon.stores / f"s{number:02}.sqlite")
    daemon.start()
    answer = daemon.ask("search", query="sound", limit=50, deadline_ms=30_000)
    states = {store["state"] for store in daemon.ask("stores")["stores"]}
    assert states <= {"open", "unreadable"}
    assert {failure["code"] for failure in answer["stores"]["failed"]} <= {"too_many_open_files"}
    assert answer["hits"]
    with socket.socket(socket.AF_UNIX) as one_more:
        one_more.connect(str(daemon.socket))
    assert daemon.ask("ping") == {}
