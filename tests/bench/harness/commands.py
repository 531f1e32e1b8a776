"""Part `command`: one search, whole process: `collate` over all stores, `contextpull` on one of them."""

import subprocess
import sys
from collections.abc import Callable, Mapping

from .bench import Bench
from .daemons import Daemon
from .report import Report, ms, times
from .timing import interleaved, median_s, timed

__all__ = ["run"]

# As the console scripts do it, which need not be on the PATH here.
_COLLATE = "from collated.cli import main; import sys; sys.argv[0] = 'collate'; sys.exit(main())"
_CONTEXTPULL = "from contextpull.cli import main; import sys; sys.argv[0] = 'contextpull'; sys.exit(main())"
_NOTHING_FOUND = 1


def run(bench: Bench, report: Report) -> None:
    """Time both commands, and a bare `python` that does nothing."""
    seconds = _compare(bench)
    theirs = seconds["contextpull"]
    rows = (
        ("`contextpull search` on one store", "contextpull"),
        (f"`collate search` over {bench.few:,} stores", "collate"),
        ("`python -c pass`", "python"),
    )
    report.section("One search, whole process")
    report.table(
        ("command", "ms", "**faster**"),
        [(name, ms(seconds[key]), times(theirs / seconds[key])) for name, key in rows],
    )
    ratio = theirs / seconds["collate"]
    report.goal(
        f"one command over {bench.few:,} stores: faster than the reference's over one",
        f"{times(ratio)}×",
        ratio > 1,
    )


def _compare(bench: Bench) -> dict[str, float]:
    ours, theirs = bench.ours(bench.few), bench.theirs(bench.few)
    one = sorted(theirs.glob("*.sqlite"))[0]
    text = bench.asked(bench.few)["two words"][0]
    with Daemon(ours).start() as daemon, daemon.client() as client:
        daemon.wait_open(client, bench.few)
        environ = daemon.environ
        contenders = {
            "contextpull": _process([_CONTEXTPULL, "search", text, "--store", str(one)], environ),
            "collate": _process([_COLLATE, "search", text], environ),
            "python": _process(["pass"], environ),
        }
        rounds = 3 * bench.rounds(bench.few)
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
