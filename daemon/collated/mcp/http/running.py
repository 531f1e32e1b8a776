"""The server as a whole, from its listener to the link behind it. Imports the SDK."""

import signal
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio
from anyio.abc import SocketAttribute, SocketListener
from mcp.server.lowlevel import Server

from collated.errors import CollatedError, ConfigError
from collated.mcp.link import Link
from collated.mcp.scope import Scope
from collated.mcp.session import make_server
from collated_readers import State

from .app import App
from .declaring import Declared
from .faces import Faces
from .keyring import Keyring
from .listens import Listens
from .serving import Limits, Service

__all__ = ["run"]

_CLEAR = (
    "other machines can reach it, and credentials travel in clear: put something that speaks TLS before it"
)


async def run(given: Declared, keys: Keyring, link: Link, note: Callable[[str], None]) -> int:
    """Serve as *given* until SIGTERM or SIGINT; return how many connections were left unanswered.

    *note* is told, in words, when it listens.

    Raises:
        ConfigError: it cannot listen there.
    """
    unanswered = 0
    listener = await _listener(given)
    listens = Listens(link, given.in_flight)

    def make(scope: Scope) -> Server[Any]:
        return make_server(link, scope, listens.of(scope), given.budget_tokens)

    async with link, anyio.create_task_group() as tasks:
        faces = Faces(make, tasks)
        app = App(given.audience, keys, faces.answer, partial(_has_opened, link))
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            note(f"serving {_url(given.host, listener)}")
            if given.is_public:
                note(_CLEAR)
            service = Service(app, Limits(given.in_flight), listens.close)
            unanswered = await service.run(listener, signals)
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


async def _has_opened(link: Link) -> bool:
    """Tell whether the daemon has looked at its stores, and is opening none."""
    try:
        stores = await link.stores()
    except CollatedError:
        return False
    return all(store.state != State.OPENING for store in stores.values())
