"""What the tests of the bridge's pure parts share."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from collated.protocol import Reason, StoreStatus

MakeStatus = Callable[..., StoreStatus]


@pytest.fixture(scope="session")
def status() -> MakeStatus:
    """`status(name, *capabilities, reason=None, **details)` is an open store, or one refused for a reason."""

    def make(name: str, *capabilities: str, reason: str | None = None, **details: Any) -> StoreStatus:
        return StoreStatus(
            name=name,
            path=f"/p/{name}.sqlite",
            root=None,
            format="contextpull",
            schema_version="1.0",
            state="refused" if reason else "open",
            reason=Reason("damaged", reason) if reason else None,
            fingerprint="f",
            documents=None if reason else 2,
            records=None if reason else 7,
            bytes=None if reason else 4096,
            capabilities=[*capabilities] or ["search", "read", "grep", "neighbours", "index"],
            details=details,
        )

    return make


IsPlain = Callable[[str], bool]


@pytest.fixture(scope="session")
def is_plain() -> IsPlain:
    """`is_plain(text)`: there is nothing in it that a terminal would obey, line feeds and tabs included."""
    reordering = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}

    def is_harmless(character: str) -> bool:
        return (
            unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
            and unicodedata.bidirectional(character) not in reordering
            and character not in "\u061c\u200e\u200f"
        )

    return lambda text: all(map(is_harmless, text))
