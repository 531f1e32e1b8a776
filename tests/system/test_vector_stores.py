"""Vector stores through a real daemon: near records by the wire and by `collate similar`, and their texts."""

from __future__ import annotations

import json
import operator
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.system.conftest import Daemon, StartDaemon

# Two models, three metrics, three ways to store a vector, and one store with a number that is none.
STORES = (
    *("bge_valid", "exp_json_dot", "exp_float32_le", "exp_float64_le"),
    *("exp_cosine_unnormalized", "exp_l2", "exp_json_inf"),
)
LONG = 1024
SAME = ["exp_json_dot", "exp_float32_le", "exp_float64_le"]
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def sources(shared: Path) -> Path:
    """The folder of reference stores, which nothing may write to."""
    return shared / "data" / "book-agent" / "stores"


@pytest.fixture(scope="module")
def books(sources: Path, start_shared_daemon: StartDaemon) -> Daemon:
    """A daemon over copies of vector stores, each with its manifest, and texts that are indexed."""
    daemon = start_shared_daemon(is_launched=False)
    for name in STORES:
        for file in sources.glob(f"{name}.*"):
            shutil.copyfile(file, daemon.stores / file.name)
    daemon.start()
    for name in STORES:
        daemon.wait_state(name, "open")
    daemon.wait_for(
        lambda: daemon.ask("grep", pattern="passage", stores=SAME)["complete"], what="texts to be indexed"
    )
    return daemon


def failures(answer: Any) -> dict[str, str]:
    return {failure["store"]: failure["code"] for failure in answer["stores"]["failed"]}


