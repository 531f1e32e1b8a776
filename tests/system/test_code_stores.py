"""Code stores that the real program made, through a real daemon: every command, and what the program said."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.system.conftest import Daemon, StartDaemon

README = Path(__file__).parents[2] / "README.md"
WATCH = """\
[[watch]]
path = "{projects}"
match = ["*/.claude/cache/codebase-index/index.sqlite"]
"""
PROJECTS = {"typer": "typer", "pydantic": "pydantic", "live": "live_wal", "crash": "crash_mid_build"}
KEPT = ".claude/cache/codebase-index"
# What is told apart here and not there, on purpose: `_` in a name is no wildcard, and the program's filter
# by kind is not on the wire.
DIFFERENT = {"symbol get_c", "symbol model_", "symbol Param --kind class"}
# The program's name for what a method gives, and the fields that are compared.
COMPARED: Mapping[str, tuple[str, Sequence[str]]] = {
    "symbols": ("symbols", ("name", "qualified", "kind", "path", "line_start", "line_end", "signature")),
    "references": ("sites", ("path", "line", "kind", "confidence", "target", "receiver", "caller")),
    "impact": ("nodes", ("kind", "path", "name", "line_start", "distance", "via_edge", "via_confidence")),
}
NO_SYMBOLS = {"grammars": "symbols_missing"}


@pytest.fixture(scope="module")
def sources(shared: Path) -> Path:
    """The folder of reference stores, which nothing may write to."""
    return shared / "data" / "codebase-index"


def put_projects(daemon: Daemon, sources: Path, names: Iterable[str]) -> None:
    """Copy stores to where the program leaves them, and have the daemon, not yet running, look there."""
    projects = daemon.base / "projects"
    for name in names:
        kept = projects / name / KEPT
        kept.mkdir(parents=True)
        for file in (sources / PROJECTS[name]).glob("index.sqlite*"):
            shutil.copyfile(file, kept / file.name)
    daemon.configure(WATCH.format(projects=projects))


@pytest.fixture(scope="module")
def code(sources: Path, start_shared_daemon: StartDaemon) -> Daemon:
    """A daemon over the stores of all projects, and one that was added."""
    daemon = start_shared_daemon(is_launched=False)
    put_projects(daemon, sources, PROJECTS)
    shutil.copyfile(
        sources / "degraded_no_grammar" / "typer_no_symbols.sqlite", daemon.stores / "grammars.sqlite"
    )
    daemon.start()
    for name in (*PROJECTS, "grammars"):
        daemon.wait_state(name, "refused" if name == "crash" else "open")
    return daemon


def failures(answer: Any) -> dict[str, str]:
    return {failure["store"]: failure["code"] for failure in answer["stores"]["failed"]}


# --------------------------------------------------------------------------- what the program said


class Example:
    """One question that the program was asked, and its answer."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self.store: str = recorded["store"]
        self.command, self.about, *options = [word for word in recorded["cmd"][1:] if word != "--json"]
        self.typed = " ".join((self.command, self.about, *options))
        self.options = options
        self.said: Any = recorded["stdout"]

    @property
    def request(self) -> tuple[str, dict[str, Any]]:
        """The same question on the wire."""
        method = {"symbol": "symbols", "refs": "references", "impact": "impact"}[self.command]
        asked: dict[str, Any] = {"stores": [self.store], "limit": 1_000}
        asked["target" if method == "impact" else "name"] = self.about
        words = iter(self.options)
        for word in words:
            name = word.removeprefix("--")
            value = True if name == "exact" else next(words)
            asked[name] = int(value) if name == "depth" else value
        return method, asked


def examples(sources: Path) -> list[Example]:
    found: list[Example] = []
    for store in ("typer", "pydantic"):
        for row in (sources / store / "expected.jsonl").read_text(encoding="utf-8").splitlines():
            recorded = json.loads(row)
            if recorded["cmd"][1] in ("symbol", "refs", "impact"):
                found.append(Example(recorded))
    return found


def places(rows: list[Any], *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(row[field] for field in fields) for row in rows]


def test_every_example_gives_the_programs_places_in_its_order(code: Daemon, sources: Path) -> None:
    every = examples(sources)
    assert len(every) == 26
    assert {each.typed for each in every} >= DIFFERENT

    for example in every:
        if example.typed not in DIFFERENT:
            method, params = example.request
            answer = code.ask(method, params)
            for node in answer.get("nodes", ()):
                if node["kind"] == "file":
                    node["name"] = None  # to the program a file has none
            field, fields = COMPARED[method]
            assert places(answer[method.replace("impact", "nodes")], *fields) == places(
                example.said[field], *fields
            ), example.typed
            assert answer["complete"], example.typed


