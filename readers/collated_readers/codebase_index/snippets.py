"""Snippets: some twenty words around what was found, which is marked. FTS5 cannot cut them (T1). Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence

from collated_readers.contract import Phrase

__all__ = ["Shown", "shown_name", "shown_words", "snippet_of"]

Shown = re.Pattern[str] | None
"""What is looked for and marked: each group is a word of the query. None for nothing."""

_WORDS = 20
_WORDS_BEFORE = 5
_LONGEST = 400  # characters, for words without an end
_MOST_LOOKED_AT = 200  # places that may be the best
_NEAR = 160  # characters: some twenty words
_LONGEST_NAME = 200

_WORD = re.compile(r"\w+")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def shown_words(phrases: Sequence[Phrase]) -> Shown:
    """Return what shows any of *phrases*, one group for each."""
    each = [r"[\W_]+".join(re.escape(term.decode()) for term in phrase) for phrase in phrases if phrase]
    longest_first = sorted(dict.fromkeys(each), key=lambda word: (-len(word), word))
    any_of_them = "|".join(f"({word})" for word in longest_first)
    return _compiled(f"(?<![^\\W_])(?:{any_of_them})(?![^\\W_])" if longest_first else "")


def shown_name(key: str) -> Shown:
    """Return what shows names that have this *key*, however they are spelt."""
    letters = r"[_-]*".join(map(re.escape, _folded(key)))
    return _compiled(rf"(?<!\w)(_*{letters}_*)(?!\w)" if 0 < len(key) <= _LONGEST_NAME else "")


def _compiled(expression: str) -> Shown:
    return re.compile(expression, re.IGNORECASE) if expression else None


def snippet_of(body: str, shown: Shown, line: int = 0) -> str:
    """Return some of *body* around the place that shows most of *shown*, from its *line* (from 0) on."""
    folded = _folded(body)
    least = _start_of(body, line)
    found = _best(folded, shown, least)
    first = _first(body, least if found is None else found.start())
    last = _last(body, first)
    if found is not None:
        last = min(max(last, found.end()), first + _LONGEST)
    marks = [] if shown is None else [match.span() for match in shown.finditer(folded, first, last)]
    shown_text = " ".join(_marked(body, first, last, marks).split())
    before = "…" if body[:first].strip() else ""
    after = "…" if body[last:].strip() else ""
    return before + shown_text + after


def _start_of(body: str, line: int) -> int:
    return sum(map(len, body.splitlines(keepends=True)[:line])) if line > 0 else 0


def _best(folded: str, shown: Shown, least: int) -> re.Match[str] | None:
    """Return the place with most words of the query near it, the first of such places."""
    if shown is None:
        return None
    if shown.groups == 1:  # any place is as good as another
        return shown.search(folded, least) or shown.search(folded)
    found = [match for match, _ in zip(shown.finditer(folded, least), range(_MOST_LOOKED_AT), strict=False)]
    if not found:
        return None if least == 0 else _best(folded, shown, 0)
    return found[max(reversed(range(len(found))), key=_varieties(found).__getitem__)]


def _varieties(found: Sequence[re.Match[str]]) -> list[int]:
    """Return how many words of the query there are from each place on, near it."""
    starts = [match.start() for match in found]
    words = [match.lastindex for match in found]
    ends = (bisect_left(starts, start + _NEAR) for start in starts)
    return [len(set(words[first:end])) for first, end in enumerate(ends)]


def _first(body: str, at: int) -> int:
    """Return where a snippet of what is at *at* begins: its line, or a few words before."""
    begin = body.rfind("\n", 0, at) + 1
    words = [word.start() for word in _WORD.finditer(body, max(begin, at - _NEAR), at)]
    return words[-_WORDS_BEFORE] if len(words) > _WORDS_BEFORE else max(begin, at - _NEAR)


def _last(body: str, first: int) -> int:
    ends = [word.end() for word, _ in zip(_WORD.finditer(body, first), range(_WORDS + 1), strict=False)]
    last = ends[_WORDS - 1] if len(ends) > _WORDS else len(body)
    return min(last, first + _LONGEST)


def _marked(body: str, first: int, last: int, marks: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = first
    for start, end in marks:
        parts += [body[at:start], "**", body[start:end], "**"]
        at = end
    return "".join([*parts, body[at:last]])


def _folded(body: str) -> str:
    """Return *body* as the index folds letters, near enough to find them in it, each in its place."""
    return _BEYOND_ASCII.sub(lambda letter: unicodedata.normalize("NFD", letter[0])[0], body)
