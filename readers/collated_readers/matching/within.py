"""The path filter `in`, whatever the format: entries are paths, folders or globs (store-format: Search 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from collated_readers.contract import RequestError

from .globs import matcher_of

__all__ = ["filter_argument", "path_matcher_of"]

_LONGEST_GLOB_BYTES = 50_000  # SQLITE_MAX_LIKE_PATTERN_LENGTH


def filter_argument(within: Sequence[str]) -> str | None:
    """Return the globs of a filter as JSON, of which a path must match one by GLOB; None without a filter.

    Raises:
        RequestError: `invalid_params` for anything but a list of non-empty strings.
    """
    globs = _globs(within)
    return json.dumps(globs) if globs else None


def path_matcher_of(within: Sequence[str]) -> Callable[[str], bool] | None:
    """Return what tells whether a path passes the filter; None when there is none.

    Raises:
        RequestError: `invalid_params`, where `filter_argument` does.
    """
    globs = _globs(within)
    return matcher_of(globs) if globs else None


def _globs(within: Sequence[str]) -> list[str]:
    if isinstance(within, str):
        raise _invalid(within)
    return [glob for entry in within for glob in _globs_of(entry)]


def _globs_of(entry: object) -> list[str]:
    if not isinstance(entry, str) or not entry:
        raise _invalid(entry)
    is_glob = any(wildcard in entry for wildcard in "*?[")
    globs = [entry] if is_glob else [entry, entry.rstrip("/") + "/*"]
    if max(len(glob.encode(errors="surrogatepass")) for glob in globs) > _LONGEST_GLOB_BYTES:
        raise _invalid(entry)
    return globs


def _invalid(entry: object) -> RequestError:
    return RequestError(
        "invalid_params",
        f"invalid path filter {entry!r:.200}",
        "pass document paths or globs as shown in the index",
    )
