"""Part `judged`: how high each ranking puts the section that answers a question, over real documents."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from collated.client import Client

from .bench import Bench
from .daemons import Daemon
from .documents import Documents
from .questions import KINDS, Question, load
from .report import Report
from .wire import LONG_MS

__all__ = ["ALONE", "RANKINGS", "SIZES", "Judged", "Score", "judge", "judged", "place", "run", "score"]

Ranking = Literal["contract", "fused", "global", "smart"]
RANKINGS: tuple[Ranking, ...] = ("contract", "fused", "global", "smart")
SIZES = (2, 5, 10, 20, 30)
ALONE = "the right store alone"
_LIMIT = 50
_FIRST = 5
_GOALS: tuple[tuple[Ranking, int, float], ...] = (("global", 20, 0.84), ("smart", 20, 0.87))


class Score(NamedTuple):
    """Shares of the questions answered by the first hit and by the first five, and mean reciprocal rank."""

    at_1: float
    at_5: float
    reciprocal: float

    def __str__(self) -> str:
        """Return the three as the tables show them."""
        return "/".join(f"{each:.3f}".removeprefix("0") for each in self)


def place(ids: Iterable[str], answers: Collection[str]) -> int:
    """Return where the first of *answers* stands in a list, from 1 on; 0 when none is in it."""
    return next((number for number, each in enumerate(ids, start=1) if each in answers), 0)


def score(places: Sequence[int]) -> Score:
    """Return the score of a question set from the places of its answers; there must be one at least."""
    count = len(places)
    return Score(
        sum(each == 1 for each in places) / count,
        sum(0 < each <= _FIRST for each in places) / count,
        sum(1 / each for each in places if each) / count,
    )


class Place(NamedTuple):
    """Where one question's answer stood: asked of the right store *alone*, and by ranking and size."""

    question: Question
    alone: int
    federated: dict[tuple[Ranking, int], int]


class Judged(Struct):
    """The places of all questions, and the order in which federations were formed."""

    order: list[str]
    places: list[Place]

    def among(self, size: int, kind: str | None = None) -> list[Place]:
        """Return the questions whose right store is one of the first *size*, of one kind or of all."""
        stores = set(self.order[:size])
        return [
            each
            for each in self.places
            if each.question.store in stores and kind in (None, each.question.kind)
        ]


# --------------------------------------------------------------------------- asking


def judged(documents: Documents, folder: Path) -> Judged:
    """Build the stores in *folder*, and ask a daemon over them every question in every way."""
    order = documents.order()
    documents.build(folder, order)
    with Daemon(folder).start() as daemon, daemon.client() as client:
        daemon.wait_open(client, len(order))
        return judge(client, order, load().questions)


def judge(
    client: Client,
    order: Sequence[str],
    questions: Iterable[Question],
    rankings: Sequence[Ranking] = RANKINGS,
) -> Judged:
    """Ask *questions* of the right store alone, and with *rankings* of each federation it is in.

    A federation is the first stores of *order*, as many as one of `SIZES`; the daemon knows them all.

    Raises:
        RuntimeError: a store did not answer.
    """

    def ask(question: Question, ranking: Ranking, stores: Sequence[str]) -> int:
        answer = client.search(
            question.question, limit=_LIMIT, stores=list(stores), ranking=ranking, deadline_ms=LONG_MS
        )
        if not answer.complete:
            raise RuntimeError(f"{question.question!r} was not answered by {answer.stores.failed}")
        right = {f"{question.store}:{each}" for each in question.answers}
        return place((hit.ref for hit in answer.hits), right)

    def all_ways(question: Question) -> Place:
        sizes = [size for size in SIZES if question.store in order[:size]]
        ways: list[tuple[Ranking, int]] = [(ranking, size) for ranking in rankings for size in sizes]
        federated = {way: ask(question, way[0], order[: way[1]]) for way in ways}
        return Place(question, ask(question, "contract", [question.store]), federated)

    return Judged(list(order), [all_ways(question) for question in questions])


# --------------------------------------------------------------------------- showing


def run(bench: Bench, report: Report) -> None:
    """Show the table and its parts by kind, and hold `global` and `smart` to their goals."""
    documents = Documents()
    if not documents.is_there:
        report.text("", "No judged questions: the documents they are about are not on this machine.")
        for ranking, size, least in _GOALS:
            report.goal(_goal(ranking, size, least), "", None)
        return
    result = judged(documents, bench.folder("judged"))
    report.section(
        f"{len(result.places)} judged questions over real documentation",
        f"Recall at one / recall at five / mean reciprocal rank within {_LIMIT} hits. Asked of the first "
        "2, 5, 10, 20 and 30 of 30 projects, each question whose answer is in one of them; the answers are "
        "in `questions.json`. The first line asks the right store alone: the most that others beside it "
        "can leave of it.",
    )
    _show(report, [f"{size} stores" for size in SIZES], [(size, None) for size in SIZES], result)
    size = _GOALS[0][1]
    report.text("", f"By kind, over {size} stores:", "")
    _show(report, KINDS, [(size, kind) for kind in KINDS], result)
    for ranking, size, least in _GOALS:
        reached = _score(result.among(size), ranking, size).at_5
        report.goal(_goal(ranking, size, least), f"{reached:.3f}", reached >= least)


def _show(
    report: Report, names: Sequence[str], columns: Sequence[tuple[int, str | None]], result: Judged
) -> None:
    groups = [(size, result.among(size, kind)) for size, kind in columns]
    report.table(
        ("", *(f"{name} ({len(places)})" for name, (_, places) in zip(names, groups, strict=True))),
        [
            (ALONE, *(str(score([each.alone for each in places])) for _, places in groups)),
            *(
                (f"`{ranking}`", *(str(_score(places, ranking, size)) for size, places in groups))
                for ranking in RANKINGS
            ),
        ],
    )


def _score(places: Sequence[Place], ranking: Ranking, size: int) -> Score:
    return score([each.federated[ranking, size] for each in places])


def _goal(ranking: Ranking, size: int, least: float) -> str:
    return f"{ranking} over {size} stores: recall at five ≥ {least}"
