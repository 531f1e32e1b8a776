"""Addresses of records, as a template makes them and as people write them."""

from __future__ import annotations

import pytest

from collated.mcp.addresses import ref_of


@pytest.mark.parametrize(
    ("address", "ref"),
    [
        ("collate://docs/guide.md#3", "docs:guide.md#3"),
        ("collate://docs/guide.md%233", "docs:guide.md#3"),
        ("collate://docs/a/b c.md#0", "docs:a/b c.md#0"),
        ("collate://docs/%C3%A9.md#0", "docs:é.md#0"),
        ("collate://docs/a?b=c:d#0", "docs:a?b=c:d#0"),
        ("collate://index", None),
        ("collate://docs/", None),
        ("collate:///guide.md#3", None),
        ("collate://", None),
        ("https://docs/guide.md", None),
        ("docs/guide.md", None),
        ("", None),
    ],
)
def test_an_address_means_a_ref_or_nothing(address: str, ref: str | None) -> None:
    assert ref_of(address) == ref
