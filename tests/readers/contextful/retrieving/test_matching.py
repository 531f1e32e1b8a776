"""One token in one text: retrieve.md §3, and a plain scan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.retrieving.matching import counter, counts_of, takes_plural, together


@pytest.mark.rule("script-split-matching", "plural-suffix-floor")
@pytest.mark.parametrize(
    ("token", "text", "times"),
    [
        ("grid", "grids", 1),
        ("grid", "the grid, grids and gridlock", 2),
        ("orders", "order", 0),
        ("battery", "batteries", 0),
        ("batch", "batches", 1),
        ("price", "priced", 0),
        ("cat", "cats", 0),
        ("cat", "cat cat", 2),
        ("cat", "東cat京", 1),
        ("cat", "_cat_", 1),
        ("cat", "cat2", 0),
        ("東京", "大東京駅、東京", 2),
        ("ée", "fiancée", 1),
        ("glass", "glass glasss glasses", 3),
    ],
)
def test_a_token_stands_in_a_text_so_often(token: str, text: str, times: int) -> None:
    assert counter(token)(text) == times


LETTERS = st.sampled_from("abes1 _é東")


@given(st.text(st.sampled_from("abes1"), min_size=2, max_size=5), st.text(LETTERS, max_size=30))
def test_ascii_tokens_are_found_as_a_plain_scan_finds_them(token: str, text: str) -> None:
    assert counter(token)(text) == _scanned(token, text)


@given(st.text(st.sampled_from("aé東"), min_size=2, max_size=3), st.text(LETTERS, max_size=30))
def test_other_tokens_are_contained(token: str, text: str) -> None:
    token += "é"
    assert counter(token)(text) == text.count(token)


def test_counts_are_in_the_order_of_the_tokens() -> None:
    assert counts_of([counter("one"), counter("two")], "two one two") == [1, 2]


def test_only_ascii_tokens_of_four_characters_take_a_plural() -> None:
    assert [takes_plural(token) for token in ("cat", "cats", "東京駅前", "ab12")] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("tokens", "text", "stand"),
    [
        (["battery", "storage"], "solar battery storage", True),
        (["battery", "storage"], "storage battery", False),
        (["battery", "storage"], "battery for the storage", True),
        (["battery", "storage"], "battery — storages", True),
        (["battery", "storage"], "battery cell storage", False),
        (["battery", "storage"], "battery storaged", False),
        (["東京", "battery"], "東京 battery", True),
        (["東京", "battery"], "東京 と x battery", True),
        (["東京", "battery"], "東京 とと battery", False),
        (["battery", "storage", "costs"], "battery storage of the costs", True),
        (["battery", "storage", "costs"], "battery storage; storage costs", False),
        (["one"], "no one", True),
    ],
)
def test_tokens_stand_together_over_what_is_no_content_token(
    tokens: list[str], text: str, stand: bool
) -> None:
    assert together(tokens)(text) is stand


def _scanned(token: str, text: str) -> int:
    ends = ["", "s", "es"] if len(token) >= 4 else [""]
    times, at = 0, 0
    while (at := text.find(token, at)) >= 0:
        is_free = at == 0 or not _is_ascii_word(text[at - 1])
        rests = [
            end
            for end in ends
            if text.startswith(end, at + len(token)) and not _is_ascii_word(text[at + len(token + end) :][:1])
        ]
        if is_free and rests:
            times += 1
            at += len(token) + len(rests[0])
        else:
            at += 1
    return times


def _is_ascii_word(character: str) -> bool:
    return character.isascii() and character.isalnum()
