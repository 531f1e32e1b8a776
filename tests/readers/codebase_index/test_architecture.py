"""The report that the program left in a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collated_readers import StoreError
from collated_readers.codebase_index.architecture import architecture_of
from collated_readers.opening import StoreConnection

Recorded = Callable[[str, str], list[tuple[list[str], Any]]]
OF_THE_COMMAND = {"exists", "available", "index"}


@pytest.mark.parametrize("store", ["typer", "pydantic"])
def test_the_report_is_what_the_program_shows(
    code_store: Callable[[str], StoreConnection], recorded: Recorded, store: str
) -> None:
    report = architecture_of(code_store(f"{store}/index.sqlite"))
    for _, answer in recorded(store, "architecture"):
        assert report == {key: value for key, value in answer.items() if key not in OF_THE_COMMAND}


@pytest.mark.parametrize("store", ["typer_v1.2.1", "typer_883d37c"])
def test_stores_older_than_the_report_have_none(
    code_store: Callable[[str], StoreConnection], store: str
) -> None:
    assert architecture_of(code_store(f"schema_versions/{store}.sqlite")) is None


@pytest.mark.parametrize("report", ["", "[]", "{", "null", "NaN", b"{}", 7, "[" * 100_000, '{"a":' * 100_000])
def test_a_report_that_is_no_object_is_damage(small_store: Callable[[], Any], report: object) -> None:
    store = small_store()
    store.meta("graph_analysis", report)
    with pytest.raises(StoreError) as raised:
        architecture_of(store.db)
    assert raised.value.code == "damaged"
