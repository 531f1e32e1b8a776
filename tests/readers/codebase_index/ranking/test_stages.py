"""Each stage of the program's ranking gives what the real program recorded, but for what is named."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from collated_readers import Budget
from collated_readers.codebase_index.ranking.found import Found, Source
from collated_readers.codebase_index.ranking.fusing import fused
from collated_readers.codebase_index.ranking.language import SYNONYMS
from collated_readers.codebase_index.ranking.own import page_of, pool_of
from collated_readers.codebase_index.ranking.paths import paths
from collated_readers.codebase_index.ranking.query import Asked, asked_of
from collated_readers.codebase_index.ranking.scope import scope_of
from collated_readers.codebase_index.ranking.symbols import symbols
from collated_readers.codebase_index.ranking.texts import texts
from collated_readers.opening import StoreConnection, ask

CodeStore = Callable[[str], StoreConnection]
Lists = dict[Source, list[Found]]
Placed = tuple[str, int, int, float]

STORES = ("typer", "pydantic")
PAGE = 10
WITHOUT_WORDS = "the of and"  # is searched for by these words here, and not at all by the program

# Where it finds too few names, the program also takes those that only look a little like the words.
LIKE_OTHER_NAMES = {"método ñandú", "auth config delete", "modelJsonSchema"}
# In a pattern of LIKE `_` is any character: `pydantic_fields` is in `pydantic-fields` to the program.
ANY_CHARACTER = {"where does __pydantic_fields__ get set"}
UNLIKE: dict[Source, set[str]] = {"text": set(), "symbol": LIKE_OTHER_NAMES, "path": ANY_CHARACTER}
RECORDED_AS: dict[Source, str] = {"text": "fts", "symbol": "symbol", "path": "path"}


@pytest.fixture(params=STORES)
def stage(
    request: pytest.FixtureRequest, code_stores: Path, code_store: CodeStore
) -> tuple[StoreConnection, list[Any]]:
    """A store, and what the program recorded of its searches there."""
    lines = (code_stores / request.param / "internals.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = [json.loads(line) for line in lines]
    assert len(recorded) > 20
    told = [each for each in recorded if each["query"] != WITHOUT_WORDS]
    return code_store(f"{request.param}/index.sqlite"), told


def _lists(db: StoreConnection, asked: Asked) -> Lists:
    def made(db: sqlite3.Connection) -> Lists:
        scope = scope_of(db, None, pool_of(asked, PAGE))
        return {
            "text": texts(db, asked, scope),
            "symbol": symbols(db, asked, scope),
            "path": paths(db, asked, scope),
        }

    return ask(db, made, Budget.lasting(60))


def _ours(found: Iterable[Found], digits: int) -> list[Placed]:
    return [(one.path, one.line_start, one.line_end, round(one.score, digits)) for one in found]


def _its(found: Iterable[Any], score: str = "score") -> list[Placed]:
    return [(one["path"], one["line_start"], one["line_end"], one[score]) for one in found]


def test_a_query_is_understood_as_by_the_program(stage: tuple[StoreConnection, list[Any]]) -> None:
    for its in stage[1]:
        asked = asked_of(its["query"])
        weights = {"fts": asked.weights.text, "symbol": asked.weights.symbol, "path": asked.weights.path}
        assert weights == {source: its["weights"][source] for source in weights}, its["query"]
        assert asked.is_question == its["is_question"]
        assert asked.is_architecture == (its["intent"] == "architecture")
        assert asked.kind == its["requested_kind"]
        assert [term.text for term in asked.terms] == its["original_terms"]
        assert asked.match == its["fts_match"].replace("(", "").replace(")", "")
        others = [[*each, term.text] for term in asked.terms for each in term.spellings[1:]]
        assert others == [[word, weight, of] for word, weight, _, of in its["expanded"]]
        assert pool_of(asked, PAGE) == its["pool_limit"]


def test_each_list_is_the_program_s(stage: tuple[StoreConnection, list[Any]]) -> None:
    db, recorded = stage
    for its in recorded:
        ours = _lists(db, asked_of(its["query"]))
        for source, name in RECORDED_AS.items():
            is_like = [place[:3] for place in _ours(ours[source], 6)] == [p[:3] for p in _its(its[name])]
            assert is_like == (its["query"] not in UNLIKE[source]), (its["query"], source)
            if is_like and source != "path":  # the scores of paths decide nothing
                assert _ours(ours[source], 6) == _its(its[name])


def test_lists_are_fused_as_by_the_program(stage: tuple[StoreConnection, list[Any]]) -> None:
    db, recorded = stage
    for its in recorded:
        if its["mode"] != "hybrid" or its["query"] in LIKE_OTHER_NAMES | ANY_CHARACTER:
            continue
        asked = asked_of(its["query"])
        ours = _ours(fused(_lists(db, asked), asked.weights), 4)
        assert ours[: len(its["pool"])] == _its(its["pool"], "fused_score"), its["query"]


def test_what_is_shown_has_the_program_s_score(stage: tuple[StoreConnection, list[Any]]) -> None:
    """The order differs only where the program leaves out what looks like something better."""
    db, recorded = stage
    same = total = 0
    for its in recorded:
        if its["mode"] != "hybrid" or its["query"] in LIKE_OTHER_NAMES:
            continue
        asked = asked_of(its["query"])
        ours = _ours(page_of(_lists(db, asked), asked), 4)
        shown = _its(its["ranked"])
        if its["query"] not in ANY_CHARACTER:
            assert set(ours) >= set(shown), its["query"]
        total += 1
        same += ours[: len(shown)] == shown
    assert same >= total // 2


def test_words_are_taken_for_one_another_as_by_the_program(code_stores: Path) -> None:
    table = json.loads((code_stores / "synonyms.json").read_text(encoding="utf-8"))
    assert {word: list(others) for word, others in SYNONYMS.items()} == table
