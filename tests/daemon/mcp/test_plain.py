"""Nothing that a terminal would obey is left of a store's text."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from collated.mcp.plain import escaped, plain

IsPlain = Callable[[str], bool]

TEXT = st.text() | st.text(st.sampled_from("a\n\t\x1b\x7f\x85\u061c\u200e\u202e\u2028\u2069\ud800é日"))


@given(TEXT)
def test_a_plain_line_has_no_control_character_and_lacks_nothing_else(is_plain: IsPlain, text: str) -> None:
    assert is_plain(plain(text))
    assert plain(text) == "".join(filter(is_plain, text.replace("\t", " ")))


@given(TEXT)
def test_escaped_json_means_the_same(is_plain: IsPlain, text: str) -> None:
    document = escaped(json.dumps([text], ensure_ascii=False))

    assert is_plain(document)
    assert json.loads(document) == [text]
