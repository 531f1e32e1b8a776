"""README is true: its commands are run as a reader would type them, and what it shows is what they print.

Every fenced block is run, in order, in one home that holds the two projects of `tests/system/readme`:

- `sh`, `bash` and `python` blocks must succeed; a python block's closing `# → ` lines are what it prints.
- `console` blocks are commands behind `$ ` with what they print. `…` stands for any text in a line, and
  alone for any lines. Each command must succeed but for those of `EXIT_CODES`.
- `toml` blocks must be a valid configuration; `<!-- file: PATH -->` above one says where it is put.
- `text` blocks are pictures.
- A block below `<!-- for: AGENT, … -->` is what `collate mcp --print-config AGENT` prints, for the command
  `COMMAND`.
- A block below `<!-- not run: REASON -->` cannot be run here; each of its commands is looked at instead,
  by `LOOKS`, which knows what has to be there for it.

Blocks that use a command of `OPTIONAL` which is not installed are skipped, and only those.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import collated
import collated_readers
from collated.cli.arguments import client_parser, daemon_parser
from collated.client import Client, DaemonUnreachable
from collated.mcp.configs import AGENTS, lines, where
from collated.mcp.http.credentials import IDENTIFIERS
from collated.mcp.tools import TOOLS
from collated.protocol import METHODS
from collated.settings import parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECTS = Path(__file__).parent / "readme"
DEADLINE_S = 30.0
SESSION_S = 50.0  # it ingests three projects first
OPTIONAL = ("bash", "jq", "socat")
# Codes that a command may end with instead of 0.
EXIT_CODES: Mapping[str, set[int]] = {
    "collate doctor": {0, 1},  # what it finds is this machine's
    "COLLATE_SEARCH__DEADLINE_S=never collated check": {2},  # shows an error
}
MARK = "=== exit code"
# Where the lines for agents have the path of `collate`, which is whoever's who prints them.
COMMAND = "/home/you/.local/bin/collate"
SESSION = "python tests/readme_session.py"
PACKAGES = os.pathsep.join(
    sorted({str(Path(package.__path__[0]).parent) for package in (collated, collated_readers)})
)

FENCE = re.compile(
    r"(?:^<!-- (?P<rule>not run|file|for): (?P<value>.+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block; *rule* is that of the comment above it."""

    line: int
    language: str
    rule: str
    value: str
    text: str


class Shown(NamedTuple):
    """A command of a console block and the lines below it."""

    command: str
    output: str


class Outcome(NamedTuple):
    code: int
    output: str


def blocks() -> list[Block]:
    return [
        Block(
            README.count("\n", 0, found.start("text")),
            found["language"],
            found["rule"] or "",
            found["value"] or "",
            found["text"],
        )
        for found in FENCE.finditer(README)
    ]


BLOCKS = blocks()
RUN = [each for each in BLOCKS if each.language in ("sh", "bash", "python", "console") and not each.rule]
NOT_RUN = [each for each in BLOCKS if each.rule == "not run"]
PASTED = [each for each in BLOCKS if each.rule == "for"]
TOML = [each for each in BLOCKS if each.language == "toml" and each.rule != "for"]


def name(block: Block) -> str:
    return f"line-{block.line}"


def shown(block: Block) -> list[Shown]:
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with a command"
    return [Shown(command, output) for command, output in zip(parts[1::2], parts[2::2], strict=True)]


