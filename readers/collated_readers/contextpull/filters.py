"""The path filter `in` (store-format: Search 4; formats/contextpull.md §5)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from collated_readers.contract import RequestError

__all__ = ["IN_FILTER", "filter_argument"]

# One scan of documents for all entries, so their number is not bounded by SQLite's expression depth.
IN_FILTER = (
    "d.doc_id IN (SELECT x.doc_id FROM json_each(?) AS entry JOIN documents AS x ON x.path GLOB entry.value)"
)
_LONGEST_GLOB_BYTES = 50_000  # SQLITE_MAX_LIKE_PATTERN_LENGTH


def filter_argument(within: Sequence[str]) -> str | None:
    """Return the argument of `IN_FILTER`; None when there is no filter.

    Raises:
        RequestError: `invalid_params` for anything but a list of non-empty strings.
    """
    if isinstance(within, str):
        raise _invalid(within)
    globs = [glob for entry in within for glob in _globs(entry)]
    return json.dumps(globs) if globs else None


def _globs(entry: object) -> list[str]:
    if not isinstance(entry, str) or not entry or len(entry.encode(errors="replace")) > _LONGEST_GLOB_BYTES:
        raise _invalid(entry)
    if any(wildcard in entry for wildcard in "*?["):
        return [entry]
    return [entry, entry.rstrip("/") + "/*"]


def _invalid(entry: object) -> RequestError:
    return RequestError(
        "invalid_params",
        f"invalid path filter {entry!r:.200}",
        "pass document paths or globs as shown in the index",
    )
