"""What a hit shows, whatever the format: its score, and the beginning of its text; and texts told apart."""

from __future__ import annotations

import hashlib

from .contract import Query

__all__ = ["beginning_of", "digest_of", "score_of"]

_BEGINNING_CHARACTERS = 160
_DIGEST_BYTES = 16


def score_of(rank: float, query: Query) -> float:
    """Return what people see of *rank*; sums of reciprocal ranks are shown a hundredfold."""
    return round(-rank * 100, 2) if query.is_hybrid else round(-rank, 2)


def beginning_of(body: str) -> str:
    """Return the snippet of a text in which no word was found: its beginning, on one line."""
    return " ".join(body.split())[:_BEGINNING_CHARACTERS] + "…"


def digest_of(body: str) -> bytes:
    """Return 16 bytes that are equal for equal texts; see `Reader.digests`."""
    return hashlib.blake2b(body.encode(), digest_size=_DIGEST_BYTES).digest()
