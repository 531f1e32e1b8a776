"""What every command has at hand: its arguments, the environment, the daemon, the two outputs."""

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collated.errors import RequestFailed

from .line import Line, plain

if TYPE_CHECKING:
    from msgspec import Struct

    from collated.client import Client

__all__ = ["Session"]

_DRAIN_PATIENCE_S = 3.0
_DRAIN_PAUSE_S = 0.1


class Session:
    """One run of `collate`."""

    def __init__(self, arguments: Namespace, environ: Mapping[str, str]) -> None:
        """Take the parsed *arguments* and the process's environment."""
        self.arguments = arguments
        self.environ = environ

    @property
    def socket(self) -> Path:
        """Return where the daemon listens: `--socket`, `$COLLATE_SOCKET`, the configuration, the default.

        Raises:
            ConfigError: the configuration is refused, or the path is too long.
        """
        from collated.places import socket_path

        if self.arguments.socket:
            return socket_path({"COLLATE_SOCKET": os.path.abspath(self.arguments.socket)})  # noqa: PTH100 - stays text
        return socket_path(self.environ, self._configured_socket()).absolute()

    def _configured_socket(self) -> str:
        from collated.places import config_file, load_settings

        # Most people have neither, and a start without the settings' modules is a faster one.
        if self.environ.get("COLLATE_SOCKET"):
            return ""
        has_file = self.environ.get("COLLATE_CONFIG") or config_file(self.environ).exists()
        if not has_file and "COLLATE_SERVER__SOCKET" not in self.environ:
            return ""
        return load_settings(None, self.environ).server.socket

    def connect(self) -> "Client":
        """Return a connection to the daemon, starting one when nothing listens.

        Raises:
            DaemonUnreachable: there is none and it may not be, or could not be, started.
        """
        from collated.client import Client, DaemonUnreachable

        path = self.socket
        try:
            return Client(path)
        except DaemonUnreachable as error:
            if not error.is_absent:
                raise
            if self.arguments.no_spawn:
                raise DaemonUnreachable(
                    f"{error}; start one with `collated run` or `systemctl --user start collated.socket`, "
                    "or leave out --no-spawn",
                    is_absent=True,
                ) from error
        from collated.spawn import start

        start(path, self.environ)
        client = Client(path)
        self.call(client, "rescan")  # a daemon that has not looked yet would say that there are no stores
        return client

    def ask(self, method: str, params: "Struct | None" = None) -> Any:
        """Return the daemon's result of one call, with a progress line where a person waits for it.

        Raises:
            RequestFailed: the daemon answered with an error.
            DaemonUnreachable: it could not be reached.
        """
        deadline = time.monotonic() + _DRAIN_PATIENCE_S
        while True:
            try:
                with self.connect() as client:
                    return self.call(client, method, params)
            except RequestFailed as error:  # the daemon is leaving, idle or restarted; the next one answers
                if error.code != "draining" or time.monotonic() >= deadline:
                    raise
            time.sleep(_DRAIN_PAUSE_S)

    def call(self, client: "Client", method: str, params: "Struct | None" = None) -> Any:
        """Do what `ask` does on a connection that is there already."""
        if not sys.stderr.isatty():
            return client.call(method, params)
        from .progress import ProgressLine

        progress = ProgressLine(sys.stderr)
        try:
            return client.call(method, params, on_wait=progress)
        finally:
            progress.wipe()

    def show(self, lines: Iterable[Line]) -> None:
        """Write *lines* to standard output."""
        from .paper import show

        show(lines, sys.stdout, self.environ)

    def show_json(self, document: object) -> None:
        """Write one JSON document to standard output, as the wire has it."""
        import msgspec

        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        sys.stdout.flush()

    def note(self, lines: Iterable[Line]) -> None:
        """Write *lines* to standard error."""
        sys.stderr.writelines(f"collate: {plain(line)}\n" for line in lines)
