"""What has to be declared before anything is served."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from collated.errors import ConfigError
from collated.mcp.http.declaring import Declared, declared


def given(http: str = "127.0.0.1:8765", **changed: Any) -> Namespace:
    complete = {
        "http": http,
        "audience": "here",
        "max_in_flight": 8,
        "credentials": "keys.toml",
        "denylist": None,
        "public": False,
        "budget": 3_000,
    }
    return Namespace(**{**complete, **changed})


def test_a_whole_declaration_is_taken() -> None:
    expected = Declared("127.0.0.1", 8765, "here", 8, Path("keys.toml"), None, 3_000)
    assert declared(given()) == declared(given("localhost:8765")) == expected
    assert declared(given(denylist="gone.txt")).denylist == Path("gone.txt")


@pytest.mark.parametrize(
    ("flag", "changed"),
    [
        ("--audience", {"audience": None}),
        ("--audience", {"audience": ""}),
        ("--max-in-flight", {"max_in_flight": None}),
        ("--max-in-flight", {"max_in_flight": 0}),
        ("--max-in-flight", {"max_in_flight": -1}),
        ("--credentials", {"credentials": None}),
    ],
)
def test_what_is_not_declared_is_named(flag: str, changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^ServeDeclarationMissing: {flag} "):
        declared(given(**changed))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "[::]", "[2001:db8::7]"])  # noqa: S104 - refused
def test_an_address_beyond_this_machine_has_to_be_said_twice(host: str) -> None:
    with pytest.raises(ConfigError, match="--public"):
        declared(given(f"{host}:8765"))
    assert declared(given(f"{host}:8765", public=True)).is_public


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost", "[::1]"])
def test_loopback_is_not_public_whatever_is_said(host: str) -> None:
    assert not declared(given(f"{host}:0", public=True)).is_public


@pytest.mark.parametrize(
    "http",
    ["", "8765", ":8765", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "host.example:1", "::1", "127.1:80"],
)
def test_what_is_no_address_and_port_is_refused(http: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        declared(given(http))


@pytest.mark.parametrize("port", ["65536", "-1"])
def test_a_port_has_bounds(port: str) -> None:
    with pytest.raises(ConfigError, match="a port is"):
        declared(given(f"127.0.0.1:{port}"))
