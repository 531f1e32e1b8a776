"""Which names of a `WITH` are in scope where, and what each part of a statement reads.

A *part* is the statement itself, the body of a `WITH`, or the right side of an ASOF JOIN. It names
relations, and other parts; what it reads is both, all the way down.

The engine's rule (guard.md §3): entry *i* sees what encloses the `WITH` and entries before it, neither
itself nor a later one; only the right arm of a recursive entry sees its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collated_readers.contextful.refusals import refused

__all__ = ["MAX_PARTS", "Parts", "Scope"]

MAX_PARTS = 500  # each has a scope of its own, as long as what is before it

Scope = Mapping[str, int]
"""Names of a `WITH` that are in scope, and the part that each stands for."""


class Parts:
    """The parts of one statement; part 0 is the statement itself."""

    def __init__(self) -> None:
        """Begin with the statement itself."""
        self._relations: list[set[str]] = [set()]
        self._uses: list[set[int]] = [set()]

    def begin(self) -> int:
        """Return a new part, which nothing uses yet.

        Raises:
            RequestError: `StatementNotReadOnly` beyond `MAX_PARTS`.
        """
        if len(self._relations) >= MAX_PARTS:
            raise refused("StatementNotReadOnly", "the statement has too many common table expressions")
        self._relations.append(set())
        self._uses.append(set())
        return len(self._relations) - 1

    def name(self, part: int, relation: str) -> None:
        """Note that *part* names a relation."""
        self._relations[part].add(relation)

    def use(self, part: int, other: int) -> None:
        """Note that *part* reads what *other* reads."""
        self._uses[part].add(other)

    def all_relations(self) -> set[str]:
        """Return every relation that is named anywhere, used or not: the engine binds them all."""
        return set[str]().union(*self._relations)

    def relations_of(self, parts: Iterable[int]) -> set[str]:
        """Return the relations that *parts* read, through whatever they use."""
        waiting, seen = list(parts), set[int]()
        while waiting:
            part = waiting.pop()
            if part not in seen:
                seen.add(part)
                waiting.extend(self._uses[part])
        return set[str]().union(*(self._relations[part] for part in seen))
