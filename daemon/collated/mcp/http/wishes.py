"""What a request asks of the form of its answer. Pure."""

from typing import Literal

import msgspec
from msgspec import Struct, field

__all__ = ["is_progress_wanted"]

_EVENTS = frozenset({"text/event-stream", "text/*", "*/*"})


class _Meta(Struct, frozen=True):
    progress_token: str | int = field(name="progressToken")


class _Params(Struct, frozen=True):
    meta: _Meta = field(name="_meta")


class _Call(Struct, frozen=True):
    method: Literal["tools/call"]
    params: _Params


def is_progress_wanted(body: bytes, accept: str) -> bool:
    """Tell whether a call of a tool asks to be told of its progress, and its client takes a stream of events.

    *body* may be anything at all; what is no such call is answered by one document, as everything is.
    """
    try:
        msgspec.json.decode(body, type=_Call)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return any(each.partition(";")[0].strip().lower() in _EVENTS for each in accept.split(","))
