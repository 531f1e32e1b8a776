"""What a person may type: the parsers of `collate` and `collated`."""

from argparse import Action, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable

__all__ = ["client_parser", "daemon_parser"]

_Add = Callable[..., ArgumentParser]

# What shtab.FILE is: how each shell completes a path. shtab itself is imported by `completion` alone.
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}

_EPILOG = """\
A REF is STORE:ID, as the results show it. Data goes to standard output, everything else to standard error.

exit codes: 0 found, 1 nothing found, 2 usage, 3 partial answer, 69 daemon not reachable, 130 interrupted
"""


def client_parser() -> ArgumentParser:
    """Return the parser of `collate`; `command` is None when none was given."""
    parser = ArgumentParser(
        "collate",
        description="Search every knowledge store on this machine at once.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    client = ArgumentParser(add_help=False)
    client.add_argument("--json", action="store_true", help="print the result as one JSON document")
    _is_path(client.add_argument("--socket", metavar="PATH", help="the daemon's socket"))
    client.add_argument("--no-spawn", action="store_true", help="do not start a daemon when none runs")

    def add(name: str, description: str, epilog: str | None = None) -> ArgumentParser:
        help_text = description[0].lower() + description[1:].removesuffix(".")
        return commands.add_parser(
            name, help=help_text, description=description, epilog=epilog, parents=[client]
        )

    _add_questions(add)
    _add_records(add)
    _add_stores(add)
    _add_care(add)
    return parser


def _is_path(action: Action) -> None:
    vars(action)["complete"] = _FILES


def _add_questions(add: _Add) -> None:
    search = add("search", "Find records by words and rank them over all stores.")
    search.add_argument("query", nargs="+", metavar="QUERY", help="words to look for")
    search.add_argument("--limit", type=int, default=10, metavar="N", help="how many hits, 1 to 50 (10)")
    search.add_argument(
        "--mode", choices=("lexical", "hybrid"), default="lexical", help="words, or words and vectors"
    )
    search.add_argument(
        "--ranking", choices=("contract", "fused"), default="contract", help="how lists are merged"
    )
    _add_scope(search)
    grep = add("grep", "Find records by a text or regular expression, in id order.")
    grep.add_argument("pattern", metavar="PATTERN", help="what to look for, up to 200 characters")
    grep.add_argument("--regex", action="store_true", help="PATTERN is a regular expression")
    grep.add_argument("--limit", type=int, default=20, metavar="N", help="how many matches, 1 to 100 (20)")
    _add_scope(grep)


def _add_scope(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--in", dest="within", action="append", metavar="G", help="only documents of this path or glob"
    )
    parser.add_argument("--store", dest="stores", action="append", metavar="NAME", help="only this store")
    parser.add_argument("--format", dest="formats", action="append", metavar="F", help="only this format")
    _add_time(parser)


def _add_time(parser: ArgumentParser) -> None:
    parser.add_argument("--deadline-ms", type=int, metavar="MS", help="how long the answer may take")
    parser.add_argument("--sync", action="store_true", help="look at the disk first, then answer")


def _add_records(add: _Add) -> None:
    read = add("read", "Print one record, word for word.")
    read.add_argument("ref", metavar="REF")
    read.add_argument("--context", type=int, default=0, metavar="N", help="records around it, 0 to 5 (0)")
    _add_time(read)
    neighbours = add("neighbours", "Print a record among those before and after it.")
    neighbours.add_argument("ref", metavar="REF")
    neighbours.add_argument("--before", type=int, default=1, metavar="N", help="0 to 5 (1)")
    neighbours.add_argument("--after", type=int, default=1, metavar="N", help="0 to 5 (1)")
    _add_time(neighbours)
    index = add("index", "Print a store's table of contents, or one line for each store.")
    index.add_argument("store", nargs="?", metavar="STORE")
    index.add_argument("--prefix", metavar="P", help="only documents whose path begins so")
    _add_time(index)


def _add_stores(add: _Add) -> None:
    stores = add("stores", "List every store with its state, and why it is not open.")
    stores.add_argument("stores", nargs="*", default=None, metavar="NAME")
    stores.add_argument("--format", dest="formats", action="append", metavar="F", help="only this format")
    new = add("add", "Add a store to those that are watched, by a symlink.")
    _is_path(new.add_argument("path", metavar="PATH", help="a store file, or a project directory with one"))
    new.add_argument("--name", metavar="N", help="its name: a-z, 0-9, `.`, `_`, `-`")
    old = add("remove", "Remove the symlink of a store that was added; the store itself stays.")
    old.add_argument("name", metavar="NAME")
    add("rescan", "Have the daemon look at the disk again, now.")
    add("watch", "Print what happens to the stores until interrupted.")


def _add_care(add: _Add) -> None:
    add("status", "Print how the daemon is.")
    add("reload", "Have the daemon read its configuration again.")
    add("doctor", "Look for problems and say what to do about each.")
    add("demo", "Show what collated does, on stores made for it.")
    add("schema", "Print the wire protocol as a JSON Schema.")
    completion = add(
        "completion",
        "Print a completion script for a shell.",
        'For bash: eval "$(collate completion bash)"; for zsh, write it to a file _collate on $fpath.',
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def daemon_parser() -> ArgumentParser:
    """Return the parser of `collated`, the daemon's own command."""
    parser = ArgumentParser("collated", description="The daemon that keeps every knowledge store open.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    run = commands.add_parser("run", help="run the daemon", description="Run the daemon until SIGTERM.")
    run.add_argument("--config", metavar="F", help="the configuration file")
    run.add_argument("--socket", default="", metavar="P", help="where to listen")
    run.add_argument(
        "--idle-exit",
        type=float,
        default=0.0,
        metavar="S",
        help="end after S seconds without a client, unless the configuration says otherwise",
    )
    check = commands.add_parser(
        "check", help="check the configuration", description="Read the configuration and say what is wrong."
    )
    check.add_argument("--config", metavar="F", help="the configuration file")
    return parser
