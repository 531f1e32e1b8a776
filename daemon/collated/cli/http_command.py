"""`collate mcp --http`, which serves until it is told to stop, and `collate mcp --new-credential`."""

import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import structlog

from collated import spawn
from collated.errors import ConfigError
from collated.escape import visible
from collated.mcp.http import keyring
from collated.mcp.http.credentials import Credential, digest
from collated.mcp.http.declaring import declared
from collated.mcp.link import Link
from collated.service import raise_descriptor_limit
from collated.settings import is_store_name

from .line import line
from .outcome import FOUND, NOTHING
from .session import Session

__all__ = ["new_credential", "serve"]

_MOST_DAYS = 36_500


def serve(session: Session) -> int:
    """Serve as the arguments declare until SIGTERM or SIGINT; return 0 when all were answered, else 1.

    Raises:
        ConfigError: something is not declared, nobody can be admitted, or nothing can listen there.
    """
    given = declared(session.arguments)
    keys = keyring.Keyring(given.credentials, given.denylist)
    path = session.socket
    start = None if session.arguments.no_spawn else partial(spawn.start, path, session.environ)

    def note(text: str) -> None:
        session.note([line(visible(text))])

    from collated.mcp.http.running import run

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    raise_descriptor_limit()
    unanswered = anyio.run(run, given, keys, Link(path, start), note)
    if unanswered:
        note(f"stopped with {unanswered} connections unanswered")
    return NOTHING if unanswered else FOUND


def new_credential(session: Session) -> int:
    """Append a credential to a file and print its token, which is kept nowhere.

    Raises:
        ConfigError: a flag is missing or wrong, or the file cannot be written.
    """
    given = session.arguments
    if not (given.credentials and given.audience):
        raise ConfigError("--new-credential needs --credentials FILE and --audience A")
    if not 1 <= given.days <= _MOST_DAYS:
        raise ConfigError(f"--days is how long it is good, 1 to {_MOST_DAYS}")
    token = keyring.new_token()
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=given.days)
    made = Credential(given.new_credential, digest(token), given.audience, expires, _names(given.stores))
    keyring.add(Path(given.credentials), made)
    session.show([line(token)])
    session.note([line(f"the token is shown this once; it is good until {expires.isoformat()}")])
    return FOUND


def _names(typed: str | None) -> frozenset[str] | None:
    if typed is None:
        return None
    names = typed.split(",")
    if wrong := [name for name in names if not is_store_name(name)]:
        raise ConfigError(f"--stores has {wrong[0]!r}, which is no store's name; as in --stores docs,notes")
    return frozenset(names)
