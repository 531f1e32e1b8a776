"""Questions and their answers, as programs and as people get them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated import __version__

if TYPE_CHECKING:
    from tests.system.commands.conftest import Collate, MakeStore, StartCollate, Terminal
    from tests.system.conftest import Daemon

TIMEOUT_S = 30
HEAVY = {
    "anyio",
    "asyncio",
    "inspect",
    "regex",
    "rich",
    "shtab",
    "sqlite3",
    "structlog",
    "subprocess",
    "tomllib",
}
HOSTILE = {"evil.md": "# Title \x1b[2J\x1b]0;owned\x07\n\nspoofed \x9b31m \u202etxt\u202c refund\n"}


def test_a_search_shows_place_heading_and_snippet(shared: Daemon, collate: Collate) -> None:
    ran = collate(shared, "search", "refund", "window", "--ranking", "contract")
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == [
        "docs:guide.md#1  Guide > Refund window  phrase " + _score(shared, 0),
        _snippet(shared, 0),
    ]
    assert "notes:notes.txt#0" in ran.out
    assert ran.err == ""


def _score(daemon: Daemon, position: int) -> str:
    return f"{daemon.ask('search', query='refund window')['hits'][position]['score']:.2f}"


def _snippet(daemon: Daemon, position: int) -> str:
    snippet: str = daemon.ask("search", query="refund window")["hits"][position]["snippet"]
    assert "**" in snippet
    return f"    {snippet}"


def test_options_narrow_a_search(shared: Daemon, collate: Collate) -> None:
    def refs(*options: str) -> list[str]:
        return [hit["ref"] for hit in collate(shared, "search", "refund", "--json", *options).json["hits"]]

    assert set(refs()) == {"docs:guide.md#1", "notes:notes.txt#0"}
    assert refs("--store", "notes") == ["notes:notes.txt#0"]
    assert refs("--in", "guide.md") == ["docs:guide.md#1"]
    assert refs("--in", "api/", "--in", "*.txt") == ["notes:notes.txt#0"]
    assert len(refs("--limit", "1")) == 1
    assert len(refs("--format", "contextpull", "--ranking", "fused", "--deadline-ms", "9000", "--sync")) == 2


@pytest.mark.parametrize(
    ("typed", "method", "params"),
    [
        ("search refund window", "search", {"query": "refund window", "ranking": "smart", "collapse": True}),
        ("search window --every-copy --ranking contract", "search", {"query": "window"}),
        ("search zzz", "search", {"query": "zzz"}),
        ("grep gw-", "grep", {"pattern": "gw-"}),
        ("read docs:guide.md#1 --context 1", "read", {"ref": "docs:guide.md#1", "context": 1}),
        ("neighbours docs:guide.md#1 --after 0", "neighbours", {"ref": "docs:guide.md#1", "after": 0}),
        ("index docs", "index", {"store": "docs"}),
        ("index docs --prefix api/", "index", {"store": "docs", "prefix": "api/"}),
        ("index", "index", {}),
        ("stores", "stores", {}),
        ("stores notes", "stores", {"stores": ["notes"]}),
        ("rescan", "rescan", {}),
        ("reload", "reload", {}),
    ],
)
def test_json_is_one_document_and_exactly_the_result_of_the_wire(
    shared: Daemon, typed: str, method: str, params: Mapping[str, Any], collate: Collate
) -> None:
    ran = collate(shared, *typed.split(), "--json")
    assert ran.out.count("\n") == 1
    assert ran.json == shared.ask(method, params)
    assert list(ran.json) == list(shared.ask(method, params))
    assert ran.code == (1 if "zzz" in typed else 0)
    assert ran.err == ""


def test_nothing_found_is_1_and_the_hint_goes_to_standard_error(shared: Daemon, collate: Collate) -> None:
    ran = collate(shared, "search", "zzz")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("collate: hint: no hits")
    assert collate(shared, "grep", "zzz").code == 1


def test_grep_shows_the_line_with_the_match(shared: Daemon, collate: Collate) -> None:
    ran = collate(shared, "grep", "gw-10")
    assert (ran.code, ran.out) == (0, "docs:api/codes.md#0  Codes\n    GW-10 and GW-20 are errors.\n")
    assert "GW-10 and GW-20" in collate(shared, "grep", "GW-[0-9]+", "--regex").out
    more = collate(shared, "grep", "e", "--limit", "1")
    assert "there are more matches" in more.err


def test_read_prints_the_text_word_for_word(shared: Daemon, collate: Collate) -> None:
    ran = collate(shared, "read", "docs:guide.md#1")
    assert ran.code == 0
    assert ran.out.splitlines()[:4] == [
        "docs:guide.md#1  Guide > Refund window  prose",
        "## Refund window",
        "",
        shared.ask("read", ref="docs:guide.md#1")["text"].splitlines()[2],
    ]
    assert "before: docs:guide.md#0\nafter: docs:guide.md#2\n" in ran.out
    around = collate(shared, "read", "docs:guide.md#1", "--context", "5").out
    assert around.index("Welcome.") < around.index("Thirty days.") < around.index("Free.")


def test_neighbours_and_index_are_shown(shared: Daemon, collate: Collate) -> None:
    assert "Welcome." in collate(shared, "neighbours", "docs:guide.md#1").out
    assert "guide.md" in collate(shared, "index", "docs").out
    assert collate(shared, "index").out.splitlines()[1].startswith("notes ")


def test_status_and_stores_are_shown(shared: Daemon, collate: Collate) -> None:
    assert f"collated {__version__}, process {shared.pid}" in collate(shared, "status").out
    ran = collate(shared, "stores")
    assert [row.split()[:2] for row in ran.out.splitlines()] == [["docs", "open"], ["notes", "open"]]
    assert collate(shared, "rescan").err == "collate: nothing changed\n"
    assert "no setting changed" in collate(shared, "reload").err


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("read docs:nope#0", 1, "search for it first"),
        ("read dosc:guide.md#0", 1, "docs"),
        ("search x --store note", 1, "notes"),
        ("grep ( --regex", 2, "does not compile"),
        ("search x --format parquet", 2, "parquet"),
        ("search x --deadline-ms 0", 2, "deadline_ms"),
    ],
)
def test_an_error_says_what_to_try_and_has_its_exit_code(
    shared: Daemon, typed: str, code: int, said: str, collate: Collate
) -> None:
    ran = collate(shared, *typed.split())
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert all(row.startswith("collate: ") for row in ran.err.splitlines())


def test_no_command_is_usage_and_the_version_is_told(shared: Daemon, collate: Collate) -> None:
    nothing = collate(shared)
    assert (nothing.code, nothing.out) == (2, "")
    assert "exit codes: 0 found, 1 nothing found, 2 usage, 3 partial answer" in nothing.err
    assert collate(shared, "--version").out == f"collate {__version__}\n"
    assert collate(shared, "--version", program="collated").out == f"collated {__version__}\n"
    assert collate(shared, program="collated").code == 2


def test_an_argument_that_is_not_text_is_usage(shared: Daemon, collate: Collate) -> None:
    ran = collate(shared, "search", os.fsdecode(b"caf\xe9"))
    assert (ran.code, ran.err) == (2, "collate: an argument is not text in UTF-8\n")


def test_a_store_that_fails_makes_the_answer_partial_and_is_named(
    daemon: Daemon,
    make_store: MakeStore,
    make_docs: Callable[[Path], Path],
    sql: Callable[[Path], Any],
    collate: Collate,
) -> None:
    make_docs(daemon.stores / "docs.sqlite")
    make_store(daemon.stores / "held.sqlite", {"a.md": "# A\n\nrefund\n"}, rollback=True)
    daemon.wait_state("docs", "open")
    daemon.wait_state("held", "open")
    # Nobody can lock a store while its sidecar is made of it.
    daemon.wait_for(lambda: daemon.ask("status")["sidecars"]["ready"] == 2, what="the sidecars")
    assert sql(daemon.stores / "held.sqlite").run("BEGIN EXCLUSIVE") == "ok"
    ran = collate(daemon, "search", "refund")
    assert ran.code == 3
    assert "docs:guide.md#1" in ran.out
    assert "collate: held did not answer: " in ran.err
    assert "(locked); wait until the other program lets go" in ran.err
    as_json = collate(daemon, "search", "refund", "--json")
    assert (as_json.code, as_json.json["complete"]) == (3, False)


def test_who_stops_reading_is_not_shown_a_traceback(shared: Daemon, start_collate: StartCollate) -> None:
    for typed in ("search refund", "schema"):
        process = start_collate(shared, *typed.split())
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT_S) == 0
        process.stdout = None  # or ending it would read from it


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_told_and_is_an_error(shared: Daemon, collate: Collate) -> None:
    program = """
