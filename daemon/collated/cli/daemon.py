"""`collated`: runs the daemon, or checks its configuration."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from collated import __version__
from collated.errors import CollatedError, ConfigError
from collated.escape import visible
from collated.places import config_file, load_settings

from .arguments import daemon_parser
from .outcome import FOUND, USAGE, of_error

__all__ = ["main"]

_IDLE_EXIT = "COLLATE_SERVER__IDLE_EXIT_S"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `collated` with *argv* and return its exit code."""
    parser = daemon_parser()
    given = parser.parse_args(argv)
    if given.version:
        print(f"collated {__version__}")
        return FOUND
    if given.command is None:
        parser.print_usage(sys.stderr)
        return USAGE
    try:
        return _check(given) if given.command == "check" else _run(given)
    except CollatedError as error:
        print(f"collated: {visible(str(error))}", file=sys.stderr)
        return of_error(error)


def _config(given: Namespace) -> Path | None:
    return Path(given.config).absolute() if given.config else None


def _check(given: Namespace) -> int:
    from collated.embedding import obstacle

    path = _config(given)
    settings = load_settings(path, os.environ)
    shown = path or config_file(os.environ)
    if shown.exists():
        print(f"{visible(str(shown))} is valid")
    else:
        print(f"there is no {visible(str(shown))}; every setting is at its default")
    for watched in settings.watch:
        if not Path(watched.path).expanduser().is_dir():
            print(f"collated: {visible(watched.path)} is watched and is no directory (yet)", file=sys.stderr)
    for model, embedding in settings.embedding.items():
        if problem := obstacle(embedding, os.environ):
            print(f"collated: no vectors of model {visible(model)}: {visible(problem)}", file=sys.stderr)
    return FOUND


def _run(given: Namespace) -> int:
    path = _config(given)
    settings = load_settings(path, os.environ)
    idle_exit_s = 0.0 if _says_idle_exit(path or config_file(os.environ), os.environ) else given.idle_exit
    from collated import app

    return app.run(settings, config=path, environ=os.environ, socket=given.socket, idle_exit_s=idle_exit_s)


def _says_idle_exit(path: Path, environ: Mapping[str, str]) -> bool:
    """Tell whether a person has set `idle_exit_s`, be it to its default."""
    import tomllib

    if _IDLE_EXIT in environ:
        return True
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or not TOML
        raise ConfigError(f"the configuration {path} cannot be read: {error}") from error
    server = tree.get("server")
    return isinstance(server, dict) and "idle_exit_s" in server
