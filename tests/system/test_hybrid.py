"""Search by meaning with a real model, over real stores of three formats, through a daemon."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collated.embedding.local import load

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.system.conftest import Daemon, StartDaemon

MODELS = ("small", "openai:small")
CONFIG = "\n".join(f'[embedding."{model}"]\nlocal = "wordllama"' for model in MODELS)
QUESTION = "How do I get my money back?"  # none of whose words but `I` and `do` are in any answer
DOCUMENTS = {
    "refunds.md": "# Refunds\n\nA refund of the purchase is paid within ten days of its return.",
    "logs.md": "# Logs\n\nThe server writes each request into a journal on the disk.",
}
SOURCES = {
    "pay.py": '"""Refund of a purchase: the sum that was paid is returned to the customer."""\n',
    "disk.py": '"""Blocks of a file are written to the disk in the order of the journal."""\n',
}
PASSAGES = {
    "1": "The customer is paid the sum of a returned purchase, a refund.",
    "2": "Planets move around the sun in ellipses.",
}


def embed_all(model: str, texts: list[str]) -> list[list[float]]:
    small = load("wordllama")
    return [small.embed(text) for text in texts]


def write_book(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE passages (id TEXT PRIMARY KEY, body TEXT, vector TEXT)")
        for number, text in PASSAGES.items():
            (vector,) = embed_all("small", [text])
            db.execute("INSERT INTO passages VALUES (?, ?, ?)", (number, text, json.dumps(vector)))
        db.commit()
    manifest: dict[str, object] = {
        "version": "book-agent-explicit-v1",
        "model": "small",
        "dimensions": 256,
        "embedding_format": "json",
        "normalization": "l2",
        "metric": "dot",
        "sqlite_schema": {
            "table": "passages",
            "id": "id",
            "text": "body",
            "vector": "vector",
            "source_json": None,
            "source_columns": {},
        },
    }
    path.with_name(f"{path.stem}.manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.fixture(scope="module")
def library(make_store: MakeStore, make_code_store: MakeStore, start_shared_daemon: StartDaemon) -> Daemon:
    """A daemon that knows the model of three stores, and one store without vectors."""
    daemon = start_shared_daemon(CONFIG, is_launched=False)
    make_store(
        daemon.stores / "docs.sqlite", DOCUMENTS, min_chars=1, embed_model="openai:small", embed_fn=embed_all
    )
    make_code_store(daemon.stores / "code.sqlite", SOURCES, embed_model="small", embed_fn=embed_all)
    make_store(daemon.stores / "plain.sqlite", DOCUMENTS, min_chars=1)
    write_book(daemon.stores / "book.sqlite")
    daemon.start()
    for name in ("docs", "code", "book", "plain"):
        daemon.wait_state(name, "open")
    daemon.wait_for(
        lambda: daemon.ask("search", query="purchase", stores=["book"])["complete"], what="the book's index"
    )
    return daemon


def test_each_format_finds_the_text_that_means_what_is_asked(library: Daemon) -> None:
    answer = library.ask("search", query=QUESTION, mode="hybrid", limit=50, deadline_ms=30_000)
    first = {hit["store"]: hit["doc"] for hit in reversed(answer["hits"]) if hit["tier"] == "dense"}
    texts = {hit["ref"]: hit["snippet"] for hit in answer["hits"]}

    assert (answer["mode"], answer["hint"], answer["complete"]) == ("hybrid", None, True)
    assert first["docs"] == "refunds.md"
    assert first["code"] == "pay.py"
    assert "refund" in texts[next(ref for ref in texts if ref.startswith("book:"))]


def test_by_words_alone_it_finds_none_of_them(library: Daemon) -> None:
    assert library.found("money", ranking="contract") == []


def test_it_is_the_same_whenever_it_is_asked(library: Daemon) -> None:
    asked = {"query": "refund of a purchase", "mode": "hybrid", "deadline_ms": 30_000}
    answers = {json.dumps(library.ask("search", asked, limit=limit)["hits"][:4]) for limit in (4, 5, 11, 50)}
    assert len(answers) == 1
    assert {hit["store"] for hit in json.loads(answers.pop())} > {"docs", "plain"}


def test_the_command_asks_so_too(library: Daemon) -> None:
    ran = library.collate("search", QUESTION, "--mode", "hybrid", "--store", "docs", "--limit", "1")
    assert ran.returncode == 0
    assert "docs:refunds.md" in ran.stdout


def test_a_model_that_is_taken_out_of_the_configuration_is_named(library: Daemon) -> None:
    library.configure("")
    library.ask("reload")
    try:
        answer = library.ask("search", query="refund", mode="hybrid", stores=["docs"])
        assert (answer["mode"], answer["complete"]) == ("lexical", True)
        assert answer["hint"] == "the store's vectors are of model openai:small; [embedding] has no model"
    finally:
        library.configure(CONFIG)
        library.ask("reload")
    assert library.ask("search", query="refund", mode="hybrid", stores=["docs"])["mode"] == "hybrid"
