"""Part `rewrite`: how long after its last write a store's new contents are found, by polling the daemon."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from contextpull.ingest import ingest  # type: ignore[import-untyped]  # the package has no types

from collated.client import Client

from .bench import Bench
from .daemons import Daemon
from .projects import SEED, write_project
from .report import Report, ms
from .timing import median_s
from .waiting import wait_for

__all__ = ["run"]

_REWRITES = ("contextpull ingest in place", "a new file renamed over it", "ingest, then one search with sync")


def run(bench: Bench, report: Report) -> None:
    """Rewrite one of a few stores in several ways."""
    folder = bench.folder("rewritten")
    bench.corpus.view(folder, range(bench.few))
    seconds = _time(folder, bench.rounds(bench.few))
    report.section("From a store's last write until a search finds the new words")
    report.table(("how it was rewritten", "ms"), [(kind, ms(seconds[kind])) for kind in _REWRITES])
    for kind in _REWRITES[:2]:
        name = f"rewritten store visible within 1 s ({kind})"
        report.goal(name, f"{seconds[kind]:.2f} s", seconds[kind] <= 1)


def _time(folder: Path, rounds: int) -> dict[str, float]:
    """Return the median seconds from the last write until a search finds the new word, by kind of rewrite.

    *folder* is watched and holds other stores; the store that is rewritten is added to it.
    """
    target = folder / "rewritten.sqlite"
    with tempfile.TemporaryDirectory(prefix="collated-bench-") as name:
        sources = Path(name)
        write_project(sources, SEED, 0)
        ingest(sources, target)
        with Daemon(folder).start() as daemon, daemon.client() as client:
            daemon.wait_open(client, len(list(folder.glob("*.sqlite"))))
            in_place, renamed, synced = _REWRITES
            kinds: dict[str, Callable[[str], float]] = {
                in_place: lambda word: _until_found(client, word, _ingest(sources, target, word)),
                renamed: lambda word: _until_found(client, word, _rename(sources, target, word)),
                synced: lambda word: _at_once(client, word, _ingest(sources, target, word)),
            }
            seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
            for number in range(rounds):
                for position, (kind, rewrite) in enumerate(kinds.items()):
                    word = f"freshword{number}x{position}"
                    client.search(word)  # the answer that there is none lies in the cache now
                    seconds[kind].append(rewrite(word))
    return {kind: median_s(each) for kind, each in seconds.items()}


def _ingest(sources: Path, target: Path, word: str) -> float:
    _put(sources, word)
    ingest(sources, target)
    return time.perf_counter()


def _rename(sources: Path, target: Path, word: str) -> float:
    _put(sources, word)
    with tempfile.TemporaryDirectory(prefix="collated-bench-") as name:
        made = Path(name) / "new.sqlite"
        ingest(sources, made)
        beside = target.with_suffix(".new")
        shutil.copyfile(made, beside)
        beside.replace(target)
    return time.perf_counter()


def _put(sources: Path, word: str) -> None:
    (sources / "news.md").write_text(
        f"# News\n\nThe store now says {word} and nothing else.\n", encoding="utf-8"
    )


def _until_found(client: Client, word: str, written: float) -> float:
    wait_for(lambda: client.search(word).hits or None, f"{word} to be found")
    return time.perf_counter() - written


def _at_once(client: Client, word: str, written: float) -> float:
    """Return the seconds of one search with `sync`; infinite when it gave the old answer."""
    hits = client.search(word, sync=True).hits
    return time.perf_counter() - written if hits else float("inf")
