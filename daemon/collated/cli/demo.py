"""`collate demo`: what a person would type, on stores of three formats made for it. Nothing of it stays."""

import os
import shlex
import sys
import time
from importlib.util import find_spec

from collated.client import Client
from collated.escape import visible

from .interrupt import raised
from .line import Meaning, Span, line
from .outcome import FOUND
from .paper import show
from .props import BOOK, QUESTION, SOURCES, write_book, write_sources
from .stage import PROJECTS, DemoFailed, Stage

__all__ = ["run"]

_QUERY = "asyncio event loop"
_NEWS = "\n## Zeppelin\n\nThe demo was here.\n"
_WAIT_S = 20.0
_POLL_S = 0.01
_HITS = 6


def run() -> int:
    """Show questions to documents, code and a book, and a changed store; return the exit code.

    The stores, the socket and all else lie in a temporary directory, which is removed at the end,
    however that comes about, after the daemon was ended by its process id.

    Raises:
        DemoFailed: contextpull is not installed, or a step failed.
    """
    if find_spec("contextpull") is None:
        raise DemoFailed(
            "the demonstration makes its stores with contextpull, which is not installed; install the extra "
            "`demo`: pip install 'collated[demo]', or in a checkout pip install '.[demo]'"
        )
    with raised(), Stage() as stage:
        _say(
            f"Six projects, each with its own documents, in {stage.base};",
            "a daemon of their own watches them. All that follows is real.",
        )
        _make_stores(stage)
        _ask(stage)
        _ask_code(stage)
        _ask_book(stage)
        _change(stage)
        _compare_times(stage)
    _say("The daemon has ended and the directory is removed; nothing is left.")
    return FOUND


def _make_stores(stage: Stage) -> None:
    began = time.perf_counter()
    for project in PROJECTS:
        _ingest(stage, project)
    _write(f"[{_since(began)}]", "aside")
    count = len(PROJECTS) + 1
    if _has_code():
        count += 1
        _say("One more holds the source code of collated itself, and its store what that defines and uses:")
        began = time.perf_counter()
        write_sources(stage.projects / SOURCES)
        _make(stage, "codebase-index", "index", folder=SOURCES)
        _write(f"[{_since(began)}]", "aside")
    else:
        _say("codebase-index is not installed, so there is no store of source code. The extra `demo` has it.")
    _say("The last one is a book of a few passages, each with a vector; text and numbers are made up.")
    began = time.perf_counter()
    write_book(stage.projects / BOOK)
    _wait_until_answering(stage, count)
    _say(f"{_since(began)} later the daemon has all of them open:")
    _collate(stage, "index")


def _wait_until_answering(stage: Stage, count: int) -> None:
    deadline = time.monotonic() + _WAIT_S
    with Client(stage.socket) as client:
        # The words of a book are indexed after it is open.
        while client.status().stores.get("open", 0) < count or not client.search(_QUERY).complete:
            if time.monotonic() > deadline:
                raise DemoFailed(f"the daemon did not open the {count} stores")
            time.sleep(_POLL_S)


def _ask(stage: Stage) -> None:
    _say("One question to all of them, one list, the same each time: documents, code and a passage.")
    _collate(stage, "search", *_QUERY.split(), "--limit", str(_HITS))
    with Client(stage.socket) as client:
        first = client.search(_QUERY, limit=1, ranking="smart").hits[0]
    _say("The first of them, word for word:")
    _collate(stage, "read", first.ref)
    _say("An exact text, wherever it stands:")
    _collate(stage, "grep", "pip install")


def _ask_code(stage: Stage) -> None:
    if not _has_code():
        return
    _say("Where a name is defined, and who calls it:")
    if _collate(stage, "symbols", "open_store"):
        _say("Without a grammar codebase-index keeps texts alone, which are searched all the same.")
        return
    _collate(stage, "refs", "open_store", "--kind", "callers", "--path", "collated")


def _ask_book(stage: Stage) -> None:
    _say("The passages nearest to a vector; this one means waiting, and nothing else:")
    _collate(stage, "similar", "--vector", f"{BOOK}/{QUESTION}", "--limit", "2")


def _change(stage: Stage) -> None:
    _say("A document is rewritten and its store made again; the next answer has it:")
    _collate(stage, "search", "zeppelin")
    _write(f"$ printf {shlex.quote(_NEWS.encode('unicode_escape').decode())} >> aiosqlite/README.md")
    with (stage.projects / "aiosqlite" / "README.md").open("a", encoding="utf-8") as document:
        document.write(_NEWS)
    _ingest(stage, "aiosqlite")
    _collate(stage, "search", "zeppelin", "--sync")


def _compare_times(stage: Stage) -> None:
    took: list[str] = []
    with Client(stage.socket) as client:
        for _ in range(2):
            began = time.perf_counter()
            client.search("type hints")
            took.append(_since(began))
    _say(
        "Most of a command's time is Python starting. On a connection that stays open,",
        f"as an editor has it, a search took {took[0]}, the same again {took[1]}.",
    )


def _collate(stage: Stage, *arguments: str) -> int:
    """Show a command as typed, run it on this standard output, show how long it took; return its code."""
    _write(f"$ {shlex.join(['collate', *arguments])}")
    began = time.perf_counter()
    # Its exit code is an answer too: 1 is "nothing found". Should the daemon be gone, no other is started.
    ran = stage.run("collate", *arguments, "--no-spawn")
    _write(f"[{_since(began)}]", "aside")
    return ran.code


def _ingest(stage: Stage, project: str) -> None:
    _make(stage, "contextpull", "ingest", ".", folder=project)


def _make(stage: Stage, program: str, *arguments: str, folder: str) -> None:
    """Show and run what makes a store in one project's directory, and the first line that it says."""
    _write(f"$ cd {folder}; {program} {shlex.join(arguments)}; cd ..")
    ran = stage.run(program, *arguments, folder=folder, is_shown=False)
    if ran.code:
        raise DemoFailed(f"{program} failed: {ran.errors.strip() or ran.output.strip()}")
    _write(ran.output.partition("\n")[0])


def _has_code() -> bool:
    return find_spec("codebase_index") is not None


def _since(began: float) -> str:
    """Return the time since *began*, a `perf_counter`, for people."""
    elapsed_s = time.perf_counter() - began
    return f"{elapsed_s:.2f} s" if elapsed_s >= 1 else f"{elapsed_s * 1_000:.3g} ms"


def _say(*texts: str) -> None:
    _write("")
    for text in texts:
        _write(text, "heading")


def _write(text: str, meaning: Meaning = "") -> None:
    show([line(Span(visible(text), meaning))], sys.stdout, os.environ)
    sys.stdout.flush()  # the commands write to the same file themselves
