"""Commands as processes of their own, and what they come to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

COLLATE = "import sys; from collated.cli import main; sys.exit(main())"
"""The program of `collate`."""

TIMEOUT_S = 30


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(command: Sequence[str], environ: Mapping[str, str]) -> Ran:
    """Run *command* without a terminal, to its end."""
    ran = subprocess.run(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
