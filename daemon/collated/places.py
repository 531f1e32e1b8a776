"""Where collated's own files lie, after the XDG base directories (DESIGN §6, §7).

`platformdirs` is imported only where the environment does not say, and the settings only where a file
is read, since `collate` must start fast.
"""

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ConfigError

if TYPE_CHECKING:
    from .settings import Settings

__all__ = [
    "SOCKET_PATH_BYTES",
    "cache_dir",
    "config_file",
    "load_settings",
    "socket_path",
    "state_dir",
    "stores_dir",
]

# sun_path is 108 bytes on Linux and 104 on macOS, the final NUL included.
SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103


def _base(environ: Mapping[str, str], variable: str, kind: str) -> Path:
    given = environ.get(variable, "")
    if Path(given).is_absolute():  # the XDG specification says to ignore relative ones
        return Path(given) / "collated"
    import platformdirs

    with warnings.catch_warnings():
        # That XDG_RUNTIME_DIR is not set (ssh, cron) is nobody's fault; `collate status` shows the path.
        warnings.simplefilter("ignore")
        return Path(getattr(platformdirs, f"user_{kind}_dir")("collated"))


def config_file(environ: Mapping[str, str]) -> Path:
    """Return the configuration's path: `$COLLATE_CONFIG`, or `collated/config.toml` in the XDG one."""
    given = environ.get("COLLATE_CONFIG")
    return Path(given) if given else _base(environ, "XDG_CONFIG_HOME", "config") / "config.toml"


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory of `state.sqlite` and of the log of a daemon that a client started."""
    return _base(environ, "XDG_STATE_HOME", "state")


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory of private copies; all of it may be deleted at any time."""
    return _base(environ, "XDG_CACHE_HOME", "cache")


def stores_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory that is watched when the configuration names none."""
    return _base(environ, "XDG_DATA_HOME", "data") / "stores"


def socket_path(environ: Mapping[str, str], configured: str = "") -> Path:
    """Return the socket's path: `$COLLATE_SOCKET`, else *configured*, else in the runtime directory.

    Raises:
        ConfigError: the path is longer than the system allows.
    """
    given = environ.get("COLLATE_SOCKET") or configured
    path = (
        Path(given).expanduser() if given else _base(environ, "XDG_RUNTIME_DIR", "runtime") / "collated.sock"
    )
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise ConfigError(
            f"the socket path {path} is longer than {SOCKET_PATH_BYTES} bytes; "
            "set COLLATE_SOCKET to a shorter one"
        )
    return path


def load_settings(config: Path | None, environ: Mapping[str, str]) -> "Settings":
    """Return the settings of *config* and *environ*; a default file that is absent is an empty one.

    Raises:
        ConfigError: the file cannot be read, or its content is refused.
    """
    from .settings import parse

    path = config or config_file(environ)
    if path.is_fifo():  # which would be read until somebody writes into it
        raise ConfigError(f"the configuration {path} is a FIFO, not a file")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if config is not None or environ.get("COLLATE_CONFIG"):
            raise ConfigError(f"there is no configuration file at {path}") from error
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration {path} cannot be read: {error}") from error
    return parse(text, environ)
