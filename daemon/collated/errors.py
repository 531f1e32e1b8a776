"""Every error that a client can meet, each with a stable code (DESIGN §6).

A code is part of the API: never reworded, never reused. README has this table and a test holds the
two together. What goes wrong with one store is not here but in `collated_readers.STORE_CODES`; only the
two codes of a query's vector are also said of one store, since vectors are of a store's own kind.
"""

from collections.abc import Mapping
from typing import NamedTuple

from collated_readers.contextful.refusals import IDENTIFIERS

__all__ = [
    "CODES",
    "Code",
    "CollatedError",
    "ConfigError",
    "DaemonUnreachable",
    "RequestFailed",
    "code_of_number",
]


class Code(NamedTuple):
    """The number on the wire, whether trying again can help, and when it is sent."""

    number: int
    is_retryable: bool
    when: str


CODES: Mapping[str, Code] = {
    "parse_error": Code(-32700, False, "the frame is not JSON or MessagePack, not UTF-8, or nested too deep"),
    "invalid_request": Code(-32600, False, "not a JSON-RPC 2.0 request"),
    "unknown_method": Code(-32601, False, "no such method"),
    "invalid_params": Code(-32602, False, "a parameter is missing, unknown or of the wrong type"),
    "internal": Code(-32603, False, "a fault of collated itself; the daemon's log has the traceback"),
    "cancelled": Code(-32800, False, "`$/cancelRequest`, or the client is gone"),
    "unknown_store": Code(-32001, False, "no store of that name; the closest ones are named"),
    "unknown_id": Code(-32002, False, "the store has no record of that id"),
    "store_unavailable": Code(-32003, True, "the store is known but cannot be read; its reason is repeated"),
    "overloaded": Code(-32004, True, "too many requests in flight or too many connections"),
    "deadline_exceeded": Code(-32005, True, "nothing could be answered in time"),
    "pattern_rejected": Code(-32006, False, "over 200 characters, does not compile, or too expensive"),
    "unsupported": Code(-32007, False, "the store's format has no such operation"),
    "draining": Code(-32008, True, "the daemon is stopping"),
    "frame_too_large": Code(-32009, False, "a frame over server.max_frame_bytes"),
    "invalid_query_vector": Code(
        -32010, False, "no numbers, all zero, not finite, or of another length than the stores' vectors"
    ),
    "query_model_mismatch": Code(
        -32011, False, "the stores' vectors were made by another model than the query's; both are named"
    ),
    "ambiguous_id": Code(-32012, False, "an id alone that several stores have; their refs are named"),
    # Refusals of context stores, whose identifiers are the seed's; new ones are appended there.
    **{name: Code(-32050 - at, False, when) for at, (name, when) in enumerate(IDENTIFIERS.items())},
}


class CollatedError(Exception):
    """The root of collated's own errors; `code` is a stable word."""

    code = "internal"


class ConfigError(CollatedError):
    """The configuration is refused; the message names the key and what was expected."""

    code = "invalid_config"


class DaemonUnreachable(CollatedError):
    """There is no daemon, it went away, or what it says cannot be read.

    `is_absent` is true when nothing listens at all, so that starting a daemon would help.
    """

    code = "daemon_unreachable"

    def __init__(self, message: str, *, is_absent: bool = False) -> None:
        """Keep the *message* that a person reads."""
        super().__init__(message)
        self.is_absent = is_absent


class RequestFailed(CollatedError):
    """A request that ends in an error answer; *code* is a key of `CODES`."""

    def __init__(
        self, code: str, message: str, suggestion: str | None = None, retry_after_ms: int | None = None
    ) -> None:
        """Keep the stable *code*, the *message*, and what the caller can do about it."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.suggestion = suggestion
        self.retry_after_ms = retry_after_ms


_BY_NUMBER = {code.number: word for word, code in CODES.items()}


def code_of_number(number: int) -> str:
    """Return the code word of a JSON-RPC error *number*; `internal` for one that is not ours."""
    return _BY_NUMBER.get(number, "internal")
