"""Which `Host` and `Origin` headers are taken. Pure.

Else a page of another site could reach a local server through a name that it has pointed here (DNS
rebinding).
"""

from urllib.parse import urlsplit

__all__ = ["is_host_allowed", "is_origin_allowed"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HTTP_PORT = 80


def is_host_allowed(host: str, address: str, port: int) -> bool:
    """Tell whether *host*, a header, names the *address* and *port* that the connection came to.

    A name of this machine for itself is taken too.
    """
    name, given = _parts(f"//{host}")
    return name in _LOOPBACK | {address} and port == (given or _HTTP_PORT)


def is_origin_allowed(origin: str | None) -> bool:
    """Tell whether *origin*, a header, is absent or of a page that this machine serves itself."""
    if origin is None:
        return True
    return origin.lower().startswith(("http://", "https://")) and _parts(origin)[0] in _LOOPBACK


def _parts(url: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None, None
    is_plain = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)
    return (parts.hostname, port) if is_plain else (None, None)