def pattern(text: str) -> str:
    """Return the regular expression of an output in which `…` stands for what varies."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else r".*?".join(map(re.escape, line.split("…"))) + r"\n"
        for line in text.splitlines()
    ]
    return "".join(lines)


# --------------------------------------------------------------------------- running it


class Reader:
    """Somebody who has installed collated and follows README, in a home of their own."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.runtime = base / "run"
        self.socket = self.runtime / "collated" / "collated.sock"
        commands = base / "bin"
        for directory in (self.home, self.runtime, commands):
            directory.mkdir(mode=0o700)
        shutil.copytree(PROJECTS, self.home / "src")
        installed = Path(sys.executable).parent
        for command, module in (("collate", "collated.cli"), ("collated", "collated.cli.daemon")):
            if not (installed / command).exists():  # the tests run on the sources
                program = f"from {module} import main; raise SystemExit(main())"
                (commands / command).write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
                (commands / command).chmod(0o755)
        self.environ = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([str(commands), str(installed), os.environ["PATH"]]),
            "PYTHONPATH": PACKAGES,
            "XDG_RUNTIME_DIR": str(self.runtime),
        }

    def follow(self, block: Block) -> list[Outcome]:
        """Do what a block says, and return what came of each of its commands."""
        match block.language:
            case "toml":
                file = Path(block.value.replace("~", str(self.home), 1))
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text, encoding="utf-8")
                return []
            case "python":
                return [self.run(sys.executable, "-c", block.text)]
            case "console":
                return self.session([each.command for each in shown(block)])
            case shell:
                is_there = shutil.which(shell) is not None  # else the block's own test is skipped
                return [self.run(shell, "-e", "-c", block.text)] if is_there else []

    def run(self, *command: str) -> Outcome:
        ran = subprocess.run(
            command,
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Outcome(ran.returncode, ran.stdout)

    def session(self, commands: Sequence[str]) -> list[Outcome]:
        """Run *commands* in one shell, so that a directory changed by one holds for the next."""
        script = "".join(f"{command}\nprintf '{MARK} %d\\n' $?\n" for command in commands)
        said = self.run("sh", "-c", script).output
        *parts, rest = re.split(rf"^{MARK} (\d+)\n", said, flags=re.MULTILINE)
        assert not rest, f"the shell ended early: {said}"
        return [Outcome(int(code), output) for output, code in zip(parts[0::2], parts[1::2], strict=True)]

    def end_daemon(self) -> None:
        """End the daemon that the first `collate` started, by its process id."""
        try:
            with Client(self.socket) as client:
                process = client.status().pid
        except DaemonUnreachable:
            return
        os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + DEADLINE_S
        while self.socket.exists():  # it goes last, after all files are closed
            assert time.monotonic() < deadline, f"process {process} does not end"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Mapping[Block, list[Outcome]]]:
    """What came of each block that is run; all of them, in order, for later ones build on earlier ones."""
    # Short: a socket's path has at most 107 bytes.
    base = Path(tempfile.mkdtemp(prefix="collated-"))
    reader = Reader(base)
    try:
        yield {block: reader.follow(block) for block in BLOCKS if block in RUN or block.rule == "file"}
    finally:
        reader.end_daemon()
        shutil.rmtree(base)


def skip_without_commands(block: Block) -> None:
    words = {block.language, *re.findall(r"\w+", block.text)}
    for command in OPTIONAL:
        if command in words and shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")


@pytest.mark.parametrize("block", RUN, ids=name)
def test_a_block_does_and_prints_what_readme_says(
    outcomes: Mapping[Block, list[Outcome]], block: Block
) -> None:
    skip_without_commands(block)
    if block.language == "console":
        for each, outcome in zip(shown(block), outcomes[block], strict=True):
            assert outcome.code in EXIT_CODES.get(each.command, {0}), outcome.output
            assert re.fullmatch(pattern(each.output), outcome.output), (
                f"$ {each.command}\n{outcome.output}\nis not what README shows:\n{each.output}"
            )
        return
    (outcome,) = outcomes[block]
    assert outcome.code == 0, outcome.output
    if block.language == "python":
        assert outcome.output.splitlines() == re.findall(r"^# → (.*)$", block.text, re.MULTILINE)


# --------------------------------------------------------------------------- what cannot be run


