"""An agent's session, as README shows it: the official client of MCP, a real `collate mcp`, real stores.

    python tests/readme_session.py

It needs the extras `mcp` and `demo`. It makes three stores of small projects in a home of its own, asks,
prints, and removes all of it. Nothing is made up or left out but the fields that are empty; lines of the
instructions are cut, those of answers wrapped.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from collated.mcp.bridge import host_path
from collated.mcp.shapes import is_list, is_object

PROJECTS = Path(__file__).parent / "system" / "readme"
COLLATE = [sys.executable, "-c", "import sys; from collated.cli import main; sys.exit(main())"]
CONTEXTPULL = [sys.executable, "-c", "import sys; from contextpull.cli import main; sys.exit(main())"]
WIDTH = 118
DEADLINE_S = 30

CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("search", {"query": "refund window", "limit": 2}),
    ("read", {"id": "handbook:refunds.md#0"}),
    ("read", {"id": "refunds.md#0"}),
    ("grep", {"pattern": "RF-20", "store": "tills"}),
)
"""A question to all stores, the text of a hit, an id alone that two stores have, and a wrong argument."""


class Home:
    """Surroundings of their own, with the stores of README and one of the handbook as it was before."""

    def __init__(self, base: Path) -> None:
        self._projects = base / "src"
        self._socket = base / "run" / "collated" / "collated.sock"
        (base / "run").mkdir(mode=0o700)
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "HOME": str(base),
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(base / "run"),
        }

    def make_stores(self) -> None:
        """Ingest each project and add it, as a person does."""
        shutil.copytree(PROJECTS, self._projects)
        old = self._projects / "old-handbook"
        shutil.copytree(self._projects / "handbook", old)
        refunds = old / "refunds.md"
        refunds.write_text(refunds.read_text("utf-8").replace("30 days", "14 days"), "utf-8")
        for project in sorted(self._projects.iterdir()):
            self._run(project, *CONTEXTPULL, "ingest", ".")
            self._run(project, *COLLATE, "add", ".")

    def _run(self, directory: Path, *command: str) -> None:
        quiet = subprocess.DEVNULL
        subprocess.run(command, cwd=directory, env=self.environ, stdout=quiet, timeout=DEADLINE_S, check=True)

    def end(self) -> None:
        """End the host and the daemon, which else would wait for the next agent for a while."""
        for socket in (host_path(self._socket), self._socket):
            if socket.exists():
                lock = socket.with_name(f"{socket.name}.lock")  # which holds the id of its process
                os.kill(int(lock.read_text("ascii")), signal.SIGTERM)
            deadline = time.monotonic() + DEADLINE_S
            while socket.exists() and time.monotonic() < deadline:
                time.sleep(0.01)


async def session(environ: Mapping[str, str]) -> None:
    """Connect as an agent does, and print what it is told, asks and is answered."""
    command = StdioServerParameters(command=COLLATE[0], args=[*COLLATE[1:], "mcp"], env=dict(environ))
    async with Client(command, mode="auto") as client:
        print(f"connected by MCP {client.protocol_version}; the instructions:")
        for line in (client.instructions or "").splitlines():
            print(textwrap.indent(line if len(line) < WIDTH - 2 else f"{line[: WIDTH - 3]}…", "  "))
        print(f"tools: {', '.join(tool.name for tool in (await client.list_tools()).tools)}")
        for name, arguments in CALLS:
            answer = await client.call_tool(name, arguments)
            print(f"\n→ {name} {json.dumps(arguments)}{'  (an error)' if answer.is_error else ''}")
            for field in fields(answer.structured_content or {}):
                print(textwrap.fill(field, WIDTH, initial_indent="  ", subsequent_indent="    ", **WHOLE))


WHOLE: Mapping[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def fields(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of an answer that are not empty, and each of the objects in a list by itself."""
    for key, value in answer.items():
        if is_list(value) and value and is_object(value[0]):
            yield from (f"{key}[{at}]: {shown(each)}" for at, each in enumerate(value))
        elif value not in (None, [], {}):
            yield f"{key}: {shown(value)}"


def shown(value: Any) -> str:
    """Return *value* as JSON; the stores are seconds old, however slow the machine is."""
    if is_object(value):
        value = {key: each for key, each in value.items() if each not in (None, [])}
    return re.sub(r"\d+ minutes? ago", "just now", json.dumps(value, ensure_ascii=False))


def main() -> None:
    """Print a session in surroundings that are removed again."""
    # Short: a socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="collated-") as base:
        home = Home(Path(base))
        try:
            home.make_stores()
            anyio.run(session, home.environ)
        finally:
            home.end()


if __name__ == "__main__":
    main()
