"""The texts of chunks as they are sent: free of secrets, and of a length that can be looked at in time."""

from __future__ import annotations

from collated_readers.contract import StoreError
from collated_readers.secrets import redacted
from collated_readers.values import text

__all__ = ["LONGEST", "beginning", "whole"]

LONGEST = 8_000_000
"""Characters of a chunk that is read; no answer could hold more of one."""

_LOOKED_AT = 1_000_000
_MARGIN = 4_096  # of what was cut there, for half a key is not known for one


def whole(content: object) -> str:
    """Return a chunk's text.

    Raises:
        StoreError: `damaged`: it is no text, or none that an answer could hold.
    """
    body = text(content)
    if len(body) > LONGEST:
        raise StoreError("damaged", f"the store has a chunk of {len(body):,} characters")
    return redacted(body)


def beginning(content: object) -> str:
    """Return as much of a chunk's text as a snippet is cut from.

    Raises:
        StoreError: `damaged`.
    """
    body = text(content)
    return redacted(body) if len(body) <= _LOOKED_AT else redacted(body[:_LOOKED_AT])[:-_MARGIN]
