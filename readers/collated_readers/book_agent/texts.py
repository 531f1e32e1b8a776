"""Texts of a store as they are, undecodable ones too: sqlite3 itself does not say where one stands (O8)."""

from __future__ import annotations

import sqlite3

__all__ = ["Undecodable", "strictly"]


class Undecodable(bytes):
    """The bytes of a text that is not UTF-8."""


def strictly(db: sqlite3.Connection) -> None:
    """Have *db*, which is asked by this format's reader alone, give such texts instead of failing."""
    db.text_factory = _decoded


def _decoded(data: bytes) -> str | Undecodable:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Undecodable(data)
