"""What of a statement is looked at before the engine parses it.

The engine's parser (2.0.1) tries alternatives again and again inside what turns out to be no SQL: each
parenthesis of a `WITH` within another multiplies its time and its memory by four, so that ten of them,
in a hundred characters, take gigabytes; within thousands of parentheses it takes seconds. A count of what
is open bounds both. It need not be exact: the process that parses has limits of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from collated_readers.contextful.refusals import refused

__all__ = ["MAX_NESTED_WITHS", "MAX_OPEN", "MAX_TEXT_BYTES", "check_text"]

MAX_TEXT_BYTES = 64 * 1024
MAX_OPEN = 128  # parentheses
MAX_NESTED_WITHS = 4  # parentheses that are open and hold a WITH, the statement counted

_TOKEN = re.compile(
    r"""
    [eE]'(?:[^'\\]|\\.|'')*'       # strings with escapes,
    | '(?:[^']|'')*'               # strings,
    | "(?:[^"]|"")*"               # quoted names,
    | --[^\r\n]*                   # and comments: none of these is looked at
    | (?P<comment> /\* )
    | (?P<tag> \$(?:[^\W\d]\w*)?\$ )
    | (?P<word> [()] | \w+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


def check_text(text: str) -> None:
    """Refuse a text that is no statement, or none that the engine should be given.

    Raises:
        RequestError: `StatementNotReadOnly`: empty, with a NUL, not Unicode, over `MAX_TEXT_BYTES`, or
            nested too deeply.
    """
    if not text.strip():
        raise refused("StatementNotReadOnly", "there is no statement")
    if "\0" in text:
        raise refused("StatementNotReadOnly", "a statement holds no NUL")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise refused("StatementNotReadOnly", "the statement is not Unicode") from error
    if size > MAX_TEXT_BYTES:
        raise refused("StatementNotReadOnly", f"a statement has at most {MAX_TEXT_BYTES} bytes, not {size}")
    _check_nesting(text)


def _check_nesting(text: str) -> None:
    """Refuse more open parentheses, or more of them that hold a WITH, than a statement has."""
    has_with, withs = [False], 0  # of the statement and each open parenthesis
    for word in _words(text):
        if word == "(":
            has_with.append(False)
        elif word == ")":
            withs -= has_with.pop() if len(has_with) > 1 else 0
        elif word.lower() == "with" and not has_with[-1]:
            has_with[-1], withs = True, withs + 1
        if len(has_with) > MAX_OPEN or withs > MAX_NESTED_WITHS:
            raise refused("StatementNotReadOnly", "the statement is nested too deeply")


def _words(text: str) -> Iterator[str]:
    """Yield the words and parentheses of *text* outside of quotes and comments, up to one that never ends."""
    at: int | None = 0
    while at is not None and (match := _TOKEN.search(text, at)):
        at = match.end()
        if match["comment"]:
            at = _after_comment(text, at)
        elif tag := match["tag"]:
            end = text.find(tag, at)
            at = end + len(tag) if end >= 0 else None
        elif word := match["word"]:
            yield word


def _after_comment(text: str, at: int) -> int | None:
    """Return where the comment that is open at *at* ends, None where it does not; comments nest."""
    depth = 1
    for match in _COMMENT.finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    return None
