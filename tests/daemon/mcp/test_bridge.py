"""Where the host listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from collated import __version__
from collated.cli.arguments import client_parser
from collated.errors import ConfigError
from collated.mcp.bridge import host_path
from collated.mcp.configs import AGENTS


def test_each_daemon_and_each_version_has_a_host_of_its_own() -> None:
    assert host_path(Path("/run/s")) == Path(f"/run/s.mcp-{__version__}")
    assert host_path(Path("/run/t")) != host_path(Path("/run/s"))


def test_a_path_that_the_system_cannot_take_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="COLLATE_SOCKET"):
        host_path(Path("/run") / ("s" * 100))


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_whose_lines_are_known_can_be_asked_for(agent: str) -> None:
    assert client_parser("mcp").parse_args(["mcp", "--print-config", agent]).print_config == agent
