"""The user's service manager: whether there is one, what it says of the units, starting and stopping them."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import collated

from .units import UNITS

__all__ = ["Manager", "find_manager", "shipped_units", "units_folder"]

_TIMEOUT_S = 60.0


class Manager:
    """`systemctl --user`."""

    def __init__(self, systemctl: str) -> None:
        """Use the command *systemctl*."""
        self._systemctl = systemctl

    def is_enabled(self) -> str:
        """Return what `is-enabled` says of the socket unit; empty where there is none."""
        said = self._run("is-enabled", "collated.socket")[1]
        return "" if said == "not-found" else said

    def is_running(self) -> bool:
        """Tell whether the daemon runs as a service."""
        return self._run("is-active", "--quiet", "collated.service")[0]

    def start(self) -> str | None:
        """Have the manager read the units and start them; return what went wrong, None when all is well."""
        for arguments in (("daemon-reload",), ("start", *reversed(UNITS))):
            is_done, said = self._run(*arguments)
            if not is_done:
                return said or "systemctl failed and said nothing"
        return None

    def stop(self) -> None:
        """Stop the units; they may not be there."""
        self._run("stop", *reversed(UNITS))

    def reread(self) -> None:
        """Have the manager read its units again."""
        self._run("daemon-reload")

    def _run(self, *arguments: str) -> tuple[bool, str]:
        try:
            done = subprocess.run(  # noqa: S603 - fixed commands
                [self._systemctl, "--user", *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return False, str(error)
        said = done.stdout.strip() or (b"" if arguments[0] == "is-enabled" else done.stderr.strip())
        return done.returncode == 0, said.decode("utf-8", "replace")


def find_manager(environ: Mapping[str, str]) -> Manager | None:
    """Return the user's service manager, None where none runs."""
    systemctl = shutil.which("systemctl")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    is_there = bool(runtime) and Path(runtime, "systemd", "private").is_socket()
    return Manager(systemctl) if systemctl and is_there else None


def units_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return where a person's own units lie."""
    given = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (given if given.is_absolute() else home / ".config") / "systemd" / "user"


def shipped_units() -> Mapping[str, bytes] | None:
    """Return the units by name, from the checkout or from what the wheel installed; None where neither is."""
    checkout = Path(collated.__path__[0]).parents[1] / "systemd"
    schemes = {sysconfig.get_path("data"), sysconfig.get_path("data", sysconfig.get_preferred_scheme("user"))}
    for folder in (checkout, *(Path(data, "share", "systemd", "user") for data in (sys.prefix, *schemes))):
        if all((folder / name).is_file() for name in UNITS):
            return {name: (folder / name).read_bytes() for name in UNITS}
    return None
