"""Exit codes follow from the answer; arguments follow DESIGN §7."""

import re
import typing
from typing import Any

import pytest

from collated import protocol
from collated.cli import outcome
from collated.cli.arguments import client_parser, daemon_parser
from collated.cli.code_commands import CODE_COMMANDS
from collated.cli.commands import COMMANDS
from collated.cli.context_commands import CONTEXT_COMMANDS
from collated.client import DaemonUnreachable
from collated.errors import CODES, CollatedError, ConfigError, RequestFailed
from collated.protocol import Answered, Failure
from collated_readers.code import Direction, ReferenceKind

HIT: Any = None  # that there is one is all that counts
FINE, PARTLY = Answered(1, 1), Answered(2, 1, 0, [Failure("a", "locked", "locked")])


def search(hits: int, *, complete: bool = True) -> protocol.SearchResult:
    return protocol.SearchResult([HIT] * hits, "lexical", None, complete, FINE if complete else PARTLY)


def grep(found: int, *, complete: bool = True) -> protocol.GrepResult:
    return protocol.GrepResult([HIT] * found, False, complete, FINE if complete else PARTLY)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (search(1), 0),
        (search(0), 1),
        (search(1, complete=False), 3),
        (search(0, complete=False), 3),
        (grep(1), 0),
        (grep(0), 1),
        (grep(1, complete=False), 3),
        (protocol.StoresResult([HIT]), 0),
        (protocol.StoresResult([]), 1),
        (protocol.IndexResult("x"), 0),
        (protocol.IndexResult(""), 1),
        (protocol.Changes([], [], []), 0),
        (protocol.SymbolsResult([HIT], "exact", 0, False, True, FINE), 0),
        (protocol.SymbolsResult([], None, 0, False, True, FINE), 1),
        (protocol.SymbolsResult([HIT], "exact", 0, False, False, PARTLY), 3),
        (protocol.ReferencesResult([HIT], [], False, True, FINE), 0),
        (protocol.ReferencesResult([], [], False, True, FINE), 1),
        (protocol.ImpactResult([HIT], [], ["a"], [], False, True, FINE), 0),
        (protocol.ImpactResult([], [], ["a"], [], False, True, FINE), 1),
        (protocol.ImpactResult([], [], [], [], False, False, PARTLY), 3),
        (protocol.ChunkResult([HIT], False, True, FINE), 0),
        (protocol.ChunkResult([], False, True, FINE), 1),
        (protocol.ArchitectureResult("a", {"x": 1}), 0),
        (protocol.ArchitectureResult("a", None), 1),
        (protocol.VectorsSearchResult([HIT], "score", False, True, FINE), 0),
        (protocol.VectorsSearchResult([], "score", False, True, FINE), 1),
        (protocol.VectorsSearchResult([HIT], "score", False, False, PARTLY), 3),
        (protocol.ContextTable(columns=["a"], rows=[[1]], truncated=True), 0),
        (protocol.ContextTable(columns=["a"], rows=[], truncated=False), 1),
    ],
)
def test_the_exit_code_follows_from_the_result(result: Any, code: int) -> None:
    assert outcome.of_result(result) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestFailed("unknown_id", ""), 1),
        (RequestFailed("unknown_store", ""), 1),
        (RequestFailed("invalid_params", ""), 2),
        (RequestFailed("pattern_rejected", ""), 2),
        (RequestFailed("query_model_mismatch", ""), 2),
        (RequestFailed("StatementNotReadOnly", ""), 2),
        (RequestFailed("engine_error", ""), 2),
        (RequestFailed("EnforceUnknownRelation", ""), 1),
        (RequestFailed("ReadDurationExceeded", ""), 3),
        (RequestFailed("ReadPartUnavailable", ""), 3),
        (RequestFailed("store_unavailable", ""), 3),
        (RequestFailed("deadline_exceeded", ""), 3),
        (RequestFailed("draining", ""), 69),
        (DaemonUnreachable(""), 69),
        (ConfigError(""), 2),
    ],
)
def test_the_exit_code_follows_from_the_errors_code(error: CollatedError, code: int) -> None:
    assert outcome.of_error(error) == code


def test_every_error_has_one_of_the_documented_exit_codes() -> None:
    assert {outcome.of_error(RequestFailed(code, "")) for code in CODES} <= {1, 2, 3, 69}


# --------------------------------------------------------------------------- arguments


def test_a_search_takes_every_option_of_the_design() -> None:
    typed = "search refund window --in docs/ --in *.md --store a --store b --format contextpull --limit 3"
    given = client_parser().parse_args([*typed.split(), "--mode", "hybrid", "--ranking", "fused", "--json"])
    assert given.query == ["refund", "window"]
    assert given.within == ["docs/", "*.md"]
    assert given.stores == ["a", "b"]
    assert (given.formats, given.limit, given.mode, given.ranking) == (["contextpull"], 3, "hybrid", "fused")
    assert (given.json, given.socket, given.no_spawn, given.sync, given.deadline_ms) == (
        True,
        None,
        False,
        False,
        None,
    )


