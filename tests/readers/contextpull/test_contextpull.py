"""The contextpull reader against the reference's recorded answers (formats/contextpull.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collated_readers.opening import StoreConnection
from collated_readers.passes.words import words_of

OpenAt = Callable[..., StoreConnection]
Call = Callable[..., Any]

# Where the seed's letter and the reference differ (daemon/DESIGN.md), and what is right here.
HINTS = {
    "no searchable words in query": "no searchable words",
    "no embeddings in store; ran lexical": "no embeddings in store",
}
# Grep lowers section, line and pattern alike, with SQLite's ASCII-only lower():
# pattern -> the (id, number of the line in its section's text) that match.
GREPS: dict[str, list[tuple[str, int]]] = {
    "ÄPFEL": [("uni.md#1", 2), ("uni.md#2", 2)],
    "Äpfel": [("uni.md#1", 2), ("uni.md#2", 2)],
    "äpfel": [("uni.md#2", 3)],
    "İSTANBUL": [("uni.md#8", 2)],
    "ΣΊΣΥΦΟΣ": [("uni.md#9", 2)],
    "RÉSUMÉ": [],
}
VERBATIM = ["tables.md#5", "tables.md#6"]  # parts of a second table, with its header: no second one
CASED_PREFIXES = ["dir", "dir/", "d"]  # "starts with" tells `dir` from `Dir`


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("store", ["store-wal.sqlite", "store-rollback.sqlite"])
def test_the_conformance_cases_pass(shared: Path, open_at: OpenAt, call: Call, store: str) -> None:
    data = shared / "data" / "contextpull"
    db = open_at(data / store)
    cases = _load(data / "cases.json")["cases"]
    assert len(cases) == 23
    for case in cases:
        assert _projected(case["op"], call(db, case["op"], case["args"])) == case["expect"], case


def _projected(op: str, answer: Any) -> dict[str, Any]:
    if op == "index":
        return {"text_sha": _sha(answer)}
    if "error" in answer:
        return {"error": True}
    if op == "search":
        return {"ids": [h["id"] for h in answer["hits"]], "mode": answer["mode"], "empty": not answer["hits"]}
    if op == "read":
        return {
            "id": answer["id"],
            "text_sha": _sha(answer["text"]),
            "heading_path": answer["heading_path"],
            "context_ids": [record["id"] for record in answer["context"]],
            "prev": answer["prev_id"],
            "next": answer["next_id"],
        }
    if op == "grep":
        matches = answer["matches"]
        lines = [_sha(match["line"]) for match in matches]
        return {"ids": [m["id"] for m in matches], "lines_sha": lines, "truncated": answer["truncated"]}
    header = answer["header"]
    return {"ids": [record["id"] for record in answer["sections"]], "header": header and header["id"]}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_words_are_the_references(shared: Path) -> None:
    for case in _load(shared / "data" / "contextpull" / "extra" / "tokens.json"):
        assert words_of(case["query"]) == case["tokens"], case


def _expected_of(case: dict[str, Any], db: StoreConnection) -> Any:
    """The reference's recorded result, but where the seed's letter says otherwise."""
    expected: Any = case["result"] if "result" in case else case["error"]
    args = case["args"]
    if case["tool"] == "search" and "hint" in expected:
        return {**expected, "hint": HINTS.get(expected["hint"], expected["hint"])}
    if case["tool"] == "grep" and args["pattern"] in GREPS:
        found = [(expected_id, at) for expected_id, at in GREPS[args["pattern"]]]
        return {"matches": [_match(db, record_id, at) for record_id, at in found], "truncated": False}
    if case["tool"] == "read" and args["id"] in VERBATIM:
        return {**expected, "text": _section(db, args["id"])[3]}
    if case["tool"] == "index" and args.get("prefix") in CASED_PREFIXES:
        return _starting_with(expected, args["prefix"])
    return expected


def _match(db: StoreConnection, record_id: str, at: int) -> dict[str, str]:
    _, doc, heading_path, body = _section(db, record_id)
    return {"id": record_id, "doc": doc, "heading_path": heading_path, "line": body.splitlines()[at]}


def _section(db: StoreConnection, record_id: str) -> Any:
    sql = "SELECT id, path, heading_path, text FROM sections JOIN documents USING (doc_id) WHERE id = ?"
    return db.execute(sql, (record_id,)).fetchone()


def _starting_with(listing: str, prefix: str) -> str:
    lines = [line for line in listing.splitlines()[1:] if line.startswith(prefix)]
    counts = f"{len(lines)} documents · {len(lines)} sections"  # one section each, in this store
    return "\n".join([f"ContextPull index · {prefix} · {counts}", *lines])


def test_every_awkward_case_gives_the_references_whole_result_but_for_the_listed_differences(
    shared: Path, open_at: OpenAt, call: Call
) -> None:
    extra = shared / "data" / "contextpull" / "extra"
    db = open_at(extra / "extra.sqlite")
    differing: list[str] = []
    for case in _load(extra / "extra-cases.json")["cases"]:
        answer = call(db, case["tool"], case["args"])
        assert answer == _expected_of(case, db), case["args"]
        if answer != case.get("result", case.get("error")) and case["tool"] != "search":
            differing.append(next(iter(case["args"].values())))
    assert sorted(differing) == sorted([*GREPS, *VERBATIM, *CASED_PREFIXES])


def _vector_of(case: dict[str, Any], model: str, text: str) -> Sequence[float]:
    assert text == case["query"]
    vector: list[float] = case["query_vector"]
    return vector


def test_hybrid_answers_are_the_references(shared: Path, open_at: OpenAt, call: Call) -> None:
    extra = shared / "data" / "contextpull" / "extra"
    db = open_at(extra / "hybrid.sqlite")
    for case in _load(extra / "hybrid-cases.json")["cases"]:
        args = {"query": case["query"], "in": case["in"], "limit": case["limit"], "mode": "hybrid"}
        answer = call(db, "search", args, embed=partial(_vector_of, case))
        hint = case["result"]["hint"]
        assert answer == {**case["result"], "hint": HINTS.get(hint, hint)}, case["query"]
