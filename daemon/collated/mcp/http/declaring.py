"""What a person declares before anything is served: address, audience, ceiling, credentials. Pure."""

import ipaddress
from argparse import Namespace
from pathlib import Path
from typing import Never

from msgspec import Struct

from collated.errors import ConfigError

__all__ = ["Declared", "declared"]

_MOST = 65_535


class Declared(Struct, frozen=True):
    """Where to listen, for whom, how many at once, by which files, and how long the instructions may be."""

    host: str
    port: int
    audience: str
    in_flight: int
    credentials: Path
    denylist: Path | None
    budget_tokens: int

    @property
    def is_public(self) -> bool:
        """Tell whether other machines can reach it."""
        return not ipaddress.ip_address(self.host).is_loopback


def declared(arguments: Namespace) -> Declared:
    """Return what the *arguments* of `collate mcp --http` declare.

    Raises:
        ConfigError: `ServeDeclarationMissing` names the flag that is missing; the address is none, or
            reaches beyond this machine without `--public`.
    """
    host, port = _address(arguments.http)
    found = Declared(
        host,
        port,
        arguments.audience or _missing("--audience", "credentials are made for one audience"),
        _positive(arguments.max_in_flight),
        Path(arguments.credentials or _missing("--credentials", "nobody is served without one")),
        Path(arguments.denylist) if arguments.denylist else None,
        max(arguments.budget, 0),
    )
    if found.is_public and not arguments.public:
        raise ConfigError(f"other machines can reach {host}; say so with --public, or listen on 127.0.0.1")
    return found


def _positive(given: int | None) -> int:
    if given is None or given < 1:
        _missing("--max-in-flight", "a positive number of requests at once")
    return given


def _missing(flag: str, why: str) -> Never:
    raise ConfigError(f"ServeDeclarationMissing: {flag} has to be declared: {why}")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(host)
        number = int(port)
    except ValueError as error:
        raise ConfigError(
            f"--http {text!r} is no HOST:PORT; a host is an IP address or localhost, as in 127.0.0.1:8765"
        ) from error
    if not 0 <= number <= _MOST:
        raise ConfigError(f"--http {text!r}: a port is at most {_MOST}")
    return str(address), number
