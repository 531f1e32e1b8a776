"""Projects made up from a seed, and the real ContextPull stores of them, kept between runs (ANCHORS §1).

A project is 20 Markdown files of 10 sections: prose, tables, code and error codes, with noun
frequencies of its own. Project *i* depends on the seed and on *i* alone, so 50 are the first of 1,000.
"""

import multiprocessing
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

from contextpull.ingest import ingest  # type: ignore[import-untyped]  # the package has no types

from .words import ADJECTIVES, NOUNS, VERBS

__all__ = ["CLASSES", "SEED", "Corpus", "pairs", "queries", "write_project"]

SEED = 20_261
_SHAPE = 1  # of what is generated; another number makes other stores
_FILES, _SECTIONS = 20, 10
_NOUNS, _OWN_CODES = 90, 40

CLASSES = ("one common word", "one rare word", "two words", "three words", "a question", "no match")
"""The classes of queries, in the order of the report."""


class _Project:
    """One project's vocabulary, and sentences made of it."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = random.Random(f"{seed}/{_SHAPE}/{number}")  # noqa: S311 - the same text each time
        self.nouns = self.random.sample(NOUNS, _NOUNS)
        self._weights = [1 / (rank + 3) for rank in range(_NOUNS)]
        prefix = "".join(self.random.choice("BCDFGHKLMNPQRSTVWXZ") for _ in range(3))
        self.codes = [f"{prefix}-{self.random.randint(1000, 9999)}" for _ in range(_OWN_CODES)]
        self.dotted = [
            f"{self.noun()}.{self.noun()}.{prefix.lower()}_{self.noun()}" for _ in range(_OWN_CODES)
        ]

    def noun(self) -> str:
        return self.random.choices(self.nouns, self._weights)[0]

    def sentence(self) -> str:
        pick, number = self.random.choice, self.random.randint(2, 900)
        subject, thing, other = self.noun(), self.noun(), self.noun()
        does, how, code, option = pick(VERBS), pick(ADJECTIVES), pick(self.codes), pick(self.dotted)
        return pick(
            (
                f"The {how} {subject} {does} the {thing} before the {other} {pick(VERBS)}.",
                f"When a {subject} {does} the {thing}, the {how} {other} {pick(VERBS)} it.",
                f"Each {subject} has one {how} {thing} and a {other} of {number} ms.",
                f"Set `{option}` so that the {thing} {does} every {how} {other}.",
                f"It is not the {subject} that {does}: a {thing} {pick(VERBS)} how the {other} does.",
                f"See {code} for a {how} {thing} in the {other}.",
            )
        )

    def prose(self, least: int, most: int) -> str:
        return " ".join(self.sentence() for _ in range(self.random.randint(least, most)))

    def table(self) -> str:
        rows = [
            f"| {self.noun()} | {self.random.randint(1, 9999)} | {self.random.choice(ADJECTIVES)} |"
            for _ in range(6)
        ]
        return "\n".join((f"| {self.noun()} | value | state |", "|---|---|---|", *rows))

    def code(self) -> str:
        name, argument = self.noun(), self.noun()
        return (
            f"```python\ndef {name}_{self.noun()}({argument}):\n"
            f'    """{self.sentence()}"""\n    return {self.random.choice(self.dotted)}({argument})\n```'
        )

    def section(self) -> str:
        parts = [f"## {self.noun().title()} {self.noun()} {self.random.choice(ADJECTIVES)}", self.prose(4, 9)]
        extra = self.random.random()
        if extra < 0.15:
            parts.append(self.table())
        elif extra < 0.35:
            parts.append(self.code())
        elif extra < 0.5:
            parts += [f"- {self.random.choice(self.codes)}: {self.sentence()}" for _ in range(3)]
        return "\n\n".join(parts)


def write_project(folder: Path, seed: int, number: int, extra: str = "") -> None:
    """Write project *number* into *folder*; *extra* goes to the end of its last file."""
    project = _Project(seed, number)
    for position in range(_FILES):
        sections = [project.section() for _ in range(_SECTIONS)]
        tail = extra if position == _FILES - 1 else ""
        text = "\n\n".join((f"# {project.noun().title()} {position}", *sections, tail))
        (folder / f"{position:02d}-{project.noun()}.md").write_text(text + "\n", encoding="utf-8")


def queries(seed: int, count: int, per_class: int) -> dict[str, list[str]]:
    """Return *per_class* questions of each class for the first *count* projects."""
    chance = random.Random(f"{seed}/queries")  # noqa: S311 - the same questions each time
    asked: dict[str, list[str]] = {kind: [] for kind in CLASSES}
    for position in range(per_class):
        project = _Project(seed, (position * 17) % count)
        nouns = chance.sample(project.nouns[:40], 5)
        verb, adjective = chance.choice(VERBS), chance.choice(ADJECTIVES)
        rare = project.codes[position] if position % 2 else project.dotted[position]
        texts = (
            nouns[0],
            rare,
            f"{nouns[1]} {nouns[2]}",
            f"{adjective} {nouns[0]} {nouns[3]}",
            f"how does the {nouns[1]} keep the {nouns[4]} when the {nouns[2]} {verb} it",
            f"unheardof{position}" if position % 2 else f"unheardof{position} neverwritten",
        )
        for kind, text in zip(CLASSES, texts, strict=True):
            asked[kind].append(text)
    return asked


class Corpus:
    """The stores of one seed in a cache folder; `view` lays some of them out for one run."""

    def __init__(self, cache: Path, seed: int = SEED) -> None:
        """Keep stores below *cache*, by seed, shape and the version of the program that writes them."""
        self._folder = cache / f"seed-{seed}-shape-{_SHAPE}-contextpull-{version('contextpull')}"
        self._seed = seed

    def build(self, count: int) -> int:
        """Make what is missing of the first *count* stores, on all cores, and return how many that was."""
        self._folder.mkdir(parents=True, exist_ok=True)
        missing = [number for number in range(count) if not self._path(number).exists()]
        if missing:
            with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
                list(pool.map(self._build, missing, chunksize=4))
        return len(missing)

    def view(self, folder: Path, count: int) -> list[Path]:
        """Link the first *count* stores into *folder* and return their paths by name.

        Hard links: the daemon and the reference read the same bytes from the same page cache, and the
        empty `-wal` and `-shm` that the reference leaves beside a store stay on its own side.
        """
        folder.mkdir(parents=True)
        return [_link(self._path(number), folder) for number in range(count)]

    def scratch(self) -> Path:
        """Return a new folder beside the stores, so that links work in it; the caller removes it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))

    def size_bytes(self, count: int) -> int:
        """Return how large the first *count* stores are."""
        return sum(self._path(number).stat().st_size for number in range(count))

    def _path(self, number: int) -> Path:
        return self._folder / f"project-{number:04d}.sqlite"

    def _build(self, number: int) -> None:
        path = self._path(number)
        with tempfile.TemporaryDirectory(prefix="collated-bench-") as name:
            sources = Path(name) / "sources"
            sources.mkdir()
            write_project(sources, self._seed, number)
            made = Path(name) / path.name
            ingest(sources, made)
            partial = path.with_suffix(".partial")
            shutil.copyfile(made, partial)
            partial.replace(path)


def _link(store: Path, folder: Path) -> Path:
    target = folder / store.name
    try:
        os.link(store, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(store, target)
    return target


def pairs(asked: dict[str, list[str]], kinds: Sequence[str] = CLASSES) -> Iterator[tuple[str, str]]:
    """Yield (class, question), class by class."""
    return ((kind, text) for kind in kinds for text in asked[kind])
