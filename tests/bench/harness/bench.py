"""What the parts of one run share: views of the stores, references, daemons that stay up."""

import shutil
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .asking import Asker
from .building import Built, rest, watch_build
from .corpus import Corpus
from .daemons import Daemon
from .projects import SEED, queries
from .reference import Reference

__all__ = ["FEW", "MANY", "UNCACHED", "Bench"]

FEW, MANY = 50, 1_000
UNCACHED: Mapping[str, object] = {"cache__answers_bytes": 0}
"""Settings of a daemon that remembers no answer."""


class Bench:
    """One run over the first stores of a corpus; close it, or use `opened`."""

    def __init__(self, corpus: Corpus, counts: Sequence[int], *, is_quick: bool) -> None:
        """Measure with each of *counts* stores; *is_quick* takes few rounds and questions."""
        self.corpus = corpus
        self.counts = sorted(set(counts))
        self.is_quick = is_quick
        self.scratch = corpus.scratch()
        self.built: dict[int, Built] = {}
        self._references: dict[int, Reference] = {}
        self._daemons: dict[int, Daemon] = {}
        self._askers: dict[int, Asker] = {}

    @property
    def few(self) -> int:
        """Return the smallest number of stores."""
        return self.counts[0]

    @property
    def many(self) -> int:
        """Return the largest number of stores."""
        return self.counts[-1]

    def rounds(self, count: int) -> int:
        """Return how many times to time something over *count* stores."""
        few, many = (3, 2) if self.is_quick else (9, 3)
        return few if count <= FEW else many

    def asked(self, count: int) -> dict[str, list[str]]:
        """Return the questions to ask of *count* stores, by class."""
        return queries(SEED, count, 2 if self.is_quick or count > FEW else 6)

    def folder(self, name: str) -> Path:
        """Return the path of a new folder of that name, not made yet."""
        return self.scratch / name

    # ----------------------------------------------------------------- both sides over `count` stores

    def ours(self, count: int) -> Path:
        """Return the folder with the daemon's links to the first *count* stores."""
        return self._view("ours", count)

    def theirs(self, count: int) -> Path:
        """Return the folder with the reference's links to the first *count* stores."""
        return self._view("theirs", count)

    def reference(self, count: int) -> Reference:
        """Return the reference over the first *count* stores, all open."""
        if count not in self._references:
            self._references[count] = Reference(sorted(self.theirs(count).glob("*.sqlite")))
        return self._references[count]

    def asker(self, count: int) -> Asker:
        """Return who asks the daemon over the first *count* stores, which remembers no answers.

        All its stores are open, and served from arrays as soon as there are any.
        """
        if count not in self._askers:
            if count not in self._daemons:
                self._daemons[count] = Daemon(self.ours(count), **UNCACHED)
            daemon = self._daemons[count]
            started = time.perf_counter()
            asker = Asker(daemon.start(inside=True))
            built = watch_build(daemon, asker.wire, count, started)
            if count >= MANY and count not in self.built:
                built.rested = rest(daemon, asker.wire)
            self.built.setdefault(count, built)
            self._askers[count] = asker
        return self._askers[count]

    @contextmanager
    def resting(self, count: int) -> Generator[Daemon]:
        """Lend the daemon of `asker(count)`, stopped, with all it has kept; every setting is its default."""
        self.asker(count)
        self._askers.pop(count).close()
        daemon = self._daemons[count]
        daemon.stop()
        daemon.set(**dict.fromkeys(UNCACHED))
        try:
            yield daemon
        finally:
            daemon.stop()
            daemon.set(**UNCACHED)

    def close(self) -> None:
        """End all daemons and remove what the run has laid out."""
        for asker in self._askers.values():
            asker.close()
        for daemon in self._daemons.values():
            daemon.close()
        for reference in self._references.values():
            reference.close()
        shutil.rmtree(self.scratch)

    def _view(self, side: str, count: int) -> Path:
        folder = self.folder(f"{side}-{count}")
        if not folder.exists():
            self.corpus.view(folder, range(count))
        return folder
