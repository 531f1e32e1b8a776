"""`collate`: everything a person types. Each command imports what it needs, so that all start fast."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence

from .light import msgspec  # isort: skip - before anything else that imports it
from collated import __version__
from collated.errors import CollatedError, RequestFailed
from collated.escape import visible

from .arguments import client_parser
from .line import Line, line
from .outcome import FOUND, INTERRUPTED, USAGE, of_error
from .session import Session

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `collate` with *argv* and return its exit code (DESIGN §7)."""
    for stream in (sys.stdout, sys.stderr):  # file names that are not UTF-8 hold what cannot be encoded
        if isinstance(stream, io.TextIOWrapper):  # not where a test or a notebook stands in for it
            stream.reconfigure(errors="backslashreplace")
    typed = sys.argv[1:] if argv is None else argv
    parser = client_parser(typed[0] if typed else None)
    given = parser.parse_args(typed)
    if given.version:
        print(f"collate {__version__}")
        return FOUND
    if given.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    return _guarded(Session(given, os.environ))


def _guarded(session: Session) -> int:
    try:
        code = _command(session.arguments.command)(session)
        sys.stdout.flush()
    except CollatedError as error:
        session.note(_told(error))
        return of_error(error)
    except UnicodeEncodeError:
        session.note([line("an argument is not text in UTF-8")])
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _forget_output()
        if isinstance(error, BrokenPipeError):  # whoever read it has had enough
            return FOUND
        session.note([line(visible(str(error)))])  # nowhere to write to: a full disk, say
        return USAGE
    return code


def _told(error: CollatedError) -> Iterable[Line]:
    if isinstance(error, RequestFailed):
        from . import render

        return render.error(error)
    return (line(visible(row)) for row in str(error).splitlines())


def _forget_output() -> None:
    """Let the interpreter flush what is left of its output into nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _command(name: str) -> Callable[[Session], int]:
    match name:
        case "add" | "remove":
            from . import links

            return {"add": links.add, "remove": links.remove}[name]
        case "doctor" | "completion":
            from .completion import completion
            from .doctor import doctor

            return {"doctor": doctor, "completion": completion}[name]
        case "symbols" | "refs" | "impact" | "chunk" | "architecture" | "similar":
            from .code_commands import CODE_COMMANDS

            return CODE_COMMANDS[name]
        case "tables" | "query" | "retrieve":
            from .context_commands import CONTEXT_COMMANDS

            return CONTEXT_COMMANDS[name]
        case "schema" | "demo" | "setup" | "mcp":
            return {"schema": _schema, "demo": _demo, "setup": _setup, "mcp": _mcp}[name]
        case _:
            from .commands import COMMANDS

            return COMMANDS[name]


def _schema(_: Session) -> int:
    from collated.protocol import schema

    print(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode())
    return FOUND


def _demo(_: Session) -> int:
    from .demo import run

    return run()


def _setup(session: Session) -> int:
    from .setup_command import setup

    return setup(session)


def _mcp(session: Session) -> int:
    from .mcp_command import mcp

    return mcp(session)
