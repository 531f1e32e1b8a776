"""Answers in one form for all contenders: what a search over many stores shows, in order."""

from typing import NamedTuple

__all__ = ["LIMIT", "Answer", "Shown"]

LIMIT = 10


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
