"""The processes behind `collate mcp`: one host for all bridges, and what a kill, a flood or garbage costs."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.system.mcp.conftest import Home, Pipe, StartPipe

pytestmark = pytest.mark.slow

TIMEOUT_S = 30


def search(pipe: Pipe, request_id: int, query: str = "refund") -> None:
    pipe.send("tools/call", {"name": "search", "arguments": {"query": query}}, id=request_id)


def found(answer: Any) -> list[str]:
    return [hit["ref"] for hit in answer["result"]["structuredContent"]["hits"]]


def wait_for(home: Home, condition: Callable[[], Any], what: str) -> Any:
    return home.daemon.wait_for(condition, TIMEOUT_S, what=what)


# --------------------------------------------------------------------------- one host


def test_bridges_share_one_host_which_shares_the_daemon(home: Home, pipe: StartPipe) -> None:
    first, second = pipe(home.daemon), pipe(home.daemon)
    assert first.hello()["serverInfo"]["name"] == second.hello()["serverInfo"]["name"] == "collated"
    host = home.host_pid
    assert host is not None
    assert os.getsid(host) == host
    assert Path(f"/proc/{host}/cwd").readlink() == Path("/")
    assert stat.S_IMODE(home.host_socket.stat().st_mode) == 0o600
    for each in (first, second):
        search(each, 1)
        assert found(each.answer(1)) == ["docs:guide.md#1"]
    assert first.end()[0] == 0
    search(second, 2)
    assert found(second.answer(2)) == ["docs:guide.md#1"]
    assert home.host_pid == host
    assert second.end() == (0, b"", "")


def test_many_at_once_start_one_host_and_one_daemon(home: Home, pipe: StartPipe) -> None:
    pipes = [pipe(home.daemon) for _ in range(6)]
    for each in pipes:
        each.hello()
    assert home.daemon.socket.parent.joinpath("s").is_socket()
    log = (home.daemon.state / "daemon.log").read_text(encoding="utf-8")
    assert log.count('"listening"') == 1
    assert home.host_log == ""
    assert [each.end()[0] for each in pipes] == [0] * 6


def test_a_bridge_without_leave_starts_no_daemon_where_another_one_may(home: Home, pipe: StartPipe) -> None:
    careful, other = pipe(home.daemon, "--no-spawn"), pipe(home.daemon)
    assert "--no-spawn" in careful.hello()["instructions"]
    assert home.daemon_pid is None or "guide.md" in other.hello()["instructions"]


def test_the_host_leaves_when_it_is_idle_and_the_next_bridge_starts_another(
    home: Home, pipe: StartPipe
) -> None:
    home.daemon.start()
    log = (home.daemon.base / "host.log").open("wb")
    command = [sys.executable, "-m", "collated.mcp.host", str(home.daemon.socket), "--idle-exit", "0.2"]
    host = subprocess.Popen(command, env=home.daemon.environ, stderr=log)
    try:
        assert host.wait(TIMEOUT_S) == 0
    finally:
        host.kill()
        host.wait()
        log.close()
    assert (home.daemon.base / "host.log").read_bytes() == b""
    assert not home.host_socket.exists()
    assert pipe(home.daemon).hello()


def test_a_host_whose_socket_was_replaced_serves_its_sessions_to_their_end(
    home: Home, pipe: StartPipe
) -> None:
    first = pipe(home.daemon)
    first.hello()
    old = home.host_pid
    assert old is not None
    home.host_socket.unlink()
    second = pipe(home.daemon)
    second.hello()
    assert home.host_pid not in (None, old)
    search(first, 1)
    assert found(first.answer(1)) == ["docs:guide.md#1"]
    assert first.end() == (0, b"", "")
    wait_for(home, lambda: not Path(f"/proc/{old}").exists(), "the old host to end")
    search(second, 1)
    assert found(second.answer(1)) == ["docs:guide.md#1"]


def test_who_only_looks_and_who_says_nothing_costs_nobody_anything(home: Home, pipe: StartPipe) -> None:
    each = pipe(home.daemon)
    each.hello()
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(str(home.host_socket))
    rude = socket.socket(socket.AF_UNIX)
    rude.connect(str(home.host_socket))
    rude.sendall(b"\x00" * 100_000)
    rude.close()
    search(each, 1)
    assert found(each.answer(1)) == ["docs:guide.md#1"]
    silent.close()
    assert each.end()[0] == 0


# --------------------------------------------------------------------------- ends


def test_at_the_end_of_the_input_every_answer_still_comes(home: Home, pipe: StartPipe) -> None:
    each = pipe(home.daemon)
    each.hello()
    for request_id in range(1, 21):
        search(each, request_id)
    code, out, err = each.end()
    assert (code, err) == (0, "")
    assert {json.loads(line)["id"] for line in out.splitlines()} == set(range(1, 21))


def test_an_agent_that_says_nothing_and_leaves_is_no_error(home: Home, pipe: StartPipe) -> None:
    assert pipe(home.daemon).end() == (0, b"", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_bridge_without_a_word(home: Home, pipe: StartPipe, number: int) -> None:
    each = pipe(home.daemon)
    each.hello()
    each.process.send_signal(number)
    assert each.process.wait(TIMEOUT_S) in (-number, 128 + number)
    assert each.end()[1:] == (b"", "")


def test_a_host_that_is_killed_ends_its_bridges_with_69_and_the_next_starts_another(
    home: Home, pipe: StartPipe
) -> None:
    each = pipe(home.daemon)
    each.hello()
    home.kill(home.host_pid)
    assert each.process.wait(TIMEOUT_S) == 69
    assert each.process.stderr is not None
    assert b"went away" in each.process.stderr.read()
    assert pipe(home.daemon).hello()


def test_a_host_that_is_told_to_end_removes_its_socket(home: Home, pipe: StartPipe) -> None:
    each = pipe(home.daemon)
    each.hello()
    home.kill(home.host_pid, signal.SIGTERM)
    assert each.process.wait(TIMEOUT_S) == 69
    assert not home.host_socket.exists()
    assert "Traceback" not in home.host_log


def test_a_bridge_that_is_killed_ends_what_it_asked_and_nothing_else(
    slow: Home, pipe: StartPipe, slow_query: str
) -> None:
    killed, other = pipe(slow.daemon), pipe(slow.daemon)
    killed.hello()
    other.hello()
    search(killed, 1, slow_query)
    wait_for(slow, lambda: slow.in_flight == 1, "the search to run")
    killed.process.kill()
    wait_for(slow, lambda: slow.in_flight == 0, "the search to be given up")
    other.send("tools/call", {"name": "read", "arguments": {"id": "docs:guide.md#1"}}, id=1)
    assert "Thirty days" in other.answer(1)["result"]["structuredContent"]["text"]
    assert slow.host_log == ""


def test_a_host_that_cannot_start_says_why(home: Home) -> None:
    environ = {
        **home.daemon.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(home.daemon.base), os.environ.get("PYTHONPATH")))),
    }
    broken = home.daemon.base / "mcp_types"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('broken \\x1b[31m on purpose')\n")
    command = [sys.executable, "-c", "import sys; from collated.cli import main; sys.exit(main())", "mcp"]
    ran = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert (ran.returncode, ran.stdout) == (69, b"")
    assert b"the host of MCP did not start" in ran.stderr
    assert b"on purpose" in ran.stderr
    assert b"\x1b" not in ran.stderr


# --------------------------------------------------------------------------- what is said wrongly


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"hello?\n", -32700),
        (b"\xff\xfe{}\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc": "2.0"}\n', -32600),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"\n", -32700),
    ],
)
def test_garbage_is_answered_and_the_session_goes_on(
    home: Home, pipe: StartPipe, said: bytes, code: int
) -> None:
    each = pipe(home.daemon)
    each.write(said)
    refusal = json.loads(each.line())
    assert (refusal["id"], refusal["error"]["code"]) == (None, code)
    each.write(b"\n \n")
    each.hello()
    each.write(said)
    assert json.loads(each.line())["error"]["code"] == code
    search(each, 1)
    assert found(each.answer(1)) == ["docs:guide.md#1"]
    assert home.host_log == ""


def test_a_message_without_end_ends_the_session_and_says_why(home: Home, pipe: StartPipe) -> None:
    each, other = pipe(home.daemon), pipe(home.daemon)
    other.hello()
    each.hello()
    try:
        for _ in range(40):
            each.write(b"x" * 1_048_576)
    except BrokenPipeError:
        pass  # the session has ended meanwhile
    assert "at most" in json.loads(each.line())["error"]["message"]
    assert each.process.wait(TIMEOUT_S) == 69
    search(other, 1)
    assert found(other.answer(1)) == ["docs:guide.md#1"]


def test_a_reader_who_is_slow_gets_everything_in_the_end(home: Home, pipe: StartPipe) -> None:
    home.daemon.start()
    home.daemon.wait_state("docs", "open")
    each, other = pipe(home.daemon), pipe(home.daemon)
    each.hello()
    other.hello()
    for request_id in range(1, 201):  # far more than pipes and sockets hold
        each.send("tools/list", id=request_id)
    search(other, 1)
    assert found(other.answer(1)) == ["docs:guide.md#1"]
    code, out, _ = each.end()
    assert code == 0
    assert {json.loads(line)["id"] for line in out.splitlines()} == set(range(1, 201))


# --------------------------------------------------------------------------- the command


def test_without_the_extra_it_says_what_to_install(home: Home) -> None:
    program = "import sys; sys.modules['mcp'] = None; from collated.cli import main; sys.exit(main(['mcp']))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=home.daemon.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"collated[mcp]" in ran.stderr
    assert home.host_pid is None


def test_a_socket_path_that_is_too_long_for_the_host_is_named(home: Home) -> None:
    path = home.daemon.base / ("x" * (100 - len(str(home.daemon.base))))
    ran = home.daemon.collate("mcp", "--socket", str(path))
    assert ran.returncode == 2
    assert "COLLATE_SOCKET" in ran.stderr


def test_it_imports_no_sdk_and_no_event_loop() -> None:
    program = (
        "import sys; from collated.cli import main\n"
        "from collated.cli.mcp_command import mcp\nfrom collated.mcp import bridge\n"
        "print(*sorted({'mcp', 'anyio', 'asyncio', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=TIMEOUT_S)
    assert ran.stdout == b"\n"
