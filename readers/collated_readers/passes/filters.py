"""The path filter `in` in statements (store-format: Search 4; formats/contextpull.md §5)."""

from __future__ import annotations

__all__ = ["IN_FILTER"]

# One scan of documents for all entries, so their number is not bounded by SQLite's expression depth.
IN_FILTER = (
    "d.doc_id IN (SELECT x.doc_id FROM json_each(?) AS entry JOIN documents AS x ON x.path GLOB entry.value)"
)
