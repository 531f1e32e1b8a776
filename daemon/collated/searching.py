"""One search while it runs: what is asked, of whom, and what has been found so far."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from collated_readers import TIERS, Query, Ranked, Reader, Tier
from collated_readers.contract import SEARCH_LIMITS, clamped

from .catalog import Store
from .corpora import Coverage
from .embedding import Vectors
from .merge import Order, dedupe, merge_contract, merge_fused, merge_global, merge_hybrid
from .protocol import Partial, PartialHit, Ranking, SearchParams
from .selection import Asked, Selection
from .sidecars.corpus import Part, Question

__all__ = ["Report", "Search", "Searched", "size_of"]

Report = Callable[[Partial], Awaitable[None]]
"""Told how far an answer is, for `$/progress`."""

# Words of questions that name nothing that is asked for (RANKING.md 4).
_QUESTION_WORDS = frozenset(("what", "which", "who", "when", "where", "why", "how", "does", "do", "did"))
_QUESTION_LENGTH = 4

_SHORT = 1_000  # characters
_RANKED_BYTES = 160  # what a ranked record costs in memory beside its strings

# Where equal texts may be taken out, so many more hits are ranked at once.
_SLACK = 10


class Searched(Asked):
    """A store that is asked by itself: its tiers as far as they were asked, and its own list."""

    def __init__(self, store: Store, reader: Reader, query: Query, tiers: Sequence[Tier]) -> None:
        """Ask *query*, which has these *tiers*, of *store* through *reader*."""
        super().__init__(store, reader)
        self.query = query
        self.wanted = tiers
        self.tiers: dict[Tier, list[Ranked]] = {}
        self._list: list[Ranked] = []

    @property
    def found(self) -> list[Ranked]:
        """Return the store's list as far as it is known; empty once the store has failed."""
        return self._list if self.is_answering else []

    def needs(self, tier: Tier) -> bool:
        """Tell whether *tier* could still add to the store's list."""
        return tier in self.wanted and tier not in self.tiers and len(self._list) < self.query.limit

    def upto(self, tier: Tier) -> list[Tier]:
        """Return the tiers to ask for *tier* and the better ones, as far as they are not known."""
        upto = TIERS[: TIERS.index(tier) + 1]
        return [each for each in self.wanted if each in upto and each not in self.tiers]

    def learn(self, tier: Tier, ranked: list[Ranked]) -> None:
        """Take what *tier* found; tiers come best first."""
        self.tiers[tier] = ranked
        if ranked:
            self._list = dedupe((self._list, ranked), self.query.limit)

    def take(self, ranked: list[Ranked]) -> None:
        """Take the store's whole list, made by its reader."""
        self._list = ranked

    def restart(self) -> None:
        """Forget what was found: the store's contents are others now."""
        self.tiers.clear()
        self._list = []

    def key(self, *parts: object) -> tuple[object, ...]:
        """Return a cache key of this store's contents and query."""
        return (self.store.fingerprint, self.query, *parts)


def size_of(ranked: Iterable[Ranked]) -> int:
    """Return what *ranked* take in memory, for a cache's account."""
    return sum(_RANKED_BYTES + len(hit.id) for hit in ranked)


