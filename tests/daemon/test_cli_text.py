"""Text on a terminal: nothing of a store's text acts on it, matches stand out, lines fit."""

import io
import os
import pty
import unicodedata
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.cli.line import Line, Span, line, marked, plain, table, verbatim
from collated.cli.paper import show
from collated.cli.progress import ProgressLine, told
from collated.escape import visible, visible_text
from collated.protocol import Failure, Partial

# What a document could hold to repaint the screen, set the title, ring, hide text or turn it around.
HOSTILE = [
    "\x1b[2J\x1b[H",
    "\x1b]0;owned\x07",
    "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "\x9b31m",
    "\x07\x08\x7f\x00",
    "\rback to the start",
    "\u202egnirts\u202c",
    "\u2066isolated\u2069",
    "\u200e\u200f\u061c",
    "\u2028\u2029\x85\x0b\x0c",
]
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class Screen(io.StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(lines: Iterable[Line], width: int = 80, **environ: str) -> str:
    """Return what a terminal of *width* columns is sent."""
    screen = Screen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", environ.get("TERM", "xterm"))
        patch.delenv("NO_COLOR", raising=False)
        show(lines, screen, {"TERM": "xterm", **environ})
    return screen.getvalue()


def is_harmless(text: str) -> bool:
    return all(unicodedata.category(c) not in ("Cc", "Zl", "Zp") and c not in BIDI for c in text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_does_nothing(text: str) -> None:
    assert is_harmless(visible(text))
    assert is_harmless(visible_text(text))
    shown = on_terminal(
        [line(visible(text)), marked(visible(f"**{text}**"), 4), *verbatim(visible_text(text))]
    )
    for sequence in ("\x1b[1m", "\x1b[0m", "\n"):  # our own bold
        shown = shown.replace(sequence, "")
    assert is_harmless(shown)


def test_escapes_say_what_was_there() -> None:
    assert visible("a\x1b[31mb\tc\nd\re\x85\u202ef") == "a\\x1b[31mb\\tc\\nd\\re\\x85\\u202ef"
    assert visible_text("a\tb\nc\rd\x1b") == "a\tb\nc\\rd\\x1b"


@given(st.text())
def test_any_text_becomes_harmless_and_plain_text_stays_as_it_is(text: str) -> None:
    assert is_harmless(visible(text))
    assert is_harmless(visible_text(text).replace("\n", "").replace("\t", ""))
    if is_harmless(text):
        assert visible(text) == visible_text(text) == text


@pytest.mark.parametrize(
    ("snippet", "spans"),
    [
        ("the **refund** window", [("the ", ""), ("refund", "match"), (" window", "")]),
        ("**refund**", [("refund", "match")]),
        ("**a** and **b**", [("a", "match"), (" and ", ""), ("b", "match")]),
        ("no match", [("no match", "")]),
        ("2 ** 3 is never closed", [("2 ** 3 is never closed", "")]),
        ("**a** then 2 ** 3", [("a", "match"), (" then 2 ** 3", "")]),
        ("", []),
    ],
)
def test_marks_of_a_snippet_become_matches(snippet: str, spans: list[tuple[str, str]]) -> None:
    assert [tuple(span) for span in marked(snippet, 4).spans] == spans


@given(st.text(alphabet="a* "))
def test_marking_loses_no_text(snippet: str) -> None:
    def without(text: str) -> str:
        return text.replace("*", "").rstrip()

    assert without(plain(marked(snippet, 0))) == without(snippet)


def test_programs_get_plain_text_with_the_marks_and_no_line_is_cut() -> None:
    stream = io.StringIO()
    show(
        [line(Span("docs:", "store"), Span("a.md#0", "place")), marked("the **match** " + "x" * 300, 4)],
        stream,
        {},
    )
    assert stream.getvalue() == f"docs:a.md#0\n    the **match** {'x' * 300}\n"


def test_a_match_is_bold_on_a_terminal_and_keeps_its_marks_where_colour_is_not_wanted() -> None:
    lines = [marked("the **match**", 4)]
    assert on_terminal(lines) == "    the \x1b[1mmatch\x1b[0m\n"
    assert on_terminal(lines, NO_COLOR="1") == "    the **match**\n"
    assert on_terminal(lines, TERM="dumb") == "    the **match**\n"


@pytest.mark.parametrize("width", [20, 33, 80])
def test_lines_fit_the_terminal_and_keep_their_indent(width: int) -> None:
    shown = on_terminal(
        [marked("words of **many** lengths and 漢字 too " * 5, 4), line("a", "b" * 90, hang=2)], width
    )
    rows = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    wide = [sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in row) for row in rows]
    assert max(wide) <= width
    assert all(row.startswith("    ") for row in rows if "words" in row or "lengths" in row)
    assert rows[-1].startswith("  b")


def test_a_records_text_is_never_broken_between_words() -> None:
    text = "def main():\n    return 'a b c d e f g h i j k l m n o p q r s t u v w x y z'"
    assert on_terminal(verbatim(text), 20) == f"{text}\n"


def test_a_very_narrow_terminal_still_shows_everything() -> None:
    assert "".join(on_terminal([line("abcdefghijklmnop", indent=4)], 1).split()) == "abcdefghijklmnop"


def test_columns_are_aligned() -> None:
    rows = [[Span("a", "store"), Span("open"), Span("/x")], [Span("long", "store"), Span("busy"), Span("/y")]]
    assert [plain(row) for row in table(rows)] == ["a     open  /x", "long  busy  /y"]
    assert list(table([])) == []


def test_a_real_terminal_is_recognised() -> None:
    leader, follower = pty.openpty()
    try:
        with os.fdopen(follower, "w") as terminal:
            show([marked("a **b**", 0)], terminal, {"TERM": "xterm"})
        assert b"**" not in os.read(leader, 1_000)
    finally:
        os.close(leader)


# --------------------------------------------------------------------------- progress


def test_the_progress_line_says_how_far_the_answer_is() -> None:
    failure = Failure("a", "locked", "it is locked")
    assert told(Partial(50, 12, [], []), 1.4) == "asked 50 stores, 12 answered, 1 s"
    assert told(Partial(50, 12, [], [failure]), 2.0) == "asked 50 stores, 12 answered, 1 failed, 2 s"
    assert told(None, 3.2) == "waiting for the daemon, 3 s"


def test_the_progress_line_comes_late_and_is_wiped() -> None:
    screen = Screen()
    progress = ProgressLine(screen)
    progress(None)
    progress.wipe()
    assert screen.getvalue() == ""
    patient = ProgressLine(screen, patience_s=0.0)
    patient(Partial(2, 1, [], []))
    patient.wipe()
    patient.wipe()
    assert screen.getvalue() == "\r\x1b[Kasked 2 stores, 1 answered, 0 s\r\x1b[K"
