"""What formats say of their stores is told in words, and what needs attention with advice."""

from typing import Any

import pytest

from collated.cli.advice import ADVICE
from collated.cli.details import concerns, facts, warnings
from collated.protocol import StoreStatus
from collated_readers import STORE_CODES


def store(**details: Any) -> StoreStatus:
    counts = {"documents": 1, "records": 1, "bytes": 1}
    return StoreStatus(
        "one", "/p/one", None, "codes", "4", "open", None, "f", capabilities=[], details=details, **counts
    )


def of_code(**changed: Any) -> StoreStatus:
    details = {
        "built_at": "2026-11-30T09:47:21Z",
        "updated_at": None,
        "head_commit": "59ec704ed9fd9759770e055cd495def89c8b4c7e",
        "symbols": 648,
        "symbols_missing": False,
        "dangling_edges": 0,
        "languages": ["markdown", "python"],
    }
    return store(**{**details, **changed})


def of_vectors(**changed: Any) -> StoreStatus:
    details = {"contract": "explicit-v1", "model": "m", "dimensions": 2, "metric": "dot"}
    return store(**{**details, **changed})


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (store(), []),
        (
            of_code(),
            ["built 2026-11-30T09:47:21Z", "commit 59ec704ed9", "648 symbols", "languages markdown, python"],
        ),
        (
            of_code(updated_at="2026-12-01", symbols=0, dangling_edges=23, languages=[], files_changed=0),
            [
                "built 2026-11-30T09:47:21Z",
                "updated 2026-12-01",
                "commit 59ec704ed9",
                "23 dangling edges",
                "no file changed since then",
            ],
        ),
        (of_vectors(), ["model m", "2 dimensions", "metric dot"]),
        (store(ingested_at="2026-11-30T09:47:21Z"), ["ingested 2026-11-30T09:47:21Z"]),
        (
            store(project="p", committed_at="2026-11-30T09:47:21Z"),
            ["committed 2026-11-30T09:47:21Z", "project: p"],
        ),
        (
            of_vectors(validation="valid", warnings=[], unindexed=2),
            ["model m", "2 dimensions", "metric dot", "2 texts not indexed", "valid"],
        ),
        (of_vectors(validation="invalid_vector", message="no"), ["model m", "2 dimensions", "metric dot"]),
    ],
)
def test_what_is_known_is_told_in_one_order(told: StoreStatus, expected: list[str]) -> None:
    assert list(facts(told)) == expected


def test_what_has_no_words_is_shown_as_it_is_where_it_is_short_and_plain() -> None:
    told = store(zebra="z", ant=["a", 1], nested={"a": 1}, nothing=None, long="x" * 1_000)

    assert list(facts(told)) == ["ant: a, 1", f"long: {'x' * 79}…", "zebra: z"]


@pytest.mark.parametrize(
    "told", [store(), of_code(), of_code(files_changed=0), of_vectors(validation="valid")]
)
def test_a_sound_store_is_no_concern(told: StoreStatus) -> None:
    assert list(concerns(told)) == []


@pytest.mark.parametrize(("changed", "words"), [(1, "1 file"), (3, "3 files")])
def test_a_checkout_that_moved_on_is_a_concern_but_no_problem(changed: int, words: str) -> None:
    assert list(concerns(of_code(files_changed=changed))) == [
        (f"{words} changed since it was indexed", "index the project again with codes", False)
    ]


def test_a_detail_that_is_a_code_is_a_problem_with_that_codes_advice() -> None:
    code = "symbols_missing"

    assert list(concerns(of_code(symbols_missing=True))) == [
        (f"{STORE_CODES[code][1]} ({code})", ADVICE[code], True)
    ]


def test_a_failed_validation_is_a_problem_and_a_failed_examination_may_pass() -> None:
    invalid = of_vectors(validation="invalid_vector", message="record 2 is wrong")
    late = of_vectors(error={"code": "deadline_exceeded", "message": "too slow"})

    assert list(concerns(invalid)) == [("record 2 is wrong (invalid_vector)", ADVICE["invalid_vector"], True)]
    assert list(concerns(late)) == [("too slow (deadline_exceeded)", ADVICE["deadline_exceeded"], False)]


def test_warnings_are_told_with_their_codes() -> None:
    told = of_vectors(validation="valid", warnings=[{"code": "ordinal_hole", "message": "a hole"}])

    assert list(warnings(told)) == ["a hole (ordinal_hole)"]
    assert list(warnings(store())) == []
