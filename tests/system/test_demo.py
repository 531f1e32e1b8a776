"""`collate demo` as a process: what it shows, and that nothing of it stays, however it ends."""

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
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

import collated
import collated_readers

DEADLINE_S = 50.0
SEARCH = "collate search asyncio event loop --limit 6"
COLLATE = "from collated.cli import main; raise SystemExit(main())"


class Place:
    """A home and a temporary directory that hold nothing before the demonstration begins."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.tmp = base / "t"
        self.home = base / "home"
        self.run = base / "run"
        for directory in (self.tmp, self.home, self.run):
            directory.mkdir(mode=0o700)
        packages = {str(Path(package.__path__[0]).parent) for package in (collated, collated_readers)}
        self.environ = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(sorted(packages)),
            "TMPDIR": str(self.tmp),
            "XDG_RUNTIME_DIR": str(self.run),
        }

    def start(self, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", COLLATE, "demo"],
            env={**self.environ, **(environ or {})},
            cwd=self.base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def left(self) -> list[str]:
        """Return what lies in the directories: files, sockets, everything."""
        return sorted(
            str(path.relative_to(self.base))
            for directory in (self.tmp, self.home, self.run)
            for path in directory.rglob("*")
        )

    def processes(self) -> list[int]:
        """Return the processes that were started with this temporary directory, but for dead ones."""
        mark = f"TMPDIR={self.tmp}".encode()
        return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if mark in environment(entry)]


def environment(entry: Path) -> list[bytes]:
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return []


def make_place() -> Iterator[Place]:
    # Short: the demonstration's socket lies in it, and a socket's path has at most 107 bytes.
    base = Path(tempfile.mkdtemp(prefix="collated-"))
    yield Place(base)
    shutil.rmtree(base)


@pytest.fixture
def place() -> Iterator[Place]:
    yield from make_place()


class Shown(NamedTuple):
    """What a demonstration printed that ran to its end, and what lay there when it began and had ended."""

    begun: list[str]
    out: str
    errors: str
    code: int
    place: Place


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    """A demonstration in the surroundings of a person with settings of their own; it takes seconds."""
    for place in make_place():
        process = place.start({"COLLATE_CONFIG": "/nonexistent", "COLLATE_SERVER__NONSENSE": "1"})
        said = read_until(process, "Six projects")
        begun = place.left()
        out, errors = process.communicate(timeout=DEADLINE_S)
        yield Shown(begun, said + out, errors, process.returncode, place)


def assert_nothing_left(place: Place) -> None:
    assert place.left() == []
    if sys.platform == "linux":
        assert place.processes() == []


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what *process* prints up to a line that contains *text*."""
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return said
    pytest.fail(f"{text!r} never came: {said}{process.stderr.read() if process.stderr else ''}")


