"""Projects made up from a seed, and what is asked of them. Nothing here is anybody's text.

A project is 20 Markdown files of 10 sections: prose, tables, code and error codes, with noun
frequencies of its own. Project *i* depends on the seed and on *i* alone, so 50 are the first of 1,000.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .words import ADJECTIVES, NOUNS, VERBS

__all__ = [
    "CLASSES",
    "NOWHERE",
    "PATTERNS",
    "SEED",
    "SHAPE",
    "different",
    "own_codes",
    "pairs",
    "patterns",
    "project_name",
    "queries",
    "write_project",
    "write_small",
]

SEED = 20_261
SHAPE = 1
"""Of what is generated; another number makes other stores."""

_FILES, _SECTIONS = 20, 10
_SMALL_FILES, _SMALL_SECTIONS = 2, 4
_NOUNS, _OWN_CODES = 90, 40
_STEP = 17  # from one question's project to the next one's

NOWHERE = "no match"
CLASSES = ("one common word", "one rare word", "two words", "three words", "a question", NOWHERE)
"""The classes of queries, in the order of the report."""

PATTERNS = ("rare", "medium", "common", "three characters", NOWHERE)
"""The classes of grep's patterns, in the order of the report."""


class _Project:
    """One project's vocabulary, and sentences made of it."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = random.Random(f"{seed}/{SHAPE}/{number}")  # noqa: S311 - the same text each time
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


def project_name(number: int) -> str:
    """Return the name of project *number*, of its folder and of its store."""
    return f"project-{number:04d}"


def write_project(folder: Path, seed: int, number: int, extra: str = "") -> None:
    """Write project *number* into *folder*; *extra* goes to the end of its last file."""
    _write(folder, _Project(seed, number), (_FILES, _SECTIONS), extra)


def write_small(folder: Path, seed: int, number: int, extra: str = "") -> None:
    """Write a small project into *folder*: 2 files of 4 sections."""
    _write(folder, _Project(seed, number), (_SMALL_FILES, _SMALL_SECTIONS), extra)


def _write(folder: Path, project: _Project, shape: tuple[int, int], extra: str) -> None:
    files, count = shape
    for position in range(files):
        sections = [project.section() for _ in range(count)]
        tail = extra if position == files - 1 else ""
        text = "\n\n".join((f"# {project.noun().title()} {position}", *sections, tail))
        (folder / f"{position:02d}-{project.noun()}.md").write_text(text + "\n", encoding="utf-8")


def queries(seed: int, count: int, per_class: int) -> dict[str, list[str]]:
    """Return *per_class* questions of each class for the first *count* projects."""
    chance = random.Random(f"{seed}/queries")  # noqa: S311 - the same questions each time
    asked: dict[str, list[str]] = {kind: [] for kind in CLASSES}
    for position in range(per_class):
        project = _Project(seed, (position * _STEP) % count)
        nouns = chance.sample(project.nouns[:40], 5)
        verb, adjective = chance.choice(VERBS), chance.choice(ADJECTIVES)
        own = position % _OWN_CODES
        rare = project.codes[own] if position % 2 else project.dotted[own]
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


def different(seed: int, count: int, per_class: int) -> dict[str, list[str]]:
    """Return *per_class* questions of each class, no two of which are the same."""
    asked = queries(seed, count, 4 * per_class)
    return {kind: list(dict.fromkeys(texts))[:per_class] for kind, texts in asked.items()}


def patterns(seed: int, count: int, per_class: int) -> dict[str, list[str]]:
    """Return *per_class* literal patterns of each class of `PATTERNS` for the first *count* projects.

    Of those that match nowhere, every other one is made of two words whose letters are all there.
    """
    chance = random.Random(f"{seed}/patterns")  # noqa: S311 - the same patterns each time
    asked: dict[str, list[str]] = {kind: [] for kind in PATTERNS}
    for position in range(per_class):
        project = _Project(seed, (position * _STEP) % count)
        first, second = chance.sample(project.nouns[:40], 2)
        texts = (
            project.codes[position],
            f"{chance.choice(ADJECTIVES)} {first}",
            first,
            second[1:4],
            f"nowherewritten{position}" if position % 2 else f"{first}{second}",
        )
        for kind, text in zip(PATTERNS, texts, strict=True):
            asked[kind].append(text)
    return asked


def own_codes(seed: int, numbers: Sequence[int]) -> list[str]:
    """Return a word for each of the projects *numbers* that stands in no other project."""
    return [_Project(seed, number).codes[-1] for number in numbers]


def pairs(asked: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield (class, question), class by class."""
    return ((kind, text) for kind in asked for text in asked[kind])
