"""All segments as one: which store is where, and the best records of a query over those addressed."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from collated.merge import Order, contract_key, global_key, path_key
from collated_readers import TIERS, Ranked, Reader, Tier
from collated_readers.contract import Phrase

from .matching import Mask, Matching, Scored, Statistics
from .segment import Segment, numbers

__all__ = ["FEW_WORDS", "Addressed", "Corpus", "Part", "Question", "best", "lists", "summed"]


_Keyed = tuple[tuple[int, float, str, str], tuple[str, Ranked]]
"""A store's record with the key that orders it."""

FEW_WORDS = 256
"""So many words are looked up on the event loop."""


class Question(Struct, frozen=True):
    """A query as a format's terms. `loose` are the words of the tier `any`, which may be fewer.

    `name` is what the tier `symbol` looks for, nothing in a format without one.
    """

    phrases: tuple[Phrase, ...]
    loose: tuple[Phrase, ...]
    tiers: tuple[Tier, ...]
    limit: int
    name: Phrase = ()

    @property
    def sought(self) -> tuple[Phrase, ...]:
        """Return all that is looked for: a store with none of it cannot match."""
        return (*self.phrases, self.name) if self.name else self.phrases

    def words(self, tier: Tier) -> tuple[Phrase, ...]:
        """Return the words that *tier* looks for."""
        if tier == "symbol":
            return (self.name,)
        return self.loose if tier == "any" else self.phrases


