"""What a person may type: the parsers of `collate` and `collated`."""

from argparse import Action, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping

from .typed import condition, milliseconds, parameter

__all__ = ["client_parser", "daemon_parser"]

# What shtab.FILE is: how each shell completes a path. shtab itself is imported by `completion` alone.
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}

_TOO_LARGE = 2**53  # for the wire

_EPILOG = """\
A REF is STORE:ID, as the results show it, or an ID alone where one store has it.
Data goes to standard output, everything else to standard error.

exit codes: 0 found, 1 nothing found, 2 usage, 3 partial answer, 69 daemon not reachable, 130 interrupted
"""


def client_parser(wanted: str | None = None) -> ArgumentParser:
    """Return the parser of `collate`; `command` is None when none was given.

    With the name of a command in *wanted* only that one knows its arguments, which saves a tenth of
    the time in which `collate` has to start.
    """
    parser = ArgumentParser(
        "collate",
        description="Search every knowledge store on this machine at once.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (description, add_arguments) in _COMMANDS.items():
        help_text = description[0].lower() + description[1:].removesuffix(".")
        command = commands.add_parser(name, help=help_text, description=description)
        if wanted in (name, None) or wanted not in _COMMANDS:
            add_arguments(command)
            _add_common(command)
    return parser


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one JSON document")
    _is_path(parser.add_argument("--socket", metavar="PATH", help="the daemon's socket"))
    parser.add_argument("--no-spawn", action="store_true", help="do not start a daemon when none runs")


def _number(typed: str) -> int:
    number = int(typed)
    if abs(number) >= _TOO_LARGE:
        raise ArgumentTypeError(f"{typed} is too large")
    return number


_number.__name__ = "number"  # which argparse shows


def _is_path(action: Action) -> None:
    vars(action)["complete"] = _FILES


def _search(parser: ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", metavar="QUERY", help="words to look for")
    parser.add_argument("--limit", type=_number, default=10, metavar="N", help="how many hits, 1 to 50 (10)")
    parser.add_argument(
        "--mode", choices=("lexical", "hybrid"), default="lexical", help="words, or words and vectors"
    )
    parser.add_argument(
        "--ranking",
        choices=("default", "contract", "fused", "global", "smart"),
        default="default",
        help="how the lists are merged (the daemon's search.ranking)",
    )
    parser.add_argument(
        "--every-copy", action="store_true", help="show hits of equal text each, not the best of them alone"
    )
    _scope(parser)


def _grep(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="PATTERN", help="what to look for, up to 200 characters")
    parser.add_argument("--regex", action="store_true", help="PATTERN is a regular expression")
    parser.add_argument(
        "--limit", type=_number, default=20, metavar="N", help="how many matches, 1 to 100 (20)"
    )
    _scope(parser)


def _scope(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--in", dest="within", action="append", metavar="G", help="only documents of this path or glob"
    )
    _of_stores(parser)


def _of_stores(parser: ArgumentParser) -> None:
    parser.add_argument("--store", dest="stores", action="append", metavar="NAME", help="only this store")
    parser.add_argument("--format", dest="formats", action="append", metavar="F", help="only this format")
    _time(parser)


def _time(parser: ArgumentParser) -> None:
    parser.add_argument("--deadline-ms", type=_number, metavar="MS", help="how long the answer may take")
    parser.add_argument("--sync", action="store_true", help="look at the disk first, then answer")


def _read(parser: ArgumentParser) -> None:
    _ref(parser)
    parser.add_argument(
        "--context", type=_number, default=0, metavar="N", help="records around it, 0 to 5 (0)"
    )
    _time(parser)


def _ref(parser: ArgumentParser) -> None:
    parser.add_argument("ref", metavar="REF", help="STORE:ID, or ID alone where one store has it")


def _neighbours(parser: ArgumentParser) -> None:
    _ref(parser)
    parser.add_argument("--before", type=_number, default=1, metavar="N", help="0 to 5 (1)")
    parser.add_argument("--after", type=_number, default=1, metavar="N", help="0 to 5 (1)")
    _time(parser)


def _index(parser: ArgumentParser) -> None:
    parser.add_argument("store", nargs="?", metavar="STORE")
    parser.add_argument("--prefix", metavar="P", help="only documents whose path begins so")
    _time(parser)


def _symbols(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a name, how it begins, or Owner.member")
    parser.add_argument("--exact", action="store_true", help="only what is called exactly so")
    _limit(parser, 20)
    _of_stores(parser)


def _refs(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a name, or Owner.member")
    parser.add_argument(
        "--kind", choices=("all", "callers", "definitions"), default="all", help="which (all)"
    )
    parser.add_argument("--path", metavar="P", help="only in this file or folder")
    _limit(parser, 50)
    _of_stores(parser)


def _impact(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="a file, a symbol, Owner.member, or a path's end")
    parser.add_argument(
        "--direction",
        choices=("up", "down", "both"),
        default="up",
        help="to what depends on it, to what it depends on (up)",
    )
    parser.add_argument("--depth", type=_number, default=2, metavar="N", help="how far, 1 to 10 (2)")
    _limit(parser, 200)
    _of_stores(parser)


def _chunk(parser: ArgumentParser) -> None:
    parser.add_argument("place", metavar="FILE:LINE", help="a line of a file, by its path in the project")
    parser.add_argument("--store", metavar="NAME", help="only this store")
    _time(parser)


def _architecture(parser: ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE")
    _time(parser)


def _similar(parser: ArgumentParser) -> None:
    vector = parser.add_argument(
        "--vector",
        required=True,
        metavar="FILE",
        help="a JSON array of numbers, or raw little-endian float32; - is standard input",
    )
    _is_path(vector)
    parser.add_argument("--model", metavar="M", help="only stores whose vectors this model made")
    _limit(parser, 10)
    _of_stores(parser)


def _tables(parser: ArgumentParser) -> None:
    parser.add_argument("store", nargs="?", metavar="STORE", help="only this store, and more of each table")
    parser.add_argument("--table", metavar="NAME", help="only this table: its columns, hints and limits")
    _time(parser)


def _query(parser: ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE")
    parser.add_argument("sql", metavar="SQL", help="one SELECT over the store's tables; - is standard input")
    parser.add_argument(
        "--param",
        dest="parameters",
        action="append",
        type=parameter,
        metavar="NAME:TYPE=VALUE",
        help="what $NAME stands for; an integer, float, string, timestamp or boolean",
    )
    _of_a_read(parser)


def _retrieve(parser: ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE")
    parser.add_argument("query", nargs="+", metavar="QUERY", help="words to look for")
    parser.add_argument("--prefix", default="", metavar="P", help="only tables whose name begins so")
    parser.add_argument("--table", dest="tables", action="append", metavar="T", help="only this table")
    parser.add_argument("--kind", dest="kinds", action="append", metavar="K", help="only rows of this kind")
    parser.add_argument(
        "--filter",
        dest="conditions",
        action="append",
        type=condition,
        metavar="COLUMN=VALUE",
        help="only rows with this value, or one of several of a column",
    )
    parser.add_argument("--since", metavar="T", help="rows published since then first")
    parser.add_argument("--limit", type=_number, metavar="N", help="how many rows (10)")
    _of_a_read(parser)


def _of_a_read(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--as-of", metavar="T", help="what had been committed at an instant or by a day's end"
    )
    parser.add_argument("--valid-as-of", metavar="T", help="what was true then")
    parser.add_argument("--available-as-of", metavar="T", help="what was to be had then")
    parser.add_argument("--limit-bytes", type=_number, metavar="N", help="how long the answer may be")
    parser.add_argument("--timeout", type=milliseconds, metavar="S", help="stop it after so many seconds")
    parser.add_argument("--internals", action="store_true", help="say how the answer was made, too")
    _time(parser)


def _limit(parser: ArgumentParser, usual: int) -> None:
    parser.add_argument(
        "--limit", type=_number, default=usual, metavar="N", help=f"how many, 1 to 1000 ({usual})"
    )


def _stores(parser: ArgumentParser) -> None:
    parser.add_argument("stores", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--format", dest="formats", action="append", metavar="F", help="only this format")


def _cache(parser: ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="remove all sidecars; they are made anew")


def _add(parser: ArgumentParser) -> None:
    _is_path(
        parser.add_argument("path", metavar="PATH", help="a store file, or a project directory with one")
    )
    parser.add_argument("--name", metavar="N", help="its name: a-z, 0-9, `.`, `_`, `-`")


def _remove(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def _setup(parser: ArgumentParser) -> None:
    _is_path(
        parser.add_argument("roots", nargs="*", metavar="ROOT", help="look below this folder (your home)")
    )
    parser.add_argument("--depth", type=_number, default=6, metavar="N", help="how many folders down (6)")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be written, and write nothing"
    )
    parser.add_argument("--undo", action="store_true", help="take back what earlier runs wrote")
    parser.add_argument("--yes", action="store_true", help="do not ask before writing")
    parser.add_argument("--no-service", action="store_true", help="leave the user's service manager alone")


def _mcp(parser: ArgumentParser) -> None:
    from collated.mcp import BUDGET_TOKENS

    agents = ("claude-code", "claude-desktop", "cursor", "vscode", "zed", "codex")
    parser.add_argument(
        "--print-config", choices=agents, metavar="AGENT", help=f"print what to paste: {', '.join(agents)}"
    )
    parser.add_argument(
        "--budget",
        type=_number,
        default=BUDGET_TOKENS,
        metavar="TOKENS",
        help=f"how long the instructions, with the contents of all stores, may be ({BUDGET_TOKENS})",
    )
    http = parser.add_argument_group("over HTTP, instead of standard input and output")
    http.add_argument("--http", metavar="HOST:PORT", help="where to listen")
    http.add_argument("--audience", metavar="A", help="what the credentials must have been made for")
    http.add_argument("--max-in-flight", type=_number, metavar="N", help="how many requests at once")
    _is_path(http.add_argument("--credentials", metavar="FILE", help="who may ask what"))
    _is_path(
        http.add_argument("--denylist", metavar="FILE", help="credentials that were revoked, one a line")
    )
    http.add_argument("--public", action="store_true", help="HOST may be other than this machine")
    made = parser.add_argument_group("a new credential, printed once")
    made.add_argument("--new-credential", metavar="ID", help="add one to the file of --credentials")
    made.add_argument("--stores", metavar="A,B", help="for these stores only")
    made.add_argument("--days", type=_number, default=30, metavar="N", help="how long it is good (30)")


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    parser.epilog = (
        'For bash: eval "$(collate completion bash)"; for zsh, write it to a file _collate on $fpath.'
    )


def _nothing(_: ArgumentParser) -> None:
    pass


_COMMANDS: Mapping[str, tuple[str, Callable[[ArgumentParser], None]]] = {
    "search": ("Find records by words and rank them over all stores.", _search),
    "grep": ("Find records by a text or regular expression, in id order.", _grep),
    "read": ("Print one record, word for word.", _read),
    "neighbours": ("Print a record among those before and after it.", _neighbours),
    "index": ("Print a store's table of contents, or one line for each store.", _index),
    "symbols": ("Find where names are defined, in every code store.", _symbols),
    "refs": ("Find where a name is used and defined.", _refs),
    "impact": ("Find what depends on a file or symbol, or what it depends on.", _impact),
    "chunk": ("Print what stands at a line of a file, and the symbol around it.", _chunk),
    "architecture": ("Print the report on a project's modules that its store holds.", _architecture),
    "similar": ("Find the records whose vectors are nearest to one of yours.", _similar),
    "tables": ("List the tables of context stores, or describe those of one.", _tables),
    "query": ("Ask a context store's tables in SQL.", _query),
    "retrieve": ("Find the rows of a context store that best answer a question.", _retrieve),
    "stores": ("List every store with its state, and why it is not open.", _stores),
    "add": ("Add a store to those that are watched, by a symlink.", _add),
    "remove": ("Remove the symlink of a store that was added; the store stays.", _remove),
    "rescan": ("Have the daemon look at the disk again, now.", _nothing),
    "watch": ("Print what happens to the stores until interrupted.", _nothing),
    "status": ("Print how the daemon is.", _nothing),
    "cache": ("Print what is kept to make questions fast, or remove it.", _cache),
    "reload": ("Have the daemon read its configuration again.", _nothing),
    "setup": ("Find the stores of this machine, and set everything up; --undo takes it back.", _setup),
    "mcp": ("Serve every store to an agent by the Model Context Protocol.", _mcp),
    "doctor": ("Look for problems and say what to do about each.", _nothing),
    "demo": ("Show what collated does, on stores made for it.", _nothing),
    "schema": ("Print the wire protocol as a JSON Schema.", _nothing),
    "completion": ("Print a completion script for a shell.", _completion),
}


def daemon_parser() -> ArgumentParser:
    """Return the parser of `collated`, the daemon's own command."""
    parser = ArgumentParser("collated", description="The daemon that keeps every knowledge store open.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    run = commands.add_parser("run", help="run the daemon", description="Run the daemon until SIGTERM.")
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
    for command in (run, check):
        _is_path(command.add_argument("--config", metavar="F", help="the configuration file"))
    return parser
