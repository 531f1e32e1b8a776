"""Secrets never leave: whatever is sent of a code store is `redacted` first."""

from __future__ import annotations

from .redacting import redacted

__all__ = ["redacted"]
