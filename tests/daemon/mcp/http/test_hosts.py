"""Which names a request may have used to come here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.mcp.http.hosts import is_host_allowed, is_origin_allowed


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_loopback_names_with_the_port_are_taken(host: str) -> None:
    assert is_host_allowed(host, "127.0.0.1", 8765)


def test_the_address_that_the_connection_came_to_is_taken() -> None:
    assert is_host_allowed("192.0.2.7:8765", "192.0.2.7", 8765)
    assert is_host_allowed("[2001:db8::7]:8765", "2001:db8::7", 8765)
    assert is_host_allowed("localhost", "127.0.0.1", 80)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example:8765",
        "localhost.evil.example:8765",
        "localhost",
        "localhost:1",
        "localhost:87650",
        "localhost:x",
        "a@localhost:8765",
        "localhost:8765/x",
        "localhost:8765#x",
        "192.0.2.7:8765",
        "[::1",
    ],
)
def test_any_other_host_is_not(host: str) -> None:
    assert not is_host_allowed(host, "127.0.0.1", 8765)


@pytest.mark.parametrize("origin", [None, "http://localhost", "http://127.0.0.1:3000", "https://[::1]:3000"])
def test_an_origin_is_absent_or_of_this_machine(origin: str | None) -> None:
    assert is_origin_allowed(origin)


@pytest.mark.parametrize(
    "origin",
    ["", "null", "http://evil.example", "http://localhost.evil.example", "file://localhost", "//localhost"],
)
def test_any_other_origin_is_not(origin: str) -> None:
    assert not is_origin_allowed(origin)


@given(st.text(), st.integers(0, 65_535))
def test_any_text_is_judged(text: str, port: int) -> None:
    is_host_allowed(text, "127.0.0.1", port)
    is_origin_allowed(text)
