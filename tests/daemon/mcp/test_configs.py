import json
import shlex
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.mcp.configs import AGENTS, lines, where

COMMAND = "/home/anna/.local/bin/collate"
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
SERVER = {"command": COMMAND, "args": ["mcp"]}


def test_the_agents_are_those_of_the_command_line() -> None:
    assert AGENTS == ("claude-code", "claude-desktop", "cursor", "vscode", "zed", "codex")


@pytest.mark.parametrize(
    ("agent", "document"),
    [
        ("claude-desktop", {"mcpServers": {"collated": SERVER}}),
        ("cursor", {"mcpServers": {"collated": SERVER}}),
        ("vscode", {"servers": {"collated": {"type": "stdio", **SERVER}}}),
        ("zed", {"context_servers": {"collated": {**SERVER, "env": {}}}}),
    ],
)
def test_the_lines_are_a_whole_document_in_json(agent: str, document: object) -> None:
    assert json.loads(lines(agent, COMMAND)) == document


def test_codex_takes_a_table_of_toml() -> None:
    assert tomllib.loads(lines("codex", COMMAND)) == {"mcp_servers": {"collated": SERVER}}


def test_claude_code_takes_a_command() -> None:
    assert lines("claude-code", COMMAND) == f"claude mcp add --scope user collated -- {COMMAND} mcp\n"


@given(PATHS)
def test_any_path_comes_through(path: str) -> None:
    assert json.loads(lines("cursor", path))["mcpServers"]["collated"]["command"] == path
    assert tomllib.loads(lines("codex", path))["mcp_servers"]["collated"]["command"] == path
    assert shlex.split(lines("claude-code", path).partition(" -- ")[2]) == [path, "mcp"]


@given(PATHS)
def test_json_and_toml_hold_nothing_that_a_terminal_acts_on(path: str) -> None:
    for agent in ("claude-desktop", "cursor", "vscode", "zed", "codex"):
        assert all(each.isprintable() or each == "\n" for each in lines(agent, path))


def test_each_agent_is_told_where_its_lines_go() -> None:
    assert where("cursor") == "into ~/.cursor/mcp.json, or .cursor/mcp.json of one project"
    assert all(where(agent).startswith(("in ", "into ")) for agent in AGENTS)
