"""Exit codes, as a function of the answer (DESIGN §7)."""

from collections.abc import Mapping
from typing import Any

from collated import protocol
from collated.errors import CollatedError, RequestFailed

__all__ = ["FOUND", "INTERRUPTED", "NOTHING", "PARTIAL", "UNREACHABLE", "USAGE", "of_error", "of_result"]

FOUND = 0
NOTHING = 1
USAGE = 2
PARTIAL = 3
UNREACHABLE = 69  # EX_UNAVAILABLE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT

# Every other code of `errors.CODES` is a request that was wrong: usage.
_OF_CODE: Mapping[str, int] = {
    "unknown_store": NOTHING,
    "unknown_id": NOTHING,
    "store_unavailable": PARTIAL,
    "deadline_exceeded": PARTIAL,
    "overloaded": UNREACHABLE,
    "draining": UNREACHABLE,
    "cancelled": UNREACHABLE,
    "internal": UNREACHABLE,
    "daemon_unreachable": UNREACHABLE,
}


def of_result(result: Any) -> int:
    """Return the exit code of a method's result Struct."""
    match result:
        case protocol.SearchResult() | protocol.GrepResult() if not result.complete:
            return PARTIAL
        case protocol.SearchResult(hits=found) | protocol.GrepResult(matches=found):
            return FOUND if found else NOTHING
        case protocol.StoresResult(stores=found):
            return FOUND if found else NOTHING
        case protocol.IndexResult(text=text):
            return FOUND if text else NOTHING
        case _:
            return FOUND


def of_error(error: CollatedError) -> int:
    """Return the exit code of an error, by its code."""
    code = error.code if isinstance(error, RequestFailed) else type(error).code
    return _OF_CODE.get(code, USAGE)