def stored_vectors(path: Path) -> dict[str, list[float]]:
    """Return the vectors of `bge_valid` by record id."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    rows = db.execute("SELECT ordinal, embedding FROM chunks").fetchall()
    db.close()
    return {str(ordinal): list(struct.unpack(f"<{LONG}f", blob)) for ordinal, blob in rows}


# --------------------------------------------------------------------------- by the wire


def test_the_nearest_come_first_and_scores_are_those_of_the_vectors(books: Daemon, sources: Path) -> None:
    vectors = stored_vectors(sources / "bge_valid.sqlite")
    query = vectors["2"]
    scores = {record: sum(map(operator.mul, query, vector)) for record, vector in vectors.items()}

    answer = books.ask("vectors.search", vector=query, stores=["bge_valid"], limit=1_000)

    assert [hit["id"] for hit in answer["hits"]] == sorted(scores, key=lambda record: -scores[record])
    assert all(abs(hit["score"] - scores[hit["id"]]) < TOLERANCE for hit in answer["hits"])
    first = answer["hits"][0]
    assert (first["metric"], first["direction"], first["model"]) == ("dot", "higher", "BAAI/bge-m3")
    assert (answer["order"], answer["complete"]) == ("score", True)
    assert first["text"] == books.ask("read", ref=first["ref"])["text"]


def test_equal_scores_come_by_id_and_store_however_they_are_kept(books: Daemon) -> None:
    answer = books.ask("vectors.search", vector=[1, 0], stores=SAME)

    assert answer["order"] == "score"
    found = [(-hit["score"], hit["id"], hit["store"]) for hit in answer["hits"]]
    assert found == sorted(found)
    assert [hit["ref"] for hit in answer["hits"][:3]] == [f"{store}:p0" for store in sorted(SAME)]


def test_metrics_are_not_mixed_and_each_keeps_its_direction(books: Daemon) -> None:
    stores = ["exp_json_dot", "exp_cosine_unnormalized", "exp_l2"]

    answer = books.ask("vectors.search", vector=[1, 0], stores=stores, limit=1_000)

    assert answer["order"] == "rank"
    for store in stores:
        alone = books.ask("vectors.search", vector=[1, 0], stores=[store], limit=1_000)["hits"]
        assert [hit for hit in answer["hits"] if hit["store"] == store] == alone
        scores = [hit["score"] for hit in alone]
        assert scores == sorted(scores, reverse=alone[0]["direction"] == "higher")
    assert {hit["store"] for hit in answer["hits"][:3]} == set(stores)


def test_a_store_of_another_kind_and_one_with_a_bad_vector_say_so_and_hide_nothing(books: Daemon) -> None:
    answer = books.ask("vectors.search", vector=[1, 0])

    assert failures(answer) == {"bge_valid": "invalid_query_vector", "exp_json_inf": "invalid_vector"}
    messages = {failure["store"]: failure["message"] for failure in answer["stores"]["failed"]}
    assert "2 numbers" in messages["bge_valid"]
    assert str(LONG) in messages["bge_valid"]
    assert "'p1'" in messages["exp_json_inf"]
    assert (len(answer["hits"]), answer["complete"]) == (10, False)

    answer = books.ask("vectors.search", vector=[1, 0], model="Original-Index-Model")
    assert failures(answer) == {"bge_valid": "query_model_mismatch", "exp_json_inf": "invalid_vector"}


def test_a_request_that_fits_no_store_is_refused(books: Daemon) -> None:
    refusal = books.refusal("vectors.search", vector=[1, 0], model="nonesuch")
    assert (refusal.code, refusal.number) == ("query_model_mismatch", -32011)
    assert "nonesuch" in refusal.message
    assert books.refusal("vectors.search", vector=[1, 0, 0]).code == "invalid_query_vector"
    assert books.refusal("vectors.search", vector=[0, 0]).code == "invalid_query_vector"
    assert books.refusal("vectors.search", vector=[]).code == "invalid_query_vector"
    assert books.refusal("vectors.search", vector=["a"]).code == "invalid_params"


def test_texts_are_found_by_words_and_by_grep_and_read(books: Daemon) -> None:
    hits = books.ask("search", query="passage 3", stores=SAME)["hits"]
    matches = books.ask("grep", pattern="passage 3", stores=SAME)["matches"]

    for found in (hits[0]["ref"], matches[0]["ref"]):
        assert books.ask("read", ref=found)["text"].startswith("passage 3")
    assert {match["store"] for match in matches} == set(SAME)


# --------------------------------------------------------------------------- by the command


def test_a_vector_comes_from_a_file_of_either_kind_or_from_standard_input(
    books: Daemon, tmp_path: Path
) -> None:
    array, raw = tmp_path / "query.json", tmp_path / "query.f32"
    array.write_text("[1, 0.5]\n", encoding="ascii")
    raw.write_bytes(struct.pack("<2f", 1, 0.5))
    expected = books.ask("vectors.search", vector=[1, 0.5], stores=SAME, limit=3)
    scope = [word for store in SAME for word in ("--store", store)]

    for ran in (
        books.collate("similar", "--vector", str(array), "--limit", "3", "--json", *scope),
        books.collate("similar", "--vector", str(raw), "--limit", "3", "--json", *scope),
        books.collate("similar", "--vector", "-", "--limit", "3", "--json", *scope, given=b"[1, 0.5]"),
    ):
        assert (ran.returncode, ran.stderr) == (0, "")
        assert json.loads(ran.stdout) == expected


def test_people_are_shown_what_a_score_is_of(books: Daemon) -> None:
    ran = books.collate("similar", "--vector", "-", "--store", "exp_l2", "--limit", "1", given=b"[1, 0]")

    assert ran.returncode == 0
    place, text = ran.stdout.splitlines()
    assert place.startswith("exp_l2:p")
    assert " l2 " in place
    assert text.startswith("    passage ")


@pytest.mark.parametrize(
    ("typed", "given", "code", "said"),
    [
        ("similar --vector -", b"[1, 0]", 3, "bge_valid did not answer"),
        ("similar --vector - --model nonesuch", b"[1, 0]", 2, "nonesuch"),
        ("similar --vector -", b"[0, 0]", 2, "not zero"),
        ("similar --vector -", b"[1, 0", 2, "neither a JSON array"),
        ("similar --vector /nonesuch/file", b"", 2, "No such file"),
        ("similar --vector - --store exp_l", b"[1, 0]", 1, "exp_l2"),
    ],
)
def test_an_exit_code_says_how_it_went(books: Daemon, typed: str, given: bytes, code: int, said: str) -> None:
    ran = books.collate(*typed.split(), given=given)

    assert ran.returncode == code
    assert said in ran.stderr


def test_no_store_is_touched(books: Daemon, sources: Path) -> None:
    expected = {file.name: file.read_bytes() for name in STORES for file in sources.glob(f"{name}.*")}

    assert {file.name: file.read_bytes() for file in books.stores.iterdir()} == expected
