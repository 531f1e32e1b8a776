"""The report on modules and their ties that the program left in the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from collated_readers.contract import StoreError

from .schema import meta_of

__all__ = ["architecture_of"]


def architecture_of(db: sqlite3.Connection) -> Mapping[str, Any] | None:
    """Return the cached report as it is, None where the program that made the store knew none (schema 1, 2).

    Raises:
        StoreError: `damaged`.
    """
    report = meta_of(db, "graph_analysis")
    if report is None:
        return None
    try:
        return msgspec.json.decode(report, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StoreError("damaged", "the store's report on its graph is no JSON object") from error
