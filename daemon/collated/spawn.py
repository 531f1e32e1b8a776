"""Starts the daemon when nothing listens: through its socket unit, else by itself, once for many callers."""

import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from . import launch
from .claim import is_listening
from .launch import Program
from .places import socket_path

__all__ = ["start"]

_SYSTEMCTL_TIMEOUT_S = 5.0
_IDLE_EXIT_S = 1_800


def start(path: Path, environ: Mapping[str, str]) -> None:
    """Return once a daemon listens at *path*; a lock beside the socket decides who starts it.

    Raises:
        DaemonUnreachable: it could not be started; the message has its own last words.
    """
    arguments = ("run", "--socket", str(path), "--idle-exit", str(_IDLE_EXIT_S))
    daemon = Program("the daemon", "collated", arguments, "daemon.log")
    launch.start(daemon, path, environ, partial(_start_unit, path, environ))


def _start_unit(path: Path, environ: Mapping[str, str]) -> bool:
    """Start `collated.socket` of the user's service manager; tell whether it listens at *path* now."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    systemctl = shutil.which("systemctl")
    is_managed = bool(runtime) and Path(runtime, "systemd", "private").exists()
    is_usual = path == socket_path({"XDG_RUNTIME_DIR": runtime}) if runtime else False
    if not (systemctl and is_managed and is_usual):
        return False
    command = [systemctl, "--user", "--quiet", "start", "collated.socket"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SYSTEMCTL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and is_listening(path)