def test_the_files_of_an_impact_are_the_programs(code: Daemon, sources: Path) -> None:
    for example in examples(sources):
        if example.command == "impact":
            answer = code.ask(*example.request)
            assert [each["path"] for each in answer["files"]] == example.said["files"]
            assert answer["known_in"] == ([example.store] if example.said["nodes"] else [])


@pytest.mark.parametrize("store", ["typer", "pydantic"])
def test_what_stands_at_a_line_is_what_the_file_had_there(code: Daemon, sources: Path, store: str) -> None:
    rows = (sources / store / "read_at_line.jsonl").read_text(encoding="utf-8").splitlines()
    assert rows

    for row in map(json.loads, rows):
        if row["chunk"] is None:  # an empty line between two chunks
            assert code.refusal("chunk", path=row["path"], line=row["line"], store=store).code == "unknown_id"
            continue
        (chunk,) = code.ask("chunk", path=row["path"], line=row["line"], store=store)["chunks"]
        assert (chunk["line_start"], chunk["line_end"], chunk["kind"]) == (
            row["chunk"]["line_start"],
            row["chunk"]["line_end"],
            row["chunk"]["kind"],
        )
        assert chunk["text"].splitlines()[row["line"] - chunk["line_start"]] == row["line_text"]
        symbol = chunk["symbol"] and {name: chunk["symbol"][name] for name in row["symbol"]}
        assert symbol == row["symbol"]


# --------------------------------------------------------------------------- all stores together


def test_all_code_stores_are_asked_and_the_one_without_symbols_says_so(code: Daemon) -> None:
    answer = code.ask("symbols", name="get_params_from_function")

    assert places(answer["symbols"], "store", "path", "line_start") == [
        *[("live", "typer/utils.py", 107), ("typer", "typer/utils.py", 107)]
    ]
    assert (answer["how"], answer["complete"], failures(answer)) == ("exact", False, NO_SYMBOLS)
    for method, params in (("references", {"name": "echo"}), ("impact", {"target": "echo"})):
        assert failures(code.ask(method, params)) == NO_SYMBOLS


def test_one_that_crashed_in_its_first_build_is_refused_and_hides_nothing(code: Daemon) -> None:
    assert code.status_of("crash")["reason"]["code"] == "index_incomplete"
    assert code.refusal("chunk", path="x.py", line=1, store="crash").code == "store_unavailable"


def test_what_a_writer_has_not_checkpointed_is_there(code: Daemon) -> None:
    answer = code.ask("symbols", name="zebra_quagga_marker", exact=True)

    assert places(answer["symbols"], "store", "path", "line_start") == [("live", "typer/main.py", 1792)]


def test_a_place_is_asked_of_every_project_that_has_it(code: Daemon) -> None:
    answer = code.ask("chunk", path="typer/utils.py", line=110)

    assert {each["store"] for each in answer["chunks"]} == {"typer", "live", "grammars"}
    absolute = code.base / "projects" / "typer" / "typer" / "utils.py"
    assert [each["store"] for each in code.ask("chunk", path=str(absolute), line=110)["chunks"]] == ["typer"]


def test_search_and_grep_find_records_that_read_gives(code: Daemon) -> None:
    hits = code.ask("search", query="get_params_from_function", stores=["typer"])["hits"]
    matches = code.ask("grep", pattern="def get_params_from_function", stores=["typer"])["matches"]

    assert (hits[0]["tier"], hits[0]["doc"], hits[0]["line_start"]) == ("symbol", "typer/utils.py", 107)
    assert "def get_params_from_function" in matches[0]["line"]
    for found in (hits[0], matches[0]):
        assert "def get_params_from_function" in code.ask("read", ref=found["ref"])["text"]


# --------------------------------------------------------------------------- commands


@pytest.mark.parametrize(
    ("typed", "method", "params"),
    [
        ("symbols Typer --store typer", "symbols", {"name": "Typer", "stores": ["typer"]}),
        ("refs echo --kind callers", "references", {"name": "echo", "kind": "callers"}),
        (
            "impact main.py --direction both --depth 1",
            "impact",
            {"target": "main.py", "direction": "both", "depth": 1},
        ),
        ("chunk typer/main.py:1469", "chunk", {"path": "typer/main.py", "line": 1469}),
        ("architecture typer", "architecture", {"store": "typer"}),
        (
            "search completion script --ranking contract",
            "search",
            {"query": "completion script", "collapse": True},
        ),
        ("grep get_params --store typer", "grep", {"pattern": "get_params", "stores": ["typer"]}),
    ],
)
def test_json_is_what_the_wire_has(code: Daemon, typed: str, method: str, params: Mapping[str, Any]) -> None:
    ran = code.collate(*typed.split(), "--json")
    answer = json.loads(ran.stdout)

    assert answer == code.ask(method, params)
    assert ran.returncode == (0 if answer.get("complete", True) else 3)


