"""Where the host listens, and what it is told first."""

from __future__ import annotations

from pathlib import Path

import pytest

from collated import __version__
from collated.cli.arguments import client_parser
from collated.errors import ConfigError
from collated.mcp.bridge import Wish, host_path
from collated.mcp.configs import AGENTS


def test_each_daemon_and_each_version_has_a_host_of_its_own() -> None:
    assert host_path(Path("/run/s")) == Path(f"/run/s.mcp-{__version__}")
    assert host_path(Path("/run/t")) != host_path(Path("/run/s"))


def test_a_path_that_the_system_cannot_take_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="COLLATE_SOCKET"):
        host_path(Path("/run") / ("s" * 100))


@pytest.mark.parametrize("wish", [Wish(True, 3_000), Wish(False, 500), Wish(True, 0)])
def test_a_host_understands_what_a_bridge_wishes(wish: Wish) -> None:
    assert Wish.of(wish.line()) == wish


@pytest.mark.parametrize("line", [b"{}\n", b"spawn\n", b"\xff\n", b"no-spawn -1\n", b"spawn " + b"9" * 5_000])
def test_a_host_takes_anything_for_a_wish(line: bytes) -> None:
    assert Wish.of(line).budget_tokens < 10**9


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_whose_lines_are_known_can_be_asked_for(agent: str) -> None:
    assert client_parser("mcp").parse_args(["mcp", "--print-config", agent]).print_config == agent
