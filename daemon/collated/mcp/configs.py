"""The lines that make an agent start `collate mcp`, and where each agent wants them. Pure.

One server has every store, so there is one entry for each agent and none for a project.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from collated.setup.toml import quoted

__all__ = ["AGENTS", "lines", "where"]

_NAME = "collated"
_ARGUMENTS = ["mcp"]


class _Agent(Struct, frozen=True):
    """An agent: where its lines go, and what they are for a command."""

    where: str
    lines: Callable[[str], str]


def _servers(command: str) -> str:
    return _json("mcpServers", {"command": command, "args": _ARGUMENTS})


def _typed(command: str) -> str:
    return _json("servers", {"type": "stdio", "command": command, "args": _ARGUMENTS})


def _context_servers(command: str) -> str:
    return _json("context_servers", {"command": command, "args": _ARGUMENTS, "env": {}})


def _toml(command: str) -> str:
    arguments = ", ".join(map(quoted, _ARGUMENTS))
    return f"[mcp_servers.{_NAME}]\ncommand = {quoted(command)}\nargs = [{arguments}]\n"


def _claude_code(command: str) -> str:
    return shlex.join(["claude", "mcp", "add", "--scope", "user", _NAME, "--", command, *_ARGUMENTS]) + "\n"


def _json(key: str, server: Mapping[str, Any]) -> str:
    # ASCII alone: what could act on a terminal is an escape, and every parser of JSON takes it back.
    return json.dumps({key: {_NAME: server}}, indent=2) + "\n"


_AGENTS: Mapping[str, _Agent] = {
    "claude-code": _Agent("in a shell (or those for cursor into a project's .mcp.json)", _claude_code),
    "claude-desktop": _Agent(
        "into claude_desktop_config.json (Settings > Developer > Edit Config; on macOS "
        "~/Library/Application Support/Claude, on Windows %APPDATA%\\Claude, on Linux ~/.config/Claude)",
        _servers,
    ),
    "cursor": _Agent("into ~/.cursor/mcp.json, or .cursor/mcp.json of one project", _servers),
    "vscode": _Agent(
        "into the mcp.json of your profile (command `MCP: Open User Configuration`), or .vscode/mcp.json of "
        "one project",
        _typed,
    ),
    "zed": _Agent("into ~/.config/zed/settings.json (command `zed: open settings`)", _context_servers),
    "codex": _Agent("into ~/.codex/config.toml", _toml),
}

AGENTS = tuple(_AGENTS)
"""The agents whose lines are known."""


def lines(agent: str, command: str) -> str:
    """Return what to paste for one of `AGENTS`; *command* is the absolute path of `collate`."""
    return _AGENTS[agent].lines(command)


def where(agent: str) -> str:
    """Return where those lines go, as the end of a sentence: "into ~/.codex/config.toml"."""
    return _AGENTS[agent].where
