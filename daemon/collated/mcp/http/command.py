"""`collate mcp --http`, which serves until it is told to stop, and `collate mcp --new-credential`."""

import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import structlog
from anyio.abc import SocketAttribute, SocketListener

from collated.cli import spawn
from collated.cli.escape import visible
from collated.cli.line import line
from collated.cli.outcome import FOUND, NOTHING
from collated.cli.session import Session
from collated.errors import CollatedError, ConfigError
from collated.mcp.link import Link
from collated.mcp.session import make_server
from collated.service import raise_descriptor_limit
from collated_readers import State

from . import keyring
from .app import App
from .credentials import Credential, digest
from .declaring import Declared, declared
from .faces import Faces
from .keyring import Keyring
from .serving import Limits, Service

__all__ = ["new_credential", "serve"]

Note = Callable[[str], None]


def serve(session: Session) -> int:
    """Serve as the arguments declare until SIGTERM or SIGINT; return 0 when all were answered, else 1.

    Raises:
        ConfigError: something is not declared, nobody can be admitted, or nothing can listen there.
    """
    given = declared(session.arguments)
    keys = Keyring(given.credentials, given.denylist)
    path = session.socket
    start = None if session.arguments.no_spawn else partial(spawn.start, path, session.environ)

    def note(text: str) -> None:
        session.note([line(visible(text))])
        sys.stderr.flush()

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    raise_descriptor_limit()
    unanswered = anyio.run(_serve, given, keys, Link(path, start), note)
    if unanswered:
        note(f"stopped with {unanswered} connections unanswered")
    return NOTHING if unanswered else FOUND


async def _serve(given: Declared, keys: Keyring, link: Link, note: Note) -> int:
    listener = await _listener(given)
    async with link, anyio.create_task_group() as tasks:
        app = App(
            given.audience, keys, Faces(partial(make_server, link), tasks).answer, partial(_is_open, link)
        )
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            note(f"serving {_url(given.host, listener)}")
            if given.is_public:
                note("other machines can reach it, and credentials travel in clear: put TLS before it")
            unanswered = await Service(app, Limits(given.in_flight)).run(listener, signals)
        tasks.cancel_scope.cancel()
    return unanswered


async def _listener(given: Declared) -> SocketListener:
    try:
        listening = await anyio.create_tcp_listener(local_host=given.host, local_port=given.port)
    except OSError as error:
        raise ConfigError(f"cannot listen at {given.host} port {given.port}: {error}") from error
    (listener,) = listening.listeners  # as many as addresses, and a host is one
    return cast("SocketListener", listener)


def _url(host: str, listener: SocketListener) -> str:
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"


async def _is_open(link: Link) -> bool:
    """Tell whether the daemon has opened its stores, those included that it found it cannot read."""
    try:
        stores = await link.stores()
    except CollatedError:
        return False
    return all(store.state != State.OPENING for store in stores.values())


def new_credential(session: Session) -> int:
    """Append a credential to a file and print its token, which is kept nowhere.

    Raises:
        ConfigError: a flag is missing, or the file cannot be written.
    """
    given = session.arguments
    if not (given.credentials and given.audience):
        raise ConfigError("--new-credential needs --credentials FILE and --audience A")
    if given.days < 1:
        raise ConfigError("--days is a number of days from now, at least 1")
    token = keyring.new_token()
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=given.days)
    stores = frozenset(given.stores.split(",")) if given.stores else None
    keyring.add(
        Path(given.credentials),
        Credential(given.new_credential, digest(token), given.audience, expires, stores),
    )
    session.show([line(token)])
    session.note([line(f"the token is shown this once; it ends {expires.isoformat()}")])
    return FOUND