class Search:
    """One search over the stores of a selection."""

    def __init__(self, params: SearchParams, selection: Selection, report: Report | None) -> None:
        """Search the stores of *selection*, and tell *report* how far the search is."""
        self.selection = selection
        self._ranking: Ranking = params.ranking
        self.limit = clamped(params.limit, SEARCH_LIMITS)
        self.collapse = params.collapse
        self.within = tuple(params.within or ())
        self.statistics = params.statistics
        self.leave_out = params.leave_out
        self.report = report
        self.query = Query(params.query, self.within, self.limit + (_SLACK if params.collapse else 0))
        self._questions: dict[str, Question] = {}  # by format
        self._loose: dict[str, Query] = {}
        self.vectors: Vectors | None = None
        self.apart: frozenset[str] = frozenset()  # stores whose own lists are fused with their vectors'
        self.own: frozenset[str] = frozenset()  # stores whose reader makes their whole list
        self.notes: list[str] = []  # for people: what was not done as asked, and why
        self.given: dict[str, list[Ranked]] = {}
        self.searched: dict[str, Searched] = {}
        self.able: NDArray[np.bool_] = np.zeros(0, np.bool_)  # by place among the chosen stores, once known
        # Where the chosen stores are, as long as nothing is asked anew, and what is asked there.
        self.coverage: Coverage | None = None
        self.parts: list[Part] | None = None
        self.exact = 0
        self.answered = 0

    # ----------------------------------------------------------------- what is asked

    @property
    def ranking(self) -> Ranking:
        """Return how stores are ranked; where some are asked by vectors, all lists are fused."""
        return self._ranking if self.vectors is None else "fused"

    @property
    def order(self) -> Order:
        """Return which statistics rank: each store's own, or their sums."""
        return "global" if self.ranking in ("global", "smart") else "contract"

    def loose(self, reader: Reader) -> Query:
        """Return the query of the tier `any`."""
        if self.ranking != "smart":
            return self.query
        if reader.format not in self._loose:
            self._loose[reader.format] = reader.loosened(self.query, _QUESTION_WORDS, _QUESTION_LENGTH)
        return self._loose[reader.format]

    @property
    def is_plain(self) -> bool:
        """Tell whether the event loop may make the query's terms: SQLite is not asked, no path is tested."""
        return self.query.text.isascii() and len(self.query.text) <= _SHORT and not self.within

    def question(self, reader: Reader) -> Question:
        """Return the query as *reader*'s terms."""
        if reader.format not in self._questions:
            self._questions[reader.format] = self._question(reader)
        return self._questions[reader.format]

    def _question(self, reader: Reader) -> Question:
        phrases = reader.phrases(self.query)
        loose = self.loose(reader)
        loosely = phrases if loose is self.query else reader.phrases(loose)
        name = reader.names(self.query)
        return Question(phrases, loosely, reader.tiers(self.query), self.query.limit, name)

    def shown_by(self, reader: Reader, tier: Tier) -> Query:
        """Return the query that the snippets of *tier* show."""
        return self.loose(reader) if tier == "any" else self.query

    def store(self, store: Store) -> Searched:
        """Return *store* as asked by itself."""
        found = self.searched.get(store.name)
        if found is None:
            reader = self.selection.reader(store)
            found = Searched(store, reader, self.query, self.question(reader).tiers)
            self.searched[store.name] = found
            self.selection.enter(found)
        return found

    def asked(self, name: str) -> Searched:
        """Return the store called *name*, one of those chosen, as asked by itself."""
        return self.searched.get(name) or self.store(self.selection.chosen.by_name[name])

    def set_apart(self, names: frozenset[str], vectors: Vectors) -> None:
        """Have the stores *names* asked with *vectors*; the others' lists are fused with theirs by rank."""
        self.apart = names
        self._fuse(vectors)

    @property
    def aside(self) -> frozenset[str]:
        """Return the stores that neither arrays nor filters know all about."""
        return self.apart | self.own

    def join(self, each: Searched, note: str) -> None:
        """Have a store answer by words like all others, since its vectors cannot be searched."""
        self.notes.append(note)
        self.apart -= {each.store.name}
        if not self.apart:  # then nothing is fused
            self._fuse(None)
        each.query = self.query
        self.again()

    def _fuse(self, vectors: Vectors | None) -> None:
        self.vectors = vectors
        self.query = replace(self.query, is_hybrid=vectors is not None)
        self._questions.clear()  # another ranking ignores other words
        self._loose.clear()

    def again(self) -> None:
        """Begin anew: a store has changed or failed, or segments have."""
        self.coverage = self.parts = None

    def widen(self) -> None:
        """Rank more than before: too many hits were of equal text."""
        self.query = replace(self.query, limit=2 * self.query.limit)
        self._loose.clear()
        for name, question in self._questions.items():
            self._questions[name] = replace(question, limit=self.query.limit)
        for each in self.searched.values():
            each.query = self.query
            each.restart()

    # ----------------------------------------------------------------- what was found

    @property
    def hopeless(self) -> int:
        """Return how many stores cannot match."""
        return len(self.able) - int(np.count_nonzero(self.able))

    @property
    def stops_early(self) -> bool:
        """Tell whether a tier is asked only while better ones do not fill the limit."""
        return self.ranking != "fused"

    def is_filled(self, tier: Tier) -> bool:
        """Tell whether the tiers better than *tier* fill the limit."""
        better = TIERS[: TIERS.index(tier)]
        found = sum(hit.tier in better for hits in self.lists().values() for hit in hits)
        return self.stops_early and found >= self.query.limit

    def goes_ahead(self) -> bool:
        """Tell whether `all` is worth asking in the hop of `phrase`, whose hits do not fill the limit yet.

        Only a guess, read by the stores' threads while others answer: it decides what is asked
        when, never what is found.
        """
        return not self.stops_early or self.exact < self.query.limit

    def lists(self) -> dict[str, list[Ranked]]:
        """Return every store's list, as far as it is known."""
        own = {name: each.found for name, each in self.searched.items() if each.found}
        return {**self.given, **own}

    def merged(self) -> list[tuple[str, Ranked]]:
        """Return the best records of all stores."""
        if self.vectors is not None:
            return merge_hybrid(self.lists(), self.apart, self.query.limit)
        merge = {"fused": merge_fused, "contract": merge_contract}.get(self.ranking, merge_global)
        return merge(self.lists(), self.query.limit)

    def progress(self, found: Mapping[str, Iterable[Ranked]]) -> Partial:
        """Return how far the search is, with what was *found* last."""
        hits = [
            PartialHit(store, hit.id, f"{store}:{hit.id}", hit.tier, round(-hit.rank, 2))
            for store, ranked in found.items()
            for hit in ranked
        ]
        failures = self.selection.failures()
        late = sum(each.has_answered for each in self.searched.values() if each.failure)
        return Partial(len(self.selection.chosen.stores), self.answered - late, hits, list(failures.values()))
