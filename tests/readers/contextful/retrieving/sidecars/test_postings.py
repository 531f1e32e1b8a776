"""`postings.bin`: ranked as the formula ranks, and never trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.model import IndexEntry
from collated_readers.contextful.retrieving.matching import takes_plural
from collated_readers.contextful.retrieving.sidecars import Unusable
from collated_readers.contextful.retrieving.sidecars.postings import Postings
from collated_readers.contextful.retrieving.sidecars.terms import terms_of

Make = Callable[..., tuple[dict[str, Any], str, bytes]]
EntryOf = Callable[[Mapping[str, Any]], IndexEntry]

TEXTS = {
    "a1": "Storage lowers grid costs. Storage pays.",
    "a2": "Wind farms in the north sea.",
    "a3": "Batteries and storages in homes.",
    "none": "...",
    "é": "東京駅の蓄電池 storage",
}
WORDS = st.lists(st.sampled_from(["grid", "grids", "storage", "sea", "東京駅", "京駅", "駅東京"]), max_size=8)


def _open(
    fulltext: Make, entry_of: EntryOf, texts: Mapping[str, str], tokenizer: str = "unicode"
) -> Postings:
    entry, _, data = fulltext("body", texts, tokenizer=tokenizer)
    return Postings(data, entry_of(entry))


@pytest.mark.rule("fulltext-probe")
def test_documents_come_best_first(fulltext: Make, entry_of: EntryOf) -> None:
    index = _open(fulltext, entry_of, TEXTS)
    order = index.ranking(["storage"])
    assert index.ids(order.tolist()) == ["é", "a1", "a3"]
    assert index.ids(index.ranking(["wind", "zebra"]).tolist()) == ["a2"]
    assert index.ids(index.ranking(["zebra"]).tolist()) == index.ids(index.ranking([]).tolist()) == []


@pytest.mark.rule("fulltext-probe")
def test_a_token_that_the_tokenizer_splits_is_a_phrase(fulltext: Make, entry_of: EntryOf) -> None:
    texts = {"whole": "東京駅前", "apart": "東京 京駅", "parts": "京駅 東京"}
    index = _open(fulltext, entry_of, texts, "cjk")
    assert index.ids(index.ranking(["東京駅"]).tolist()) == ["apart", "whole"]
    assert index.ids(index.ranking(["駅前東"]).tolist()) == []


@given(
    documents=st.lists(WORDS, max_size=6),
    tokens=st.lists(st.sampled_from(["grid", "storage", "東京駅"]), unique=True),
)
@pytest.mark.parametrize("tokenizer", ["unicode", "cjk"])
def test_the_order_is_that_of_the_formula(
    fulltext: Make, entry_of: EntryOf, tokenizer: str, documents: list[list[str]], tokens: list[str]
) -> None:
    texts = {f"d{number}": " ".join(words) for number, words in enumerate(documents)}
    index = _open(fulltext, entry_of, texts, tokenizer)
    assert index.ids(index.ranking(tokens).tolist()) == _plain(texts, tokens, tokenizer)


def _plain(texts: Mapping[str, str], tokens: list[str], tokenizer: str) -> list[str]:
    documents = {name: found for name, text in texts.items() if (found := terms_of(text, tokenizer))}
    total = sum(map(len, documents.values()))
    scores: dict[str, float] = {}
    for token in tokens:
        tf = {name: _times(token, terms, tokenizer) for name, terms in documents.items()}
        holding = [name for name, times in tf.items() if times]
        idf = math.log(1 + (len(documents) - len(holding) + 0.5) / (len(holding) + 0.5))
        for name in holding:
            damping = 1.2 * (0.25 + 0.75 * len(documents[name]) / (total / len(documents)))
            scores[name] = scores.get(name, 0.0) + idf * tf[name] * 2.2 / (tf[name] + damping)
    return sorted(scores, key=lambda name: (-round(scores[name], 12), int(name[1:])))


def _times(token: str, terms: list[str], tokenizer: str) -> int:
    wanted = terms_of(token, tokenizer)
    if len(wanted) == 1:
        forms = [token, token + "s", token + "es"] if takes_plural(token) else [token]
        return sum(terms.count(form) for form in forms)
    return sum(1 for at in range(len(terms)) if terms[at : at + len(wanted)] == wanted)


@pytest.mark.slow
@pytest.mark.rule("sidecar-falls-back")
def test_whatever_byte_is_damaged_it_is_unusable_or_names_what_it_likes(
    fulltext: Make, entry_of: EntryOf
) -> None:
    entry, _, data = fulltext("body", TEXTS, tokenizer="cjk")
    for place in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF, data[place] ^ 0x10):
            damaged = bytearray(data)
            damaged[place] = value
            _use(bytes(damaged), entry_of(entry))


@pytest.mark.rule("sidecar-falls-back")
def test_a_file_that_ends_early_or_late_is_unusable(fulltext: Make, entry_of: EntryOf) -> None:
    entry, _, data = fulltext("body", TEXTS)
    for length in range(len(data)):
        with pytest.raises(Unusable):
            Postings(data[:length], entry_of(entry))
    with pytest.raises(Unusable):
        Postings(data + b"\0", entry_of(entry))


@given(st.binary(max_size=300))
def test_any_bytes_behind_a_good_header_are_survived(fulltext: Make, entry_of: EntryOf, tail: bytes) -> None:
    entry, _, data = fulltext("body", TEXTS)
    _use((data[:72] + tail + data[72 + len(tail) :])[: len(data)], entry_of(entry))


@pytest.mark.parametrize("other", [{"term_count": 1}, {"row_count": 1}])
def test_a_file_of_other_counts_than_its_manifest_is_unusable(
    fulltext: Make, entry_of: EntryOf, other: dict[str, int]
) -> None:
    entry, _, data = fulltext("body", TEXTS)
    with pytest.raises(Unusable):
        Postings(data, entry_of({**entry, **other}))


def _use(data: bytes, entry: IndexEntry) -> None:
    with suppress(Unusable):
        index = Postings(data, entry)
        for tokens in (["storage", "grid"], ["東京駅"], ["sea"]):
            with suppress(Unusable):
                names = index.ids(index.ranking(tokens).tolist())
                assert all(isinstance(name, str) for name in names)
