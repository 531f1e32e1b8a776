"""What a query asks for: the table of retrieve.md §2, and a plain model of its rules."""

from __future__ import annotations

import unicodedata

import pytest
import regex  # type: ignore[import-untyped]  # its stubs are a package of their own
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.retrieving.tokens import (
    MOST_TOKENS,
    STOP_TOKENS,
    content_tokens,
    length_of,
    runs_of,
)


@pytest.mark.rule("content-tokens", "token-length-floor", "token-cap")
@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("How do the solar-battery's COSTS fall in 2030?", ["solar", "battery", "costs", "fall", "2030"]),
        ("AI", ["ai"]),
        ("x", []),
        ("the of and", []),
        ("a b c", []),
        ("", []),
        ("東京駅の蓄電池 と battery", ["東京駅の蓄電池", "battery"]),
        ("foo_bar foo-bar foo bar", ["foo", "bar"]),
        ("é ée", ["ée"]),
        ("สวัสดี हिन्दी", ["สวัสดี", "हिन", "दी"]),
    ],
)
def test_a_query_is_cut_into_content_tokens(query: str, tokens: list[str]) -> None:
    assert list(content_tokens(query)) == tokens


@pytest.mark.rule("token-cap")
def test_the_thirteenth_token_is_not_looked_at() -> None:
    words = [f"w{number}" for number in range(13)]
    assert list(content_tokens(" ".join(["w0", *words, "the"]))) == words[:MOST_TOKENS]


def test_the_stop_tokens_are_a_closed_list() -> None:
    assert len(STOP_TOKENS) == 44
    assert {"a", "which", "with", "i", "had"} < STOP_TOKENS
    assert all(token.isascii() and token.islower() for token in STOP_TOKENS)


@given(st.text(st.characters() | st.sampled_from("aZ09 _-'—éßİſΣς東ั्"), max_size=60))
def test_tokens_are_those_of_a_plain_walk_over_the_characters(query: str) -> None:
    runs = _walked(query.lower())
    kept: list[str] = []
    for run in runs:
        is_word = len(run) >= 2 and not (run.isascii() and run in STOP_TOKENS)
        if is_word and run not in kept:
            kept.append(run)
    assert list(content_tokens(query)) == kept[:12]
    assert runs_of(query.lower()) == runs
    assert length_of(query.lower()) == len(runs)


def _walked(text: str) -> list[str]:
    runs = [""]
    for character in text:
        # Python may know fewer letters and numbers than `regex` does.
        if unicodedata.category(character)[0] in "LN" or regex.fullmatch(r"[\p{Alphabetic}\p{N}]", character):
            runs[-1] += character
        elif runs[-1]:
            runs.append("")
    return [run for run in runs if run]
