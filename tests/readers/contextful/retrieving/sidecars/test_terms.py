"""What the tokenizers of sidecars make of text (layout §6)."""

from __future__ import annotations

import pytest

from collated_readers.contextful.retrieving.sidecars.terms import forms_of, terms_of


@pytest.mark.parametrize(
    ("text", "unicode", "cjk"),
    [
        ("grid-storage 2030", ["grid", "storage", "2030"], ["grid", "storage", "2030"]),
        ("東京駅", ["東京駅"], ["東京", "京駅"]),
        ("駅", ["駅"], ["駅"]),
        ("東京abcカナ", ["東京abcカナ"], ["東京", "abc", "カナ"]),
        ("한국어 x", ["한국어", "x"], ["한국", "국어", "x"]),
        ("éa東", ["éa東"], ["éa", "東"]),
        ("\U00020000\U00020001", ["\U00020000\U00020001"], ["\U00020000\U00020001"]),
    ],
)
def test_text_becomes_these_terms(text: str, unicode: list[str], cjk: list[str]) -> None:
    assert terms_of(text, "unicode") == unicode
    assert terms_of(text, "cjk") == cjk


@pytest.mark.rule("fulltext-probe")
def test_a_token_is_looked_for_in_its_plurals_or_as_a_phrase() -> None:
    assert forms_of("storage", "unicode") == [["storage", "storages", "storagees"]]
    assert forms_of("cat", "cjk") == [["cat"]]
    assert forms_of("東京駅", "cjk") == [["東京"], ["京駅"]]
    assert forms_of("東京駅", "unicode") == [["東京駅"]]
