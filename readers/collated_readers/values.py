"""Values out of a store, whose columns may hold anything whatever they were declared as."""

from __future__ import annotations

import math
from typing import Any

from .contract import StoreError

__all__ = ["Row", "finite", "integer", "optional_text", "text"]

Row = tuple[Any, ...]
"""A row as sqlite3 gives it: every value may be of any type until one of the functions here says so."""


def text(value: object) -> str:
    """Return *value* if it is text.

    Raises:
        StoreError: `damaged`.
    """
    if isinstance(value, str):
        return value
    raise StoreError("damaged", f"the store holds {_name(value)} where its format demands text")


def optional_text(value: object) -> str | None:
    """Return *value* if it is text or NULL.

    Raises:
        StoreError: `damaged`.
    """
    return None if value is None else text(value)


def integer(value: object) -> int:
    """Return *value* if it is an integer.

    Raises:
        StoreError: `damaged`.
    """
    if isinstance(value, int):
        return value
    raise StoreError("damaged", f"the store holds {_name(value)} where its format demands an integer")


def finite(rank: object) -> float:
    """Return *rank* if it is a number that can be compared.

    Raises:
        StoreError: `invalid_rank`.
    """
    if isinstance(rank, float) and math.isfinite(rank):
        return rank
    raise StoreError("invalid_rank", "the store's index gives a rank that is not a finite number")


def _name(value: object) -> str:
    return {"NoneType": "NULL", "bytes": "a BLOB", "str": "text"}.get(type(value).__name__, "a number")
