"""The report on modules and their ties that the program left in the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from collated_readers.contract import StoreError
from collated_readers.secrets import redacted

from .schema import meta_of

__all__ = ["architecture_of"]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def architecture_of(db: sqlite3.Connection) -> Mapping[str, Any] | None:
    """Return the report without secrets, None where the program that made the store knew none (schema 1, 2).

    Raises:
        StoreError: `damaged`.
    """
    report = meta_of(db, "graph_analysis")
    if report is None:
        return None
    try:
        return {redacted(key): _redacted(value) for key, value in _decode(report).items()}
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StoreError("damaged", "the store's report on its graph is no JSON object") from error


def _redacted(value: Any) -> Any:
    """Return *value*, something out of JSON, with every text in it redacted."""
    match value:
        case str():
            return redacted(value)
        case list():
            return [_redacted(each) for each in value]  # pyright: ignore[reportUnknownVariableType]  # JSON
        case dict():
            return {redacted(key): _redacted(each) for key, each in value.items()}  # pyright: ignore
        case _:
            return value
