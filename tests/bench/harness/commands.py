"""One search, whole process: `collate search` over all stores, `contextpull search` on one of them."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from .daemons import Daemon
from .timing import interleaved, median_s, timed

__all__ = ["compare_commands"]

# As the console scripts do it, which need not be on the PATH here.
_COLLATE = "from collated.cli import main; import sys; sys.argv[0] = 'collate'; sys.exit(main())"
_CONTEXTPULL = "from contextpull.cli import main; import sys; sys.argv[0] = 'contextpull'; sys.exit(main())"
_NOTHING_FOUND = 1


def compare_commands(folders: tuple[Path, Path], text: str, rounds: int) -> dict[str, float]:
    """Return median seconds of `collate`, `contextpull` and a bare `python` that does nothing."""
    ours, theirs = folders
    one = sorted(theirs.glob("*.sqlite"))[0]
    with Daemon(ours).start() as daemon, daemon.client() as client:
        daemon.wait_open(client, len(list(ours.glob("*.sqlite"))))
        environ = daemon.environ
        contenders = {
            "contextpull": _process([_CONTEXTPULL, "search", text, "--store", str(one)], environ),
            "collate": _process([_COLLATE, "search", text], environ),
            "python": _process(["pass"], environ),
        }
        return {name: median_s(each) for name, each in interleaved(contenders, rounds).items()}


def _process(arguments: list[str], environ: Mapping[str, str]) -> Callable[[], float]:
    command = [sys.executable, "-c", *arguments]

    def run() -> float:
        seconds, done = timed(
            lambda: subprocess.run(
                command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        )
        if done.returncode not in (0, _NOTHING_FOUND):
            raise RuntimeError(
                f"{arguments[1:3]} ended with {done.returncode}: {done.stderr.decode()[-500:]}"
            )
        return seconds

    run()
    return run
