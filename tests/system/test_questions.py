"""The judged questions of the bench: the set's shape, the scorer, and that its references hold."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

_BENCH = Path(__file__).parents[1] / "bench"
_WORD = re.compile(r"\w+")
# Shorter runs of words are how anybody says it: names of commands and settings, "how do I make a".
_RUN = 6

# Cutting 34 MB of documents takes seconds, or a minute where others work too; a fixture's time counts.
_TIMEOUT_S = 600

Import = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def harness() -> Iterator[Import]:
    """`harness(name)` imports a module of the bench, whose package is not installed."""
    sys.path.insert(0, str(_BENCH))
    yield lambda name: import_module(f"harness.{name}")
    sys.path.remove(str(_BENCH))


@pytest.fixture(scope="module")
def stores(harness: Import, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The stores that the questions are about, by name, built from the documents."""
    documents = harness("documents").Documents(shared / "data" / "docs")
    names = sorted({each.store for each in harness("questions").load().questions})
    folder = tmp_path_factory.mktemp("documents")
    return dict(zip(names, documents.build(folder, names), strict=True))


def test_the_set_is_large_and_spread_evenly_over_the_first_stores(harness: Import, shared: Path) -> None:
    order = harness("documents").Documents(shared / "data" / "docs").order()
    questions = harness("questions").load().questions
    count = Counter(each.store for each in questions)
    assert len(questions) >= 150
    assert set(count) == set(order)
    assert min(count[store] for store in order[:20]) >= 9
    assert max(count.values()) <= 13


def test_most_are_questions_and_some_are_keywords_and_identifiers(harness: Import) -> None:
    questions = harness("questions").load().questions
    share = {kind: count / len(questions) for kind, count in Counter(q.kind for q in questions).items()}
    assert share["question"] > 0.6
    assert min(share["keywords"], share["identifier"]) > 0.05


def test_no_question_is_asked_twice_and_each_names_its_answers_once(harness: Import) -> None:
    questions = harness("questions").load().questions
    assert max(Counter(each.question.casefold() for each in questions).values()) == 1
    for each in questions:
        assert each.answers
        assert len(set(each.answers)) == len(each.answers)
        assert all(re.fullmatch(r".+\.md#\d+", answer) for answer in each.answers), each


def test_a_file_of_another_shape_is_refused(harness: Import, tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    file.write_text('{"contextpull": "0", "documents_sha256": "", "questions": [{"store": "a"}]}')
    with pytest.raises(msgspec.ValidationError):
        harness("questions").load(file)


@pytest.mark.parametrize(
    ("ids", "answers", "expected"),
    [([], {"a"}, 0), (["a", "b"], {"a"}, 1), (["b", "a"], {"a"}, 2), (["c", "b", "a"], {"a", "b"}, 2)],
)
def test_the_place_is_that_of_the_first_answer(
    harness: Import, ids: Sequence[str], answers: set[str], expected: int
) -> None:
    assert harness("judging").place(ids, answers) == expected


def test_a_score_counts_the_first_the_first_five_and_the_reciprocal(harness: Import) -> None:
    score = harness("judging").score([1, 5, 6, 0])
    assert score == (1 / 4, 2 / 4, (1 + 1 / 5 + 1 / 6) / 4)
    assert str(score) == ".250/.500/.342"
    assert str(harness("judging").score([1])) == "1.000/1.000/1.000"


def test_only_federations_with_the_right_store_are_scored(harness: Import) -> None:
    judging, questions = harness("judging"), harness("questions").load().questions
    order = ["uv", "pydantic", "fastapi"]
    places = [judging.Place(each, 1, {}) for each in questions if each.store in order]
    judged = judging.Judged(order, places)
    assert {each.question.store for each in judged.among(2)} == {"uv", "pydantic"}
    assert {each.question.kind for each in judged.among(5, "keywords")} == {"keywords"}
    assert len(judged.among(5)) == len(places)


def test_the_references_are_to_the_documents_that_are_here(harness: Import, shared: Path) -> None:
    documents = harness("documents").Documents(shared / "data" / "docs")
    assert harness("questions").load().documents_sha256 == documents.sha256()


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT_S)
def test_every_answer_is_a_section_of_its_store(harness: Import, stores: dict[str, Path]) -> None:
    ids = {name: {row[0] for row in _rows(path, "id")} for name, path in stores.items()}
    questions = harness("questions").load().questions
    assert [each for each in questions if not set(each.answers) <= ids[each.store]] == []


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT_S)
def test_no_question_is_copied_from_the_documents(harness: Import, stores: dict[str, Path]) -> None:
    texts = {name: [_words(" ".join(row)) for row in _rows(path, "text")] for name, path in stores.items()}
    copied: list[str] = []
    for each in harness("questions").load().questions:
        words = _words(each.question).split()
        runs = [f" {' '.join(words[n : n + _RUN])} " for n in range(len(words) - _RUN + 1)]
        copied += [run for run in runs if any(run in text for text in texts[each.store])]
    assert copied == []


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT_S)
def test_a_daemon_is_asked_alone_and_federated(
    harness: Import, stores: dict[str, Path], tmp_path: Path
) -> None:
    judging = harness("judging")
    order = ["uvicorn", "httpx"]
    for name in order:
        (tmp_path / f"{name}.sqlite").hardlink_to(stores[name])
    questions = [each for each in harness("questions").load().questions if each.store in order]
    with harness("daemons").Daemon(tmp_path).start() as daemon, daemon.client() as client:
        daemon.wait_open(client, len(order))
        judged = judging.judge(client, order, questions, ["contract"])
        lone = judging.judge(client, order[:1], questions[:1], ["contract"])
    assert judged.order == order
    assert {key for each in judged.places for key in each.federated} == {
        ("contract", size) for size in judging.SIZES
    }
    assert all(each.federated["contract", 2] == each.federated["contract", 30] for each in judged.places)
    assert sum(each.alone == 1 for each in judged.places) > len(questions) / 2
    assert lone.places[0].federated["contract", 2] == lone.places[0].alone


def _rows(path: Path, columns: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
        return db.execute(f"SELECT {columns} FROM sections").fetchall()  # noqa: S608 - a constant of this file


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "
