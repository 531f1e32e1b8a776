"""`collate mcp`: every store on this machine for agents, over standard input and output or over HTTP."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from .line import line
from .outcome import FOUND, USAGE
from .session import Session

__all__ = ["mcp"]


def mcp(session: Session) -> int:
    """Serve until the agent, or a signal, ends it; or print what an agent is told to start it with.

    Raises:
        ConfigError: what is declared does not do, or the socket's path is too long.
        DaemonUnreachable: what serves could not be started, or went away.
    """
    given = session.arguments
    if given.print_config:
        return _print_config(session)
    if find_spec("mcp") is None:
        session.note([line("this needs the official SDK: install `collated[mcp]`")])
        return USAGE
    if given.http or given.new_credential:
        from . import http_command

        return http_command.serve(session) if given.http else http_command.new_credential(session)
    from collated.mcp import bridge

    wish = bridge.Wish(not given.no_spawn, given.budget)
    bridge.run(session.socket, session.environ, wish)
    return FOUND


def _print_config(session: Session) -> int:
    from collated.mcp.configs import lines, where

    agent = session.arguments.print_config
    program = Path(shutil.which(sys.argv[0]) or shutil.which("collate") or "collate").absolute()
    sys.stdout.write(lines(agent, str(program)))
    session.note([line(where(agent))])
    return FOUND