class Addressed(Struct, eq=False):
    """A segment in one request: the store in each slot, and which slots and rows count (see `Matching`).

    `by_name` and `by_path` are the stores' places in the order of `NAME` and of `NAME/`, -1 for none.
    """

    segment: Segment
    names: Sequence[str | None]
    by_name: NDArray[np.int64]
    by_path: NDArray[np.int64]
    slots: Mask = None
    rows: Mask = None

    @property
    def format(self) -> str:
        """Return the format of the stores in this segment."""
        return self.segment.format

    def matching(self) -> Matching:
        """Return a query over this segment."""
        return Matching(self.segment, self.slots, self.rows)

    def among(self, names: Collection[str]) -> "Addressed | None":
        """Return this segment without the stores that are not among *names*; None if nothing is left."""
        slots = np.fromiter((name in names for name in self.names), np.bool_, len(self.names))
        return replace(self, slots=slots) if slots.any() else None

    def showing(self, names: Collection[str]) -> "Addressed":
        """Return this segment with hits in *names* only; the other stores count all the same."""
        shown = np.fromiter((name in names for name in self.names), np.bool_, len(self.names))
        rows = np.repeat(shown, np.diff(self.segment.row_starts))
        return replace(self, rows=rows if self.rows is None else rows & self.rows)

    def within(self, entries: tuple[str, ...], matches: Callable[[str], bool]) -> "Addressed":
        """Return this segment with hits in the documents only whose path *matches*, as *entries* say."""
        rows = self.segment.rows_within(entries, matches)
        return replace(self, rows=rows if self.rows is None else rows & self.rows)

    def shown(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return those of *rows* that can be hits."""
        if self.rows is not None:
            rows = rows[self.rows[rows]]
        return rows if self.slots is None else rows[self.slots[self.segment.slots_of(rows)]]

    def ranked(self, row: int, score: float, tier: Tier) -> tuple[str, Ranked]:
        """Return a row as its store and record."""
        slot = int(np.searchsorted(self.segment.row_starts, row, "right")) - 1
        locator = int(self.segment.arrays["locators"][row])
        return self.names[slot] or "", Ranked(self.segment.id(row), tier, -score, locator)


class Part(Struct, eq=False):
    """One format of a search: its question, and the segments of its stores with the question over each."""

    reader: Reader
    question: Question
    sections: list[Addressed]
    matchings: list[Matching]

    @property
    def cost(self) -> int:
        """Return how many postings the question may have to look at; very many where counting takes long."""
        if len(self.question.sought) > FEW_WORDS:
            return 1 << 40
        return sum(matching.cost(self.question.sought) for matching in self.matchings)

    def add(self, sections: Sequence[Addressed]) -> None:
        """Look at *sections* too."""
        self.sections += sections
        self.matchings += [section.matching() for section in sections]


class Corpus:
    """The segments as the catalog of one moment has them; never changed."""

    def __init__(self, segments: Iterable[Segment], names: Mapping[str, str]) -> None:
        """Take the stores' *names* by fingerprint. A store that is in two segments counts in the first."""
        left = dict(names)
        by_name = {name: place for place, name in enumerate(sorted(left.values()))}
        # As in one store that holds all, with paths STORE/PATH: `a-b/` comes before `a/`.
        by_path = {name: place for place, name in enumerate(sorted(by_name, key=path_key))}
        self.sections: list[Addressed] = []
        self.names: set[str] = set()
        for segment in segments:
            here = [left.pop(piece.fingerprint, None) for piece in segment.pieces]
            if any(here):
                named, pathed = (
                    np.array([order.get(name or "", -1) for name in here]) for order in (by_name, by_path)
                )
                slots = None if all(here) else named >= 0
                self.sections.append(Addressed(segment, here, named, pathed, slots))
                self.names.update(name for name in here if name)

    def addressed(self, names: Collection[str]) -> list[Addressed]:
        """Return the segments of the stores in *names*."""
        if self.names <= set(names):
            return self.sections
        return [found for section in self.sections if (found := section.among(names))]


def summed(parts: Iterable[tuple[Sequence[Matching], Question]]) -> Statistics:
    """Return a question's statistics over all stores; where formats differ, equal terms are one word."""
    frequencies: Counter[Phrase] = Counter()
    rows = tokens = 0
    for matchings, question in parts:
        joined = tuple(term for phrase in question.phrases for term in phrase)
        wanted = {phrase for phrase in (*question.phrases, *question.loose, joined) if phrase}
        for matching in matchings:
            more_rows, more_tokens = matching.totals()
            rows, tokens = rows + more_rows, tokens + more_tokens
            frequencies.update({phrase: matching.found(phrase).count for phrase in wanted})
    return Statistics(dict(frequencies), rows, tokens / max(1, rows))


def best(
    sections: Sequence[Addressed], matchings: Sequence[Matching], question: Question, order: Order
) -> list[tuple[str, Ranked]]:
    """Return the best records, a record in its best tier only, as `merge` orders them.

    A tier is looked at when the better ones do not fill the limit.
    """
    found: list[tuple[str, Ranked]] = []
    seen = [_Seen(section.segment.size) for section in sections]
    for tier in question.tiers:
        wanted = question.limit - len(found)
        if wanted <= 0:
            break
        is_last = tier == question.tiers[-1]
        words = question.words(tier)
        tops: list[Scored] = []
        for rows, matching in zip(seen, matchings, strict=True):
            least = _edge(_scores(tops), wanted)
            # As many as the limit, since some of them may be of better tiers.
            scored = matching.best(tier, words, question.limit, least)
            tops.append(_top(rows.new(scored, is_last=is_last), wanted))
        here = _in_order(sections, tops, tier, wanted, order)
        found += [each for _, each in here[:wanted]]
    return found


class _Seen:
    """The rows of a segment that a better tier has."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: NDArray[np.bool_] | None = None

    def new(self, scored: Scored, *, is_last: bool) -> Scored:
        """Return *scored* without the rows that were here before, and remember it unless it *is last*."""
        if self._rows is not None:
            kept = ~self._rows[scored.rows]
            scored = Scored(scored.rows[kept], scored.scores[kept])
        elif len(scored.rows) and not is_last:
            self._rows = np.zeros(self._size, np.bool_)
        if self._rows is not None and not is_last:
            self._rows[scored.rows] = True
        return scored


def _top(scored: Scored, wanted: int) -> Scored:
    """Return the best *wanted* rows, with all that tie with the last of them."""
    return _from(scored, _edge(scored.scores, wanted))


def _scores(tops: Sequence[Scored]) -> NDArray[np.float64]:
    return np.concatenate([np.empty(0), *(top.scores for top in tops)])


def _edge(scores: NDArray[np.float64], wanted: int) -> float:
    return float(np.partition(scores, -wanted)[-wanted]) if len(scores) > wanted else 0.0


def _from(scored: Scored, edge: float) -> Scored:
    if not edge:
        return scored
    kept = scored.scores >= edge
    return Scored(scored.rows[kept], scored.scores[kept])


def _in_order(
    sections: Sequence[Addressed], tops: Sequence[Scored], tier: Tier, wanted: int, order: Order
) -> list[_Keyed]:
    """Return the best *wanted* and more of all segments' rows, in order."""
    edge = _edge(_scores(tops), wanted) if len(tops) > 1 else 0.0  # one alone is cut already
    keyed: list[_Keyed] = []
    for section, top in zip(sections, tops, strict=True):
        keyed += _candidates(section, _from(top, edge), tier, wanted, order)
    return sorted(keyed, key=lambda each: each[0])


def _candidates(section: Addressed, scored: Scored, tier: Tier, wanted: int, order: Order) -> list[_Keyed]:
    """Return the best *wanted* of a segment's rows with the keys that order them among those of others."""
    segment, rows, scores = section.segment, scored.rows, scored.scores
    slots = segment.slots_of(rows)
    is_global = order == "global"
    ties = (
        (rows, section.by_path[slots])
        if is_global
        else (section.by_name[slots], segment.arrays["id_ranks"][rows])
    )
    places = np.lexsort((*ties, -scores))[:wanted]
    best_rows = rows[places]
    key = global_key if is_global else contract_key
    keyed: list[_Keyed] = []
    for row, slot, score, locator in zip(
        numbers(best_rows),
        numbers(slots[places]),
        scores[places].tolist(),
        numbers(segment.arrays["locators"][best_rows]),
        strict=True,
    ):
        store, hit = section.names[slot] or "", Ranked(segment.id(row), tier, -score, locator)
        keyed.append((key(store, hit), (store, hit)))
    return keyed


def lists(
    sections: Sequence[Addressed], matchings: Sequence[Matching], question: Question
) -> dict[str, list[Ranked]]:
    """Return the beginnings of the stores' own lists, as far as a fusion by rank can want them."""
    parts = [_own(section, matching, question) for section, matching in zip(sections, matchings, strict=True)]
    depths = np.sort(np.concatenate([depth for _, _, _, depth in parts] or [np.zeros(0, np.int64)]))
    deepest = int(depths[min(question.limit, len(depths)) - 1]) if len(depths) else 0
    result: dict[str, list[Ranked]] = {}
    for section, (rows, scores, tiers, depth) in zip(sections, parts, strict=True):
        for place in np.flatnonzero(depth <= deepest):
            row, score = int(rows[place]), float(scores[place])
            store, hit = section.ranked(row, score, TIERS[int(tiers[place])])
            result.setdefault(store, []).append(hit)
    return result


def _own(
    section: Addressed, matching: Matching, question: Question
) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return rows, scores, tiers and places from 0 in the lists of their stores, list by list."""
    seen = _Seen(section.segment.size)
    rows, scores, tiers = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0, np.int64)]
    for tier in question.tiers:
        is_last = tier == question.tiers[-1]
        scored = seen.new(matching.tier(tier, question.words(tier)), is_last=is_last)
        rows.append(scored.rows.astype(np.int64))
        scores.append(scored.scores)
        tiers.append(np.full(len(scored.rows), TIERS.index(tier)))
    every, points, kinds = np.concatenate(rows), np.concatenate(scores), np.concatenate(tiers)
    slots = section.segment.slots_of(every)
    order = np.lexsort((every, -points, kinds, slots))
    every, points, kinds, slots = every[order], points[order], kinds[order], slots[order]
    firsts = np.searchsorted(slots, slots, "left")
    return every, points, kinds, np.arange(len(every)) - firsts