def extras_exist(words: Sequence[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (wanted,) = (word for word in words if word.startswith(".["))
    assert set(wanted[2:-1].split(",")) <= set(project["optional-dependencies"])


def targets_exist(words: Sequence[str]) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(words[1:]) <= set(targets)


def units_exist(words: Sequence[str]) -> None:
    named = [word for word in words if word.startswith("collated")]
    units = [word if "." in word else f"{word}.service" for word in named]
    assert all((ROOT / "systemd" / unit).exists() for unit in units)


def files_exist(words: Sequence[str]) -> None:
    sources = [word for word in words[1:] if "/" in word and not word.startswith("~")]
    assert sources
    assert all((ROOT / source).exists() for source in sources)


def is_venv(words: Sequence[str]) -> None:
    assert words[1:3] == ["-m", "venv"]


def is_understood(words: Sequence[str]) -> None:
    client_parser().parse_args(words[1:])


def is_a_way_home(words: Sequence[str]) -> None:
    assert words[1].startswith("~/")


LOOKS: Mapping[str, Callable[[Sequence[str]], None]] = {
    "cd": is_a_way_home,
    "collate": is_understood,
    "install": files_exist,
    "journalctl": units_exist,
    "make": targets_exist,
    "pip": extras_exist,
    "pipx": extras_exist,
    "python": files_exist,
    "python3": is_venv,
    "systemctl": units_exist,
}


@pytest.mark.parametrize("block", NOT_RUN, ids=name)
def test_what_a_block_that_is_not_run_needs_is_there(block: Block) -> None:
    assert block.language in ("sh", "console")
    commands = (
        [each.command for each in shown(block)] if block.language == "console" else block.text.splitlines()
    )
    for command in commands:
        words = shlex.split(command)
        LOOKS[Path(words[0]).name](words)


# --------------------------------------------------------------------------- agents


@pytest.mark.parametrize("agent", AGENTS)
def test_the_lines_for_an_agent_are_those_that_are_printed(agent: str) -> None:
    (block,) = (each for each in PASTED if agent in each.value.split(", "))

    assert block.text == lines(agent, COMMAND)
    assert f"| `{agent}` | {where(agent)} |\n" in README


def test_the_table_of_tools_is_that_of_the_bridge() -> None:
    rows = table("tools")
    named = [(name, row[-1]) for row in rows for name in re.findall(r"`([^`]+)`", row[0])]

    assert sorted(name for name, _ in named) == sorted(TOOLS)
    assert {name for name, when in named if when == "always"} == {
        name for name, tool in TOOLS.items() if not tool.needs
    }


def test_the_table_of_refusals_is_that_of_the_bridge_over_http() -> None:
    assert table("http-codes") == [[f"`{code}`", when] for code, when in IDENTIFIERS.items()]


@pytest.mark.slow
def test_the_session_of_an_agent_is_the_one_that_its_command_prints() -> None:
    (block,) = (each for each in NOT_RUN if SESSION in each.text)
    (printed,) = shown(block)
    ran = subprocess.run(
        [sys.executable, *SESSION.split()[1:]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PACKAGES},
        capture_output=True,
        text=True,
        timeout=SESSION_S,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == printed.output


# --------------------------------------------------------------------------- all else


def test_every_block_is_of_a_kind_that_is_looked_at() -> None:
    pictures = [each for each in BLOCKS if each.language == "text"]

    assert README.count("\n```") == 2 * len(BLOCKS)
    assert [each for each in BLOCKS if each not in (*RUN, *NOT_RUN, *TOML, *PASTED, *pictures)] == []


@pytest.mark.parametrize("block", TOML, ids=name)
def test_a_piece_of_configuration_is_valid(block: Block) -> None:
    assert parse(block.text)


def in_text() -> list[str]:
    """Return the commands that stand in a sentence or a table, between backquotes."""
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", README))
    return sorted({span for span in spans if re.match(r"(?:collated?|make) ", span)})


@pytest.mark.parametrize("command", in_text())
def test_a_command_in_a_sentence_exists(command: str) -> None:
    match words := shlex.split(command):
        case ["collate", only]:  # a command by its name, whatever arguments it wants
            with pytest.raises(SystemExit) as left:
                client_parser().parse_args([only, "--help"])
            assert left.value.code == 0
        case ["collate", *arguments]:
            client_parser().parse_args(arguments)
        case ["collated", *arguments]:
            daemon_parser().parse_args(arguments)
        case _:
            targets_exist(words)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!#)([^)]+)\)", README))))
def test_a_link_leads_to_a_file_of_the_repository(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_table_of_methods_is_that_of_the_protocol() -> None:
    rows = [tuple(re.findall(r"`([^`]+)`", cell) for cell in row) for row in table("methods")]

    assert rows == [
        ([method], fields(about.params), fields(about.result)) for method, about in METHODS.items()
    ]


def table(name: str) -> list[list[str]]:
    """Return the cells of each row of the table between two comments of that name."""
    found = re.search(rf"<!-- {name} -->(.*)<!-- /{name} -->", README, re.DOTALL)
    assert found
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in found[1].strip().splitlines()[2:]
    ]


def fields(of: type[Any]) -> list[str]:
    if not issubclass(of, msgspec.Struct):  # whatever the seed says of that tool
        return []
    return [field.encode_name for field in msgspec.structs.fields(of)]
