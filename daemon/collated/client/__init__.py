"""The Python client: `Client` blocks, `AsyncClient` is for anyio and asyncio programs.

    with Client() as client:
        for hit in client.search("refund window", limit=3).hits:
            print(hit.ref, hit.snippet)

Both raise `errors.RequestFailed` for an error answer and `DaemonUnreachable` for everything between
here and the daemon.
"""

from typing import TYPE_CHECKING, Any

from .blocking import Client
from .conversation import DaemonUnreachable

if TYPE_CHECKING:
    from .concurrent import AsyncClient

__all__ = ["AsyncClient", "Client", "DaemonUnreachable"]


def __getattr__(name: str) -> Any:
    """Import anyio only for those who ask for `AsyncClient`: `collate` must start fast."""
    if name == "AsyncClient":
        from .concurrent import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