def answers_in(shown: str) -> dict[str, str]:
    """Return what each command that is shown printed."""
    parts = re.split(r"^\$ (.*)\n", shown, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.slow
def test_the_demo_shows_six_stores_a_search_a_grep_a_read_and_a_change(shown: Shown) -> None:
    assert "Traceback" not in shown.errors
    answers = answers_in(shown.out)
    assert len(re.findall(r"^\w+ +contextpull  \d+ documents · \d+ records$", shown.out, re.MULTILINE)) == 6
    assert "**AsyncIO event loop**" in answers[SEARCH]
    (read,) = (command for command in answers if command.startswith("collate read "))
    (ref,) = shlex.split(read)[2:]
    assert answers[SEARCH].startswith(f"{ref}  ")
    assert answers[read].startswith(f"{ref}  ")
    assert len(re.findall(r"pip install", answers["collate grep 'pip install'"])) >= 3
    assert re.fullmatch(r"\[[\d.]+ m?s\]\s*", answers["collate search zeppelin"])
    assert "## **Zeppelin** The demo was here" in answers["collate search zeppelin --sync"]
    assert shown.out.endswith("nothing is left.\n")


@pytest.mark.slow
def test_the_demo_asks_documents_code_and_a_book_at_once_and_each_for_itself(shown: Shown) -> None:
    answers = answers_in(shown.out)
    formats = dict(re.findall(r"^([\w-]+) +([\w-]+)  \d+ documents", answers["collate index"], re.MULTILINE))
    assert (formats["sources"], formats["handbook"]) == ("codebase-index", "book-agent")
    found = re.findall(r"^([\w-]+):\S+  ", answers[SEARCH], re.MULTILINE)
    assert {formats[store] for store in found} == {"contextpull", "codebase-index", "book-agent"}
    similar = re.findall(
        r"^(\S+)  Loops  cosine ", answers["collate similar --vector handbook/waiting.json --limit 2"], re.M
    )
    assert similar == ["handbook:p1", "handbook:p2"]
    has_grammars = "symbols_missing" not in shown.errors
    defined = re.search(
        r"  \S+/connection\.py:\d+  function  open_store", answers["collate symbols open_store"]
    )
    assert (defined is not None) == has_grammars
    assert any(command.startswith("collate refs open_store") for command in answers) == has_grammars


@pytest.mark.slow
def test_the_demo_says_so_where_the_grammars_are_missing(place: Place) -> None:
    missing = place.base / "missing" / "tree_sitter_language_pack"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("def get_language(name):\n    raise LookupError(name)\n")
    paths = f"{missing.parent}{os.pathsep}{place.environ['PYTHONPATH']}"

    shown, errors = place.start({"PYTHONPATH": paths}).communicate(timeout=DEADLINE_S)

    assert "sources did not answer" in errors
    assert "symbols_missing" in errors
    assert "which are searched all the same" in answers_in(shown)["collate symbols open_store"]
    assert re.search(r"^sources:\S+  ", answers_in(shown)[SEARCH], re.MULTILINE)
    assert shown.endswith("nothing is left.\n")


@pytest.mark.slow
def test_the_demo_goes_on_without_codebase_index(place: Place) -> None:
    hide = f"import sys; sys.modules['codebase_index'] = None; sys.argv = ['collate', 'demo']; {COLLATE}"
    ran = subprocess.run(
        [sys.executable, "-c", hide],
        env=place.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )

    assert ran.returncode == 0
    assert "codebase-index is not installed" in ran.stdout
    assert not [command for command in answers_in(ran.stdout) if "symbols" in command or "sources" in command]
    assert ran.stdout.endswith("nothing is left.\n")
    assert_nothing_left(place)


@pytest.mark.slow
def test_the_demo_succeeds_and_leaves_no_file_no_socket_and_no_process(shown: Shown) -> None:
    assert str(shown.place.tmp) in shown.out
    assert shown.begun != []

    assert shown.code == 0
    assert_nothing_left(shown.place)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        *product(("Six projects", "codebase-index index", "collate index"), (signal.SIGINT, signal.SIGTERM)),
        ("collate index", signal.SIGHUP),  # handled as SIGTERM is
    ],
)
def test_the_demo_leaves_nothing_when_it_is_stopped(place: Place, moment: str, number: int) -> None:
    process = place.start()
    read_until(process, moment)

    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert_nothing_left(place)


@pytest.mark.slow
def test_a_signal_in_its_first_moments_leaves_nothing_either(place: Place) -> None:
    process = place.start()
    deadline = time.monotonic() + DEADLINE_S
    while not place.left():  # its directory is made; the documents and the daemon are still to come
        assert time.monotonic() < deadline
        time.sleep(0.001)

    process.terminate()
    process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 128 + signal.SIGTERM
    assert_nothing_left(place)


@pytest.mark.slow
def test_the_demo_leaves_nothing_when_nobody_reads_it_any_more(place: Place) -> None:
    process = place.start()
    read_until(process, "collate index")
    assert process.stdout
    process.stdout.close()

    assert process.stderr
    with process.stderr:
        errors = process.stderr.read()
    process.wait(DEADLINE_S)

    assert "Traceback" not in errors
    assert_nothing_left(place)


@pytest.mark.slow
def test_the_demo_is_not_touched_by_a_persons_own_settings(shown: Shown) -> None:
    assert shown.code == 0
    assert shown.out.endswith("nothing is left.\n")


def test_the_demo_says_what_to_install_when_contextpull_is_missing(place: Place) -> None:
    hide = f"import sys; sys.modules['contextpull'] = None; sys.argv = ['collate', 'demo']; {COLLATE}"
    ran = subprocess.run(
        [sys.executable, "-c", hide], env=place.environ, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 2
    assert "pip install 'collated[demo]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert_nothing_left(place)


def test_the_demo_says_so_when_the_temporary_directory_is_too_deep_for_a_socket(place: Place) -> None:
    deep = place.tmp / ("d" * 100)
    deep.mkdir()

    process = place.start({"TMPDIR": str(deep)})
    _, errors = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 2
    assert "set TMPDIR to a directory with a shorter path" in errors
    assert list(deep.iterdir()) == []
