"""`python tests/bench`: builds what is missing, measures, prints, and with `--write` keeps RESULTS.md."""

import argparse
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from . import (
    adding,
    agents,
    coding,
    commands,
    contexts,
    fulltext,
    grepping,
    growing,
    indexing,
    judging,
    large,
    many,
    pinging,
    rankings,
    rewriting,
    searching,
    starting,
    vectors,
)
from .bench import FEW, MANY, Bench
from .corpus import Corpus
from .projects import SEED
from .report import Report

_RESULTS = Path(__file__).parent.parent / "RESULTS.md"

# In this order, so that daemons that stay up are there for as many parts as can use them.
_PARTS: Mapping[str, Callable[[Bench, Report], None]] = {
    "search": searching.run,
    "build": indexing.run,
    "tantivy": fulltext.run,
    "grep": grepping.run,
    "global": rankings.run_costs,
    "single": rankings.run_single,
    "more": adding.run,
    "large": large.run,
    "code": coding.run,
    "vectors": vectors.run,
    "context": contexts.run,
    "agents": agents.run,
    "ping": pinging.run,
    "start": starting.run,
    "command": commands.run,
    "rewrite": rewriting.run,
    "plot": growing.run,
    "many": many.run,
    "judged": judging.run,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what *argv* asks for; 1 when a list was not the reference's or a part ended early."""
    given = _arguments(argv)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    corpus = Corpus(given.cache)
    for count in given.stores:
        print(
            f"building the missing of {count} stores in {given.cache} (kept for the next run)",
            file=sys.stderr,
        )
        corpus.build(count)
    report = Report()
    with closing(Bench(corpus, given.stores, is_quick=given.quick)) as bench:
        report.machine(
            f"Stores of 20 Markdown files × 10 sections, from seed {SEED}. "
            f"Medians of {bench.rounds(FEW)} rounds ({bench.rounds(MANY)} where there are more than {FEW} "
            "stores), all page caches warm."
        )
        failed = [name for name in _PARTS if name in given.only and not _run(name, bench, report)]
    report.goals()
    if given.write:
        report.write(_RESULTS)
    else:
        for path in report.draw(given.cache):
            print(f"drew {path}", file=sys.stderr)
    return 1 if report.differing or failed else 0


def _run(name: str, bench: Bench, report: Report) -> bool:
    """Run one part, and tell whether it came to its end; what the others measure is kept when it did not."""
    started = time.perf_counter()
    try:
        _PARTS[name](bench, report)
    except Exception as error:  # noqa: BLE001 - said in full, and the exit code says it too
        traceback.print_exc()
        report.text("", f"**Part `{name}` ended early**: {type(error).__name__}: {error!s:.300}")
        report.goal(f"part `{name}`", "ended early", None)
        return False
    print(f"part {name} took {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return True


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("bench", description=__doc__)
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "collated-bench"
    parser.add_argument(
        "--stores", type=int, nargs="+", default=[FEW, MANY], help=f"how many stores ({FEW} {MANY})"
    )
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS), help="some parts only")
    parser.add_argument("--quick", action="store_true", help="few rounds and questions")
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {_RESULTS.name}")
    parser.add_argument(
        "--cache", type=Path, default=default, help="where built stores are kept (%(default)s)"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
