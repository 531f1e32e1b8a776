"""How old a store's words are is one phrase, whatever the store says of itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.mcp.freshness import freshness
from collated.protocol import StoreStatus

MakeStatus = Callable[..., StoreStatus]

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({}, None),
        ({"project": "p", "model": "m"}, None),
        ({"ingested_at": "2026-11-28T12:00:00+00:00"}, "ingested 3 days ago"),
        ({"ingested_at": "2026-11-28T13:00:00+01:00"}, "ingested 3 days ago"),
        ({"ingested_at": "2026-11-28T12:00:00"}, "ingested 3 days ago"),
        ({"committed_at": "2026-12-01T10:00:00.123456789Z"}, "committed 1 hour ago"),
        ({"built_at": "2026-12-01T11:59:30Z", "updated_at": None}, "indexed just now"),
        (
            {"built_at": "2025-11-30T00:00:00Z", "updated_at": "2026-12-01T11:30:00Z"},
            "indexed 30 minutes ago",
        ),
        ({"built_at": "2025-11-30T00:00:00Z"}, "indexed 1 year ago"),
        (
            {"built_at": "2026-09-01T00:00:00Z", "files_changed": 12},
            "indexed 3 months ago, 12 files changed since",
        ),
        ({"built_at": "2026-11-30T12:00:00Z", "files_changed": 1}, "indexed 1 day ago, 1 file changed since"),
        (
            {"built_at": "2026-11-30T12:00:00Z", "files_changed": 0},
            "indexed 1 day ago, no file changed since",
        ),
        ({"files_changed": 2}, "2 files changed since it was indexed"),
        ({"built_at": "2030-01-01T00:00:00Z"}, "indexed just now"),
    ],
)
def test_it_says_when_and_what_changed_since(
    status: MakeStatus, details: dict[str, Any], expected: str | None
) -> None:
    assert freshness(status("docs", **details), NOW) == expected


@pytest.mark.parametrize(
    "value", ["yesterday", "", "\x1b[2J", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", 5, [], {}]
)
def test_what_is_no_instant_says_nothing(status: MakeStatus, value: Any) -> None:
    told = freshness(status("docs", built_at=value, files_changed="many"), NOW)

    assert told is None or told.startswith("indexed ")


@given(
    st.dictionaries(st.sampled_from(["built_at", "ingested_at", "files_changed"]), st.text() | st.integers())
)
def test_nothing_that_a_store_says_is_repeated(status: MakeStatus, details: dict[str, Any]) -> None:
    told = freshness(status("docs", **details), NOW)

    assert told is None or (told.isprintable() and len(told) < 100)
