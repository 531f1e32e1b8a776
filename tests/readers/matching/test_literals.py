"""What a regular expression needs is in every line that it is found in."""

from __future__ import annotations

import sys

import pytest
import regex  # type: ignore[import-untyped]  # its stubs are a package of their own
from hypothesis import example, given, settings
from hypothesis import strategies as st

from collated_readers.matching.literals import fold, required_literals

SECONDS = 0.2

# Letters with many cases, which `regex` folds beyond ASCII, and the characters of its own language.
CASES = {"s": "sSſ", "k": "kK\u212a", "i": "iIİı", "a": "aA", "e": "eE", "é": "éÉ", "ß": "ß", "_": "_"}
letters = st.sampled_from([*CASES, *"skiae"])


def _varied(text: str) -> st.SearchStrategy[str]:
    """Return *text* in any mixture of cases."""
    return st.tuples(*(st.sampled_from(CASES.get(letter, letter)) for letter in text)).map("".join)


# A pattern together with lines that it is found in, both made of the same parts.
Made = st.SearchStrategy[tuple[str, str]]


def _run(text: str) -> Made:
    return st.tuples(_varied(text), _varied(text))


runs: Made = st.text(letters, min_size=1, max_size=6).flatmap(_run)
others: Made = st.sampled_from(
    [
        *((r"\.", "."), (".", "x"), (r"\w", "k"), (r"\d+", "42"), (r"\s", " "), ("[ske]", "S"), (r"\(", "(")),
        *(
            ("[^x]", "é"),
            (r"[\]x]", "]"),
            (r"\b", ""),
            ("(?=s)?", ""),
            ("(?!x{9})", ""),
            ("^?", ""),
            ("$*", ""),
        ),
        *((r"\_", "_"), ("-", "-"), (" ", " "), ("#", "#"), ("(?<!xyz)", ""), ("", "")),
    ]
)


def _repeated(made: tuple[str, str]) -> Made:
    pattern, line = made
    return st.sampled_from(
        [
            *((f"(?:{pattern})+", line * 2), (f"({pattern})*?", ""), (f"(?P<n>{pattern})?", line)),
            *((f"(?:{pattern}){{2}}", line * 2), (f"({pattern}){{1,}}?", line), (f"({pattern}){{0,2}}", "")),
            *((f"(?>{pattern})", line), (f"(?={pattern}){pattern}", line), (f"({pattern}){{,2}}", line)),
            *((f"({pattern}|x)", line), (f"(x||{pattern})", "x"), (f"(?:{pattern})++", line)),
        ]
    )


def _joined(parts: list[tuple[str, str]]) -> tuple[str, str]:
    return "".join(pattern for pattern, _ in parts), "".join(line for _, line in parts)


nested: Made = st.recursive(
    runs | runs | others, lambda inner: inner.flatmap(_repeated) | st.lists(inner, max_size=4).map(_joined)
)
made: Made = st.lists(nested, min_size=1, max_size=4).map(_joined)


def _check(pattern: str, line: str) -> bool:
    """Return whether *pattern* is found in *line*, which then holds all that it needs."""
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
        is_found = compiled.search(line, timeout=SECONDS) is not None
    except (regex.error, TimeoutError):
        return False
    if is_found:
        for literal in required_literals(pattern):
            assert literal in fold(line), (pattern, line)
    return is_found


@given(made=made, before=st.text(letters, max_size=2), after=st.text(letters, max_size=2))
@settings(max_examples=4 * settings().max_examples, database=None, derandomize=True)
@example(made=("((?:ab)+c)+d", "ababcabcd"), before="", after="")
def test_a_line_holds_all_that_the_pattern_needs(made: tuple[str, str], before: str, after: str) -> None:
    pattern, line = made
    _check(pattern, before + line + after)
    _check(pattern, line)


LANGUAGE = "abSki[]{}()|?*+\\^$.,12<>=!:-&~#PLpNxn'\n "


