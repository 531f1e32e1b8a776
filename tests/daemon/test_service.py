import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collated.service import Notifier, activated_sockets, give_back_memory, raise_descriptor_limit


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(5)
        yield receiver


def notifier(manager: socket.socket, **environ: str) -> Notifier:
    return Notifier.from_environ({"NOTIFY_SOCKET": manager.getsockname(), **environ})


def test_each_word_is_what_the_manager_expects(manager: socket.socket) -> None:
    told = notifier(manager)
    told.ready("3 stores")
    told.status("4 stores")
    told.stopping()
    told.alive()

    received = [manager.recv(4096) for _ in range(4)]

    assert received == [b"READY=1\nSTATUS=3 stores", b"STATUS=4 stores", b"STOPPING=1", b"WATCHDOG=1"]


def test_a_reload_carries_the_monotonic_time_that_systemd_demands(manager: socket.socket) -> None:
    notifier(manager).reloading()

    first, second = manager.recv(4096).decode().split("\n")

    assert first == "RELOADING=1"
    name, _, microseconds = second.partition("=")
    assert name == "MONOTONIC_USEC"
    assert int(microseconds) > 0


def test_a_status_with_line_breaks_cannot_smuggle_in_another_word(manager: socket.socket) -> None:
    notifier(manager).status("3 stores\nSTOPPING=1\r\n")

    assert manager.recv(4096) == b"STATUS=3 stores STOPPING=1"


def test_an_abstract_socket_is_reached() -> None:
    name = f"collated-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}")
        receiver.settimeout(5)
        Notifier.from_environ({"NOTIFY_SOCKET": f"@{name}"}).alive()

        assert receiver.recv(4096) == b"WATCHDOG=1"


def test_without_a_manager_nothing_is_said_and_nothing_fails() -> None:
    told = Notifier.from_environ({})
    told.ready("")
    told.alive()

    assert told.watchdog_s is None


def test_a_manager_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    Notifier.from_environ({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("")


def test_a_manager_that_never_reads_blocks_nobody(manager: socket.socket) -> None:
    told = notifier(manager)

    for _ in range(5_000):  # far more than a datagram queue holds
        told.alive()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid() + 1)}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-3"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_fed_at_half_of_its_time_when_it_is_ours(
    manager: socket.socket, environ: dict[str, str], expected: float | None
) -> None:
    assert notifier(manager, **environ).watchdog_s == expected


# Descriptor 3 is fixed by the protocol, so adoption is tried in a process of its own.
ADOPT = """
import os, socket, sys
from collated.errors import ConfigError
from collated.service import activated_sockets
environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": sys.argv[1]}
try:
    for adopted in activated_sockets(environ):
        print(adopted.fileno(), adopted.getsockname(), adopted.get_inheritable())
except ConfigError as error:
    print(error)
"""


def adopt(descriptor: int | None, count: int = 1) -> str:
    """Run ADOPT with *descriptor* as its descriptor 3 and 4 (None: closed), and return what it printed."""
    source = "-" if descriptor is None else descriptor
    shell = f'exec "$0" -c "$1" {count} 3<&{source} 4<&{source}'
    ran = subprocess.run(
        ["bash", "-c", shell, sys.executable, ADOPT],
        pass_fds=[] if descriptor is None else [descriptor],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
    )
    return ran.stdout


def test_listening_sockets_are_adopted_in_order_and_not_inherited_further(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        assert adopt(listener.fileno(), count=2) == f"3 {path} False\n4 {path} False\n"


def test_a_socket_that_does_not_listen_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as idle:
        idle.bind(str(tmp_path / "s"))

        assert "not a listening Unix stream socket" in adopt(idle.fileno())


def test_a_listening_socket_of_another_family_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert "not a listening Unix stream socket" in adopt(listener.fileno())


def test_a_descriptor_that_is_no_socket_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert "descriptor 3 from the service manager is no socket" in adopt(file.fileno())


def test_a_descriptor_that_is_closed_is_refused() -> None:
    assert "descriptor 3 from the service manager is no socket" in adopt(None)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1)},
        {"LISTEN_FDS": "-1", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_sockets_meant_for_another_process_are_left_alone(environ: dict[str, str]) -> None:
    assert activated_sockets(environ) == []


def test_the_soft_descriptor_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))

        assert raise_descriptor_limit() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_giving_back_memory_takes_nothing_that_is_used() -> None:
    kept = [bytes(range(256)) * 64 for _ in range(64)]

    give_back_memory()

    assert {hash(each) for each in kept} == {hash(bytes(range(256)) * 64)}
