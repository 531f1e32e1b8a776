"""What the program reads out of a query: intents, terms, their variants, the kind asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache

from msgspec import Struct

from collated_readers.codebase_index.words import parts_of

from .language import STOPWORDS, SYNONYMS

__all__ = ["Asked", "Term", "Weights", "asked_of", "components_of"]

_TOKEN = re.compile(r"[^\W_]+(?:[_-][^\W_]+)*")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_SHORTEST = 2
_MOST_TERMS, _LONGEST_TERM = 64, 1_000  # are looked for; the program knows no bounds
_OF_PART, _OF_SYNONYM = 0.65, 0.35

_NOT_IN_NAMES = frozenset({"find", "locate", "show", "me", "implemented", "implementation"})
_KINDS = {
    **{kind: kind for kind in ("method", "function", "interface", "enum", "type", "class")},
    **{f"{kind}s": kind for kind in ("method", "function", "interface", "enum", "type")},
    "classes": "class",
}
_QUESTION = re.compile(
    r"\s*(?:how|what|where|which|who|whom|whose|why|when|does|do|is|are|can|could|should|would|will)\b",
    re.IGNORECASE,
)
_ABOUT_TESTS = re.compile(r"\b(?:tests?|testing|e2e|specs?|fixtures?|mocks?|pytest|jest)\b", re.IGNORECASE)


class Weights(Struct, frozen=True):
    """What the lists count for when they are fused."""

    text: float
    symbol: float
    path: float


_ARCHITECTURE = "architecture"
_INTENTS: Sequence[tuple[str, str, Weights]] = (
    ("debug_error", r"traceback|stack ?trace|error:|exception|why does .* fail", Weights(1.0, 0.6, 0.3)),
    ("find_refs", r"\b(?:who calls|find references|references to|callers of)\b", Weights(0.3, 1.0, 0.2)),
    ("impact", r"\b(?:what breaks|what depends on|impact of|affected if)\b", Weights(0.3, 1.0, 0.6)),
    ("data_flow", r"\b(?:data ?flow|where does .* get set|trace .* flow)\b", Weights(0.8, 0.9, 0.3)),
    (_ARCHITECTURE, r"\b(?:architecture|high-?level|overview|structure of)\b", Weights(0.6, 0.4, 0.5)),
    ("how_it_works", r"\b(?:how does|how do|explain how|how .* works?)\b", Weights(1.0, 0.7, 0.3)),
    ("locate_impl", r"\b(?:where is|find the|locate|implementation of|defined)\b", Weights(0.4, 1.0, 0.7)),
)
_RULES = [(name, re.compile(rule, re.IGNORECASE), weights) for name, rule, weights in _INTENTS]
_KEYWORD = Weights(1.0, 0.6, 0.5)


class Term(Struct, frozen=True):
    """A word looked for, and what else counts as it, each with its weight; the word itself comes first."""

    text: str
    spellings: tuple[tuple[str, float], ...]


class Asked(Struct, frozen=True, dict=True):
    """A query as the program understands it."""

    intent: str
    weights: Weights
    terms: tuple[Term, ...]
    synonyms: tuple[str, ...]
    kind: str | None
    words: frozenset[str]
    is_question: bool
    is_about_tests: bool

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the terms that names of symbols are searched for."""
        return tuple(term.text for term in self.terms if term.text not in _NOT_IN_NAMES)

    @property
    def is_architecture(self) -> bool:
        """Tell whether it asks how the whole is built."""
        return self.intent == _ARCHITECTURE

    @cached_property
    def written(self) -> frozenset[str]:
        """Return the terms as they were written, but for case."""
        return frozenset(term.text for term in self.terms)

    @cached_property
    def match(self) -> str:
        """Return the MATCH string: every spelling of every term, any of which will do."""
        return " OR ".join(f'"{word}"' for term in self.terms for word, _ in term.spellings)


@lru_cache(maxsize=2)  # one store after another is asked the same
def asked_of(query: str) -> Asked:
    """Return what *query* asks for."""
    matched = [(name, weights) for name, rule, weights in _RULES if rule.search(query)]
    words = frozenset(word.lower() for word in _ASCII_WORD.findall(query))
    kinds = {_KINDS[word] for word in words if word in _KINDS}
    terms = _terms(query)
    return Asked(
        intent=matched[0][0] if matched else "keyword",
        weights=_heaviest([weights for _, weights in matched]) if matched else _KEYWORD,
        terms=terms,
        synonyms=tuple(word for term in terms for word, weight in term.spellings if weight == _OF_SYNONYM),
        kind=kinds.pop() if len(kinds) == 1 else None,
        words=words,
        is_question=bool(_QUESTION.match(query)) or query.rstrip().endswith("?"),
        is_about_tests=bool(_ABOUT_TESTS.search(query)),
    )


def components_of(name: str) -> set[str]:
    """Return the parts of *name* as terms are written."""
    return {part.casefold() for part in parts_of(name)}


def _heaviest(every: Sequence[Weights]) -> Weights:
    return Weights(
        text=max(one.text for one in every),
        symbol=max(one.symbol for one in every),
        path=max(one.path for one in every),
    )


def _terms(query: str) -> tuple[Term, ...]:
    """Return the words that tell something, or all words of a query that has no others."""
    written: dict[str, str] = {}
    for token in _TOKEN.findall(query):
        if len(token) <= _LONGEST_TERM:
            written.setdefault(token.casefold(), token)
    telling = [term for term in written if len(term) >= _SHORTEST and term not in STOPWORDS]
    known = (telling or list(written))[:_MOST_TERMS]
    emitted = set(known)
    terms: list[Term] = []
    for term in known:
        parts = [(part.casefold(), _OF_PART) for part in parts_of(written[term])]
        spellings = {term: 1.0}
        for word, weight in (*parts, *((word, _OF_SYNONYM) for word in SYNONYMS.get(term, ()))):
            if len(word) >= _SHORTEST and word not in emitted:
                emitted.add(word)
                spellings[word] = weight
        terms.append(Term(term, tuple(spellings.items())))
    return tuple(terms)