@given(
    pattern=st.text(st.sampled_from(LANGUAGE), max_size=14)
    | st.text(st.sampled_from("ab[]^\\{}(?e1,|:"), max_size=12),
    line=st.text(st.sampled_from(LANGUAGE.replace("\n", "")), max_size=14),
)
@settings(max_examples=4 * settings().max_examples, database=None, derandomize=True)
@example(pattern="[[:alpha:]]abc", line="xabc")
@example(pattern="[^]abc]def", line="xdef")
@example(pattern="(?:abcdef){e<=2}", line="abcd")
@example(pattern="abc{e}", line="ab")
@example(pattern=r"\Labc", line="abc")
@example(pattern="(?x)a b c", line="abc")
@example(pattern="(?x:a b c)", line="abc")
@example(pattern="(?r)abc", line="abc")
@example(pattern="(?fi)ss", line="ß")
@example(pattern="(?#abc)x", line="x")
@example(pattern="(?|abc|x)", line="x")
@example(pattern="(?(1)abc|x)", line="x")
@example(pattern="(?V1)[[a]--b]abc", line="aabc")
@example(pattern=r"\x41bc\u0041", line="abca")
@example(pattern=r"\Qabc\E", line="abc")
def test_a_pattern_of_any_characters_needs_nothing_that_is_not_there(pattern: str, line: str) -> None:
    # What the pattern itself says, without its language, is most likely to be found.
    for each in (line, pattern, "".join(letter for letter in pattern if letter.isalnum()), line + pattern):
        for part in each.splitlines():
            _check(pattern, part)


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("timeout", (b"timeout",)),
        (r"def \w+_Init\(", (b"def ", b"_init(")),
        ("(?i)TX-\\d{4}", (b"tx-",)),
        ("(retry|backoff)_limit", (b"_limit",)),
        (r"^\s*class (\w+)(\(.*\))?:$", (b"class ",)),
        ("(abc)+d", (b"abcd",)),
        ("colou?red", (b"colo", b"red")),
        ("café-menu", (b"caf", b"-menu")),
        ("abc.*abc", (b"abc",)),
        (r"a\.b\.c", (b"a.b.c",)),
        ("[[]abcdef", ()),
        ("ab|cdefg", ()),
        ("a.b.c", ()),
        ("(abc", ()),
        ("abc)", ()),
        ("*abc", ()),
        ("abc**", ()),
        ("", ()),
        ("(" * 30 + "abc" + ")" * 30, ()),
        ("(" * 18 + "abc" + ")+" * 18, (b"abc",)),
    ],
)
def test_what_is_sure_to_be_there(pattern: str, literals: tuple[bytes, ...]) -> None:
    assert required_literals(pattern) == literals


def test_letters_that_regex_takes_for_ascii_ones_are_folded_alike() -> None:
    """Tried on every code point, so a new version of `regex` or of Unicode cannot go unnoticed."""
    beyond = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, sys.maxunicode + 1)]))
    for letter in map(chr, range(0x80)):
        found = set(
            regex.compile(regex.escape(letter, literal_spaces=False), regex.IGNORECASE).findall(beyond)
        )
        for other in found | {letter.upper(), letter.lower()}:
            assert fold(other) == fold(letter), (letter, other)
    assert {fold(letter) for letter in "İıſ\u212a"} == {b"i", b"s", b"k"}


@given(line=st.text(st.sampled_from("aAkK\u212aſİıiéÉß😀\x80"), max_size=12), data=st.data())
def test_what_a_literal_grep_finds_is_in_the_fold(line: str, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(line)))
    part = line[first : data.draw(st.integers(first, len(line)))]
    pattern = "".join(data.draw(st.sampled_from((c.upper(), c.lower()))) if c.isascii() else c for c in part)
    assert pattern.encode().lower() in line.encode().lower()
    assert fold(pattern) in fold(line)
