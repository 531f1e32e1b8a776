"""Ids as the store has them, of any storage class, and as text, which names a record in the federation."""

from __future__ import annotations

from typing import TypeGuard

from collated_readers.contract import StoreError

from .texts import Undecodable

__all__ = ["LONGEST_ID", "NativeId", "checked_id", "is_id", "native_ids", "text_id"]

NativeId = int | float | str | bytes
"""An id with its storage class: 1 is not '1' (A25)."""

LONGEST_ID = 4_096
"""Characters or bytes; a longer id is no name of anything, and would not fit a search's memory."""

_BLOB = "x'"


def is_id(value: object) -> TypeGuard[NativeId]:
    """Tell whether *value* can be an id: not NULL, and no text that is not UTF-8."""
    return isinstance(value, int | float | str | bytes) and not isinstance(value, Undecodable)


def checked_id(value: object, where: str) -> NativeId:
    """Return *value* if it is an id; *where* says which record it is of.

    Raises:
        StoreError: `invalid_record_id`, `invalid_text_encoding`.
    """
    if is_id(value):
        return value
    if isinstance(value, Undecodable):
        raise StoreError("invalid_text_encoding", f"the id of {where} is not UTF-8: {bytes(value)!r:.80}")
    raise StoreError("invalid_record_id", f"the id of {where} is NULL, or longer than {LONGEST_ID}")


def text_id(value: NativeId) -> str:
    """Return *value* as text: a number in digits, a BLOB as SQL writes it."""
    if isinstance(value, bytes):
        return f"{_BLOB}{value.hex()}'"
    return value if isinstance(value, str) else repr(value)


def native_ids(text: str) -> list[NativeId]:
    """Return the ids whose text is *text*, in the order in which they are looked for."""
    found: list[NativeId] = [text]
    for read in (int, float, _blob):
        try:
            value = read(text)
        except (ValueError, OverflowError):
            continue
        if text_id(value) == text:
            found.append(value)
    return found


def _blob(text: str) -> bytes:
    if not (text.startswith(_BLOB) and text.endswith("'")):
        raise ValueError(text)
    return bytes.fromhex(text[len(_BLOB) : -1])
