"""Answers in one form for all contenders: what a search or a grep over many stores shows, in order."""

from typing import NamedTuple

from collated.protocol import GrepResult, SearchResult

__all__ = ["GREP_LIMIT", "LIMIT", "Answer", "Matched", "Shown", "matched", "shown"]

LIMIT = 10
GREP_LIMIT = 20


class Shown(NamedTuple):
    """One hit, with everything that the contract fixes."""

    store: str
    id: str
    doc: str
    heading_path: str
    kind: str
    score: float
    snippet: str


Answer = list[Shown]


class Matched(NamedTuple):
    """One match of grep, with everything that the contract fixes."""

    store: str
    id: str
    doc: str
    heading_path: str
    line: str


def shown(result: SearchResult) -> Answer:
    """Return the daemon's hits in the form that answers are compared in."""
    return [Shown(h.store, h.id, h.doc, h.heading_path, h.kind, h.score, h.snippet) for h in result.hits]


def matched(result: GrepResult) -> list[Matched]:
    """Return the daemon's matches in the form that answers are compared in."""
    return [Matched(m.store, m.id, m.doc, m.heading_path, m.line) for m in result.matches]