def test_people_are_shown_places_they_can_follow(code: Daemon) -> None:
    ran = code.collate("symbols", "Typer", "--store", "typer")
    assert (ran.returncode, ran.stdout) == (0, "typer  typer/main.py:108  class  Typer  class Typer:\n")
    assert ran.stderr == "collate: 7 more names begin so\n"

    ran = code.collate("chunk", "typer/utils.py:110", "--store", "typer")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("typer  typer/utils.py:107-186  function get_params_from_function\ndef get_")

    ran = code.collate("impact", "get_command", "--store", "typer", "--limit", "1")
    assert ran.stdout == "typer  typer/cli.py:279  1  docs  call extracted\n"
    assert "there are more" in ran.stderr

    assert "god nodes" in code.collate("architecture", "typer").stdout


@pytest.mark.parametrize(
    ("typed", "exit_code", "said"),
    [
        ("symbols nonesuch --store typer", 1, ""),
        ("refs nonesuch --store typer", 1, "no store knows such a name"),
        ("impact nonesuch --store typer", 1, "no store knows such a file or symbol"),
        ("symbols Typer", 3, "grammars did not answer"),
        ("chunk nonesuch.py:1 --store typer", 1, "no file 'nonesuch.py'"),
        ("chunk nonesuch.py:1", 1, ""),
        ("chunk nonesuch.py", 2, "is not FILE:LINE"),
        ("symbols x --store type", 1, "typer"),
        ("architecture type", 1, "typer"),
    ],
)
def test_an_exit_code_says_how_it_went(code: Daemon, typed: str, exit_code: int, said: str) -> None:
    ran = code.collate(*typed.split())

    assert ran.returncode == exit_code
    assert said in ran.stderr


def test_a_project_is_added_by_its_directory(daemon: Daemon, sources: Path) -> None:
    kept = daemon.base / "Some Project" / KEPT
    kept.mkdir(parents=True)
    shutil.copyfile(sources / "typer" / "index.sqlite", kept / "index.sqlite")

    ran = daemon.collate("add", str(daemon.base / "Some Project"))

    assert ran.returncode == 0
    assert ran.stdout.startswith("some-project  open  codebase-index 4  39 documents, 722 records  ")
    assert daemon.collate("symbols", "Typer").stdout.startswith("some-project  typer/main.py:108  class")


# --------------------------------------------------------------------------- readme


def test_people_are_told_what_a_store_lacks_and_when_it_was_built(code: Daemon) -> None:
    listed, named = code.collate("stores"), code.collate("stores", "grammars")
    doctor = code.collate("doctor", "--json")

    assert (listed.returncode, named.returncode) == (0, 0)
    assert "(symbols_missing); index the project again" in listed.stdout
    assert "    built " not in listed.stdout
    assert "\n    built 2026-11-30T09:45:57Z, commit 59ec704ed9" in named.stdout
    levels = {each["subject"]: each["level"] for each in json.loads(doctor.stdout)["findings"]}
    assert levels["store grammars"] == "problem"


def test_a_checkout_that_moved_on_is_noted(code: Daemon) -> None:
    code.wait_for(lambda: "files_changed" in code.status_of("typer")["details"], what="a look at the files")
    findings = json.loads(code.collate("doctor", "--json").stdout)["findings"]

    (found,) = [each for each in findings if each["subject"] == "store typer"]
    assert found["level"] == "note"
    assert found["message"].endswith(" files changed since it was indexed")
    assert found["advice"] == "index the project again with codebase-index"


def test_readme_shows_what_the_commands_print(start_daemon: StartDaemon, sources: Path) -> None:
    daemon = start_daemon(is_launched=False)
    put_projects(daemon, sources, ("typer", "pydantic"))
    daemon.start()
    daemon.wait_state("typer", "open")
    daemon.wait_state("pydantic", "open")
    marked = re.search(
        r"<!-- not run: [^>]*test_code_stores[^>]* -->\n```console\n(.*?)```", README.read_text(), re.S
    )
    assert marked
    parts = re.split(r"^\$ collate (.*)\n", marked[1], flags=re.MULTILINE)

    for typed, shown in zip(parts[1::2], parts[2::2], strict=True):
        expected = "".join(
            r"(?:.*\n)*?" if row == "…" else ".*?".join(map(re.escape, row.split("…"))) + r"\n"
            for row in shown.splitlines()
        )
        ran = daemon.collate(*typed.split())
        assert re.fullmatch(expected, ran.stdout), f"$ collate {typed}\n{ran.stdout}"


def test_no_store_is_touched(code: Daemon, sources: Path) -> None:
    for name, folder in PROJECTS.items():
        kept = code.base / "projects" / name / KEPT
        expected = {file.name: file.read_bytes() for file in (sources / folder).glob("index.sqlite*")}
        assert {file.name: file.read_bytes() for file in kept.iterdir()} == expected
