"""Names of tables (layout §1), and the one that a pipeline's table gets (layout §3)."""

from __future__ import annotations

import re

from .folders import is_segment

__all__ = ["MOST_SEGMENTS", "folded_name", "is_table_name"]

MOST_SEGMENTS = 16
_TAKEN = frozenset({"data", "requests", "schema.json", "_pointer.json"})
_LEDGER = "__requests"
_FOLDED = re.compile(r"[^A-Za-z0-9]")


def is_table_name(name: str) -> bool:
    """Tell whether a table can have *name*: segments joined by `/`, of which none means something else."""
    segments = name.split("/")
    if len(segments) > MOST_SEGMENTS or name.lower().endswith(_LEDGER):
        return False
    return all(is_segment(one) and not _is_taken(one) for one in segments)


def _is_taken(segment: str) -> bool:
    return segment in _TAKEN or segment.startswith(".") or segment.endswith(".lock")


def folded_name(pipeline: str, table: str) -> str:
    """Return the name of a table that a `[[pipeline]]` declares."""
    return _FOLDED.sub("_", f"{pipeline}_{table}").lower()
