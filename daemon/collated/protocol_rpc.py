"""JSON-RPC 2.0 and what all methods have in common: the wire's envelope (DESIGN §6)."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

__all__ = [
    "NO_STORES",
    "Answered",
    "Envelope",
    "ErrorData",
    "ErrorObject",
    "ErrorResponse",
    "Failure",
    "Id",
    "Int",
    "Notification",
    "Params",
    "Request",
    "Response",
]

NO_STORES = "no stores are open; `collate add PATH` adds one, `collate doctor` says more"
"""What a person is told where there was nobody to ask."""

# What every client's numbers hold (DESIGN §6); JSON itself knows no bounds.
Int = Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]
Id = str | Int


class Envelope(Struct):
    """Any message, decoded just far enough to route it; every field may be missing or wrong."""

    jsonrpc: Any = None
    method: Any = None
    id: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Any = UNSET


class Request(Struct, omit_defaults=True):
    """A request as a client sends it."""

    method: str
    id: Id
    params: Any = None
    jsonrpc: Literal["2.0"] | None = None


class ErrorData(Struct, omit_defaults=True):
    """What a program reads of an error."""

    code: str
    retryable: bool
    suggestion: str | None = None
    retry_after_ms: int | None = None


class ErrorObject(Struct):
    """JSON-RPC's error object."""

    code: int
    message: str
    data: ErrorData


class Response(Struct, kw_only=True):
    """A final reply with a result, already encoded."""

    jsonrpc: str = "2.0"
    id: Id
    result: Raw


class ErrorResponse(Struct, kw_only=True):
    """A final reply with an error; `id` is null when the request's could not be read."""

    jsonrpc: str = "2.0"
    id: Id | None
    error: ErrorObject


class Notification(Struct, kw_only=True):
    """A message that wants no reply."""

    jsonrpc: str = "2.0"
    method: str
    params: Any


class Params(Struct, forbid_unknown_fields=True):
    """The root of all parameter sets; unknown names are errors, so a typing mistake is seen."""


class Failure(Struct):
    """A store that was asked and did not answer."""

    store: str
    code: str
    message: str


class Answered(Struct):
    """How the stores fared; `failed` is in store order."""

    asked: int
    answered: int
    skipped: int = 0
    failed: list[Failure] = field(default_factory=list[Failure])
