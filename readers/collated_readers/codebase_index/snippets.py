"""Snippets: some twenty words around what was found, which is marked. FTS5 cannot cut them (T1). Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain, islice

from msgspec import Struct

from collated_readers.contract import Phrase

__all__ = ["Shown", "Sought", "shown_name", "shown_words", "snippet_of"]


class Sought(Struct, frozen=True):
    """What is looked for and marked: each group of *pattern* is a word of the query.

    In small letters every match is a word that begins with one of *beginnings*; without any it may begin
    anyhow.
    """

    pattern: re.Pattern[str]
    beginnings: tuple[str, ...] = ()

    def within(self, folded: str, least: int) -> Iterator[re.Match[str]]:
        """Yield the places of *folded* from *least* on, as the pattern finds them, and some times faster."""
        lowered = folded.lower().replace("ſ", "s").replace("ı", "i")  # to `re` they are the same letters
        if not self.beginnings or len(lowered) != len(folded):
            yield from self.pattern.finditer(folded, least)
            return
        for start in merge(*(_places(lowered, beginning, least) for beginning in self.beginnings)):
            if start >= least and (match := self.pattern.match(folded, start)):
                yield match
                least = match.end()


def _places(lowered: str, beginning: str, least: int) -> Iterator[int]:
    place = lowered.find(beginning, least)
    while place >= 0:
        if not lowered[place - 1 : place].isalnum():
            yield place
        place = lowered.find(beginning, place + 1)


Shown = Sought | None
"""What a snippet shows; None for nothing in particular."""

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
    beginnings = {phrase[0].decode().lower() for phrase in phrases if phrase}
    is_ascii = all(map(str.isascii, beginnings))
    return _sought(
        f"(?<![^\\W_])(?:{any_of_them})(?![^\\W_])" if longest_first else "",
        tuple(sorted(beginnings)) if is_ascii else (),
    )


def shown_name(key: str) -> Shown:
    """Return what shows names that have this *key*, however they are spelt."""
    letters = r"[_-]*".join(map(re.escape, _folded(key)))
    return _sought(rf"(?<!\w)(_*{letters}_*)(?!\w)" if 0 < len(key) <= _LONGEST_NAME else "")


def _sought(expression: str, beginnings: tuple[str, ...] = ()) -> Shown:
    return Sought(re.compile(expression, re.IGNORECASE), beginnings) if expression else None


def snippet_of(body: str, shown: Shown, line: int = 0) -> str:
    """Return some of *body* around the place that shows most of *shown*, from its *line* (from 0) on."""
    folded = _folded(body)
    least = _start_of(body, line)
    found = _best(folded, shown, least)
    first = _first(body, least if found is None else found.start())
    last = _last(body, first)
    if found is not None:
        last = min(max(last, found.end()), first + _LONGEST)
    marks = [] if shown is None else [match.span() for match in shown.pattern.finditer(folded, first, last)]
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
    if shown.pattern.groups == 1:  # any place is as good as another
        return next(chain(shown.within(folded, least), shown.within(folded, 0)), None)
    found = list(islice(shown.within(folded, least), _MOST_LOOKED_AT))
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
    if body.isascii():
        return body
    return _BEYOND_ASCII.sub(lambda letter: unicodedata.normalize("NFD", letter[0])[0], body)
