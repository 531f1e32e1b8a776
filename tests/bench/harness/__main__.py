"""`python tests/bench`: builds what is missing, measures, prints, and with `--write` keeps RESULTS.md."""

import argparse
import os
import resource
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .commands import compare_commands
from .corpus import SEED, Corpus, queries
from .pinging import compare_pings
from .report import Report
from .rewriting import time_rewrites
from .searching import compare_searches
from .starting import compare_starts

_RESULTS = Path(__file__).parent.parent / "RESULTS.md"
_PARTS = ("search", "ping", "start", "rewrite", "command")
_FEW, _MANY = 50, 1_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run what *argv* asks for; 1 when a list was not the reference's, whatever the times are."""
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
    report.machine(
        f"Stores of 20 Markdown files × 10 sections, from seed {SEED}. "
        f"Medians of {_rounds(given, _FEW)} rounds ({_rounds(given, _MANY)} where there are more than {_FEW} "
        "stores), all page caches warm."
    )
    scratch = corpus.scratch()
    try:
        is_same = _measure(given, corpus, scratch, report)
    finally:
        shutil.rmtree(scratch)
    report.goals()
    if given.write:
        report.write(_RESULTS)
    return 0 if is_same else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("bench", description=__doc__)
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "collated-bench"
    parser.add_argument(
        "--stores", type=int, nargs="+", default=[_FEW, _MANY], help="how many stores (50 1000)"
    )
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS), help="some parts only")
    parser.add_argument("--quick", action="store_true", help="few rounds and questions")
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {_RESULTS.name}")
    parser.add_argument(
        "--cache", type=Path, default=default, help="where built stores are kept (%(default)s)"
    )
    return parser.parse_args(argv)


def _rounds(given: argparse.Namespace, count: int) -> int:
    if count > _FEW:
        return 2 if given.quick else 3
    return 3 if given.quick else 9


def _measure(given: argparse.Namespace, corpus: Corpus, scratch: Path, report: Report) -> bool:
    few, many = min(given.stores), max(given.stores)
    folders = {count: (scratch / f"ours-{count}", scratch / f"theirs-{count}") for count in given.stores}
    for count, pair in folders.items():
        for folder in pair:
            corpus.view(folder, count)
    differing = 0

    def search() -> None:
        nonlocal differing
        for count in given.stores:
            asked = queries(SEED, count, 2 if given.quick or count > _FEW else 6)
            result = compare_searches(folders[count], asked, _rounds(given, count))
            report.searched(result)
            differing += len(result.differing)

    asked = queries(SEED, few, 2)
    parts: dict[str, Callable[[], None]] = {
        "search": search,
        "ping": lambda: report.pings(compare_pings(folders[few][0], 5 * _rounds(given, few))),
        "start": lambda: report.started(compare_starts(folders[many], asked, _rounds(given, many))),
        "command": lambda: report.commands(
            compare_commands(folders[few], asked["two words"][0], 3 * _rounds(given, few)), few
        ),
        "rewrite": lambda: report.rewritten(time_rewrites(folders[few][0], _rounds(given, few))),
    }
    for name, part in parts.items():
        if name in given.only:
            part()
    return differing == 0


if __name__ == "__main__":
    raise SystemExit(main())
