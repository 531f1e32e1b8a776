"""Secrets never leave: whatever is sent of a code store is `redacted` first."""

from __future__ import annotations

from .redacting import redacted, redacted_each

__all__ = ["redacted", "redacted_each"]