import sys
sys.stdout = open("/dev/full", "w")
from collated.cli import main
sys.exit(main())
"""
    ran = collate(shared, "search", "refund", program=program)
    assert ran.code == 2
    assert ran.err.startswith("collate: [Errno 28]")
    assert ran.err.count("\n") == 1


def test_a_search_imports_little(shared: Daemon, collate: Collate) -> None:
    program = f"""
import sys
from collated.cli import main
main()
print(*{HEAVY} & set(sys.modules), file=sys.stderr)
"""
    assert collate(shared, "search", "refund", program=program).err == "\n"
    asked_of_none = collate(shared, "symbols", "refund", program=program).err
    assert asked_of_none.splitlines() == [
        "collate: none of these stores can be asked this; `collate stores` shows their formats",
        "",
    ]


# --------------------------------------------------------------------------- a person's terminal


def test_a_terminal_gets_bold_matches_in_its_width(shared: Daemon, on_terminal: Terminal) -> None:
    shown = on_terminal(shared, "search", "refund", "window", columns=40)
    assert "\x1b[1mRefund window\x1b[0m" in shown
    assert "**" not in shown


def test_hostile_text_of_a_store_never_reaches_a_terminal_as_it_is(
    daemon: Daemon, make_store: MakeStore, collate: Collate, on_terminal: Terminal
) -> None:
    make_store(daemon.stores / "evil.sqlite", HOSTILE)
    daemon.wait_state("evil", "open")
    for typed in (
        "search refund",
        "grep refund",
        "read evil:evil.md#0",
        "neighbours evil:evil.md#0",
        "index evil",
    ):
        shown = on_terminal(daemon, *typed.split(), columns=200)
        assert "\\x1b[2J" in shown
        for forbidden in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\u202e"):
            assert forbidden not in shown
        piped = collate(daemon, *typed.split()).out
        assert "\x1b" not in piped
    as_json = collate(daemon, "read", "evil:evil.md#0", "--json")
    assert "\x1b" not in as_json.out
    assert "\x1b[2J" in as_json.json["text"]


def test_a_person_who_waits_is_told_how_far_the_answer_is(
    home: Daemon, make_slow_store: Callable[[Path], Path], slow_query: str, on_terminal: Terminal
) -> None:
    make_slow_store(home.stores / "slow.sqlite")  # in several steps, so before anybody looks
    home.start()
    home.wait_state("slow", "open")
    shown = on_terminal(home, "search", slow_query, "--deadline-ms", "1500", is_error=True, columns=70)
    assert "\r\x1b[K" in shown
    assert "waiting for the daemon" in shown or "answered" in shown
    assert shown.rpartition("\x1b[K")[2].startswith("collate: none of 1 stores answered in time")
