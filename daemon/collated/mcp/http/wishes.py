"""What a message asks besides an answer: to be told of progress, or that a call be cancelled. Pure.

A message may be anything at all: what is not understood asks for nothing.
"""

from typing import Literal, TypeVar

import msgspec
from msgspec import Struct, field

__all__ = ["called", "cancelled", "is_progress_wanted"]

T = TypeVar("T")

_EVENTS = frozenset({"text/event-stream", "text/*", "*/*"})


class _Meta(Struct, frozen=True):
    progress_token: str | int = field(name="progressToken")


class _Params(Struct, frozen=True):
    meta: _Meta = field(name="_meta")


class _Call(Struct, frozen=True):
    method: Literal["tools/call"]
    params: _Params


class _Identified(Struct, frozen=True):
    method: str
    id: str | int


class _Taken(Struct, frozen=True):
    request_id: str | int = field(name="requestId")


class _Cancelling(Struct, frozen=True):
    method: Literal["notifications/cancelled"]
    params: _Taken


def is_progress_wanted(body: bytes, accept: str) -> bool:
    """Tell whether a call of a tool asks for its progress, and its client takes a stream of events."""
    if _read(body, _Call) is None:
        return False
    return any(each.partition(";")[0].strip().lower() in _EVENTS for each in accept.split(","))


def called(body: bytes) -> str | int | None:
    """Return the id of a request, None for what is none."""
    request = _read(body, _Identified)
    return None if request is None else request.id


def cancelled(body: bytes) -> str | int | None:
    """Return the id of the request that a notification cancels, None where it does not."""
    cancelling = _read(body, _Cancelling)
    return None if cancelling is None else cancelling.params.request_id


def _read(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