@pytest.mark.parametrize(
    "typed",
    [
        "read docs:a.md#0 --context 2 --socket /s",
        "grep a+ --regex --in docs/ --deadline-ms 100 --sync",
        "neighbours docs:a.md#0 --before 2 --after 0",
        "index",
        "index docs --prefix guides/",
        "stores --json",
        "stores docs other --format contextpull",
        "add some/path --name docs",
        "remove docs",
        "completion zsh",
        "cache --clear --json",
        "symbols Box.get --exact --store a --format codebase-index --limit 3",
        "refs get --kind callers --path src/ --json --sync",
        "impact get --direction both --depth 3 --deadline-ms 100",
        "chunk src/a.py:12 --store a",
        "architecture a --json",
        "similar --vector - --model m --limit 5 --socket /s --no-spawn",
        "tables",
        "tables a --table notes --json --sync",
        "query a - --param n:integer=3 --as-of 2030-01-31 --limit-bytes 9 --timeout 1.5 --internals --json",
        "query a x --valid-as-of 2030-01-31 --available-as-of 2030-01-31 --deadline-ms 100",
        "retrieve a refund window --prefix p --table t --table u --kind k --filter a=b --since 2030-01-31",
        "retrieve a refund --limit 3 --as-of 2030-01-31 --json",
        "setup /a /b --depth 3 --dry-run --undo --yes --no-service --json",
        *("status", "rescan", "reload", "watch", "doctor", "demo", "schema"),
    ],
)
def test_a_command_is_understood_alike_whether_the_others_are_built_or_not(typed: str) -> None:
    words = typed.split()
    assert vars(client_parser().parse_args(words)) == vars(client_parser(words[0]).parse_args(words))


@pytest.mark.parametrize(
    "typed",
    [
        *("search", "search x --limit many", "search x --mode magic", "nonsense", "read", "completion fish"),
        *("symbols", "refs x --kind none", "impact x --direction left", "similar", "chunk"),
    ],
)
def test_a_mistake_is_usage(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        client_parser(typed.split(maxsplit=1)[0]).parse_args(typed.split())
    assert left.value.code == outcome.USAGE
    assert capsys.readouterr().err.startswith("usage: collate")


def test_the_defaults_and_choices_are_those_of_the_wire() -> None:
    given = client_parser().parse_args(["search", "x"])
    wire = protocol.SearchParams("x")
    assert (given.limit, given.mode, given.sync) == (wire.limit, wire.mode, wire.sync)
    assert client_parser().parse_args(["grep", "x"]).limit == protocol.GrepParams("x").limit
    assert client_parser().parse_args(["read", "x"]).context == protocol.ReadParams("x").context
    for command, params in (
        ("symbols x", protocol.SymbolsParams("x")),
        ("refs x", protocol.ReferencesParams("x")),
        ("impact x", protocol.ImpactParams("x")),
        ("similar --vector x", protocol.VectorsSearchParams([1.0])),
    ):
        typed = vars(client_parser().parse_args(command.split()))
        shared = typed.keys() & set(params.__struct_fields__) - {"name", "target", "vector"}
        assert {name: typed[name] for name in shared} == {name: getattr(params, name) for name in shared}
        assert "limit" in shared
    for option, choices in (("--kind", ReferenceKind), ("--direction", Direction)):
        for choice in typing.get_args(choices):
            command = "refs" if option == "--kind" else "impact"
            client_parser().parse_args([command, "x", option, choice])
    for option, choices in (("--mode", protocol.Mode), ("--ranking", protocol.Ranking)):
        for choice in typing.get_args(choices):
            client_parser().parse_args(["search", "x", option, choice])


def test_people_get_the_daemons_ranking_and_each_text_once() -> None:
    given = client_parser().parse_args(["search", "x"])
    assert (given.ranking, given.every_copy) == ("default", False)
    assert client_parser().parse_args(["search", "x", "--every-copy"]).every_copy


def test_every_command_is_in_the_help_and_nothing_else() -> None:
    named = set(re.findall(r"^    (\w+)\b", client_parser().format_help(), re.MULTILINE))
    others = {"add", "remove", "doctor", "demo", "schema", "completion", "setup", "mcp"}
    assert named == {*COMMANDS, *CODE_COMMANDS, *CONTEXT_COMMANDS} | others


def test_the_daemons_own_command_runs_and_checks() -> None:
    given = daemon_parser().parse_args(["run", "--config", "f", "--socket", "s", "--idle-exit", "5"])
    assert (given.config, given.socket, given.idle_exit) == ("f", "s", 5.0)
    assert daemon_parser().parse_args(["run"]).idle_exit == 0.0
    assert daemon_parser().parse_args(["check", "--config", "f"]).config == "f"
