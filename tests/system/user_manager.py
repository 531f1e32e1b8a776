"""A real `systemd --user` in mount and process namespaces of its own (ENGINEERING §6).

The manager has no privileges: it runs in a user namespace as user 1000, so what hardening does there is
what it does under a person's own manager.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMESPACES = Path(__file__).parent / "confined" / "namespaces.sh"
SYSTEMD = shutil.which("systemd", path="/usr/lib/systemd:/lib/systemd")
DEADLINE_S = 20.0

AS_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


def entering(inside: int) -> Sequence[str]:
    """Return the wrapper that runs a command as the manager's user where the process *inside* is."""
    return ["nsenter", f"--target={inside}", "--mount", "--pid", *AS_USER]


@contextmanager
def user_manager(environ: Mapping[str, str]) -> Generator[int]:
    """Run a manager and give a process inside of its namespaces; ended at the end.

    The test is skipped, saying why, where the machine does not allow it.
    """
    systemd = _needed()
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private"]
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(
            [*namespaces, "sh", str(NAMESPACES), *AS_USER, systemd, "--user", "--unit=default.target"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            first = process.stdout.readline().strip()
            if not first:
                log.seek(0)
                pytest.skip(f"this machine allows no namespace for systemd --user: {log.read().strip()}")
            _wait_for(Path(environ["XDG_RUNTIME_DIR"]) / "systemd" / "private", process)
            yield int(first)
        finally:
            try:
                process.communicate(timeout=DEADLINE_S)  # closes its standard input, which ends it
            finally:
                process.kill()
                process.wait()


def _needed() -> str:
    """Return the program of the manager, if there is all that it takes to run it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a mount namespace for systemd --user")
    for command in ("unshare", "nsenter", "systemctl", "systemd-analyze"):
        if shutil.which(command) is None:
            pytest.skip(f"needs {command}")
    if SYSTEMD is None:
        pytest.skip("needs systemd")
    return SYSTEMD


def _wait_for(private: Path, process: subprocess.Popen[str]) -> None:
    """Wait for the socket at *private*, where the manager takes commands once it is up."""
    deadline = time.monotonic() + DEADLINE_S
    while not private.exists():
        assert process.poll() is None, "systemd --user has ended"
        assert time.monotonic() < deadline, "systemd --user does not come up"
        time.sleep(0.02)
