"""Completion scripts, by shtab."""

from .arguments import client_parser
from .outcome import FOUND
from .session import Session

__all__ = ["completion"]


def completion(session: Session) -> int:
    """Print the script of one shell."""
    import shtab

    print(shtab.complete(client_parser(), session.arguments.shell))
    return FOUND
