"""Chunks of any length: read whole as far as an answer can hold them, and shown from their beginning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collated_readers import Budget, Pattern, Query, StoreError
from collated_readers.codebase_index import CodebaseIndex
from collated_readers.codebase_index.bodies import LONGEST, beginning, whole
from collated_readers.opening import StoreConnection, ask

Altered = Callable[..., StoreConnection]

READER = CodebaseIndex()
SECRET = "ghp_" + "a1B2" * 9
LONG = """
UPDATE chunks SET content = content || ' ' || replace(hex(zeroblob(8000000)), '00', 'x') WHERE id = 388"""


def test_a_text_that_no_answer_could_hold_is_damage() -> None:
    assert whole("x" * LONGEST) == "x" * LONGEST
    with pytest.raises(StoreError) as caught:
        whole("x" * (LONGEST + 1))
    assert caught.value.code == "damaged"


@pytest.mark.parametrize("before", [0, 999_900, 999_980, 1_000_000])
def test_no_part_of_a_secret_is_in_a_beginning_wherever_it_is_cut(before: int) -> None:
    shown = beginning("x" * before + f"\n{SECRET}\n" + "y" * 100)
    assert SECRET[:12] not in shown
    assert shown.startswith("x" * min(before, 900_000))


def test_a_chunk_without_an_end_is_found_and_shown_and_grepped_but_not_read(altered_store: Altered) -> None:
    db = altered_store(LONG)

    def asked(db: StoreConnection) -> tuple[list[str], list[str]]:
        query = Query("get_params_from_function")
        hits = READER.hits(db, query, READER.own(db, query))
        matches = READER.grep(db, Pattern("def get_params_from_function"), Budget.lasting(60)).matches
        return [hit.id for hit in hits], [match.line for match in matches]

    ids, lines = ask(db, asked, Budget.lasting(60))
    assert "typer/utils.py:107-186" in ids
    assert lines
    assert all(line.startswith("def get_params_from_function") for line in lines)
    with pytest.raises(StoreError) as caught:
        ask(db, lambda db: READER.read(db, "typer/utils.py:107-186", 0), Budget.lasting(60))
    assert caught.value.code == "damaged"
