"""Readers that answer what a test writes down."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from collated_readers import (
    Budget,
    Hit,
    Match,
    Matches,
    Pattern,
    Query,
    Ranked,
    Reading,
    RequestError,
    StoreFacts,
    Tier,
    code,
)
from collated_readers.code import Chunk, Impact, ReferenceKind, References, Symbols
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection
from collated_readers.vectors import MEMORY_BYTES, Similar, VectorFacts

Act = Callable[[StoreConnection], object]
Script = dict[str, Mapping[Tier, Sequence[tuple[str, float]]]]
"""What each store finds in each tier: ids with their ranks."""


class Scripted(ContextPull):
    """A reader that answers as *script* says, of which `acts` run first: by store and what is asked."""

    format = "scripted"

    def __init__(self, script: Script) -> None:
        self.script = dict(script)
        self.acts: dict[tuple[str, str], Act] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.lost: set[str] = set()
        self.lines: Mapping[str, tuple[int, int]] = {}
        self.words: list[bytes] | None = None
        self._lock = threading.Lock()

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """Recognise every file."""
        return True

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """Give facts that never change, so that the signature alone tells contents apart."""
        self._begin(db, "open")
        return StoreFacts("1", "", documents=1, records=1)

    def vocabulary(self, db: sqlite3.Connection) -> list[bytes] | None:
        """Have these words, or none to look up."""
        return self.words

    def tiers(self, query: Query) -> tuple[Tier, ...]:
        """Run all three passes on anything but nothing."""
        return ("phrase", "all", "any") if query.text else ()

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """Give what is written down, in the contract's order."""
        name = self._begin(db, tier)
        found = sorted((rank, record_id) for record_id, rank in self.script[name].get(tier, ()))
        return [Ranked(record_id, tier, rank, 0) for rank, record_id in found][: query.limit]

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """Say in the snippet whence the hit comes."""
        name = self._begin(db, "hits")
        return [
            Hit(
                each.id,
                "d",
                "",
                f"{name}:{each.tier}:{each.rank}",
                round(-each.rank, 2),
                "prose",
                each.tier,
                *self.lines.get(each.id, ()),
            )
            for each in ranked
            if each.id not in self.lost
        ]

    def digests(self, db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
        """Know of no texts."""
        return [b"" for _ in ranked]

    def grep(self, db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
        """Match every id that is written down under the tier `all`."""
        name = self._begin(db, "grep")
        ids = sorted(record_id for record_id, _ in self.script[name].get("all", ()))
        found = tuple(Match(record_id, "d", "", name) for record_id in ids)
        return Matches(found[: pattern.limit], len(found) > pattern.limit)

    def read(self, db: sqlite3.Connection, record_id: str, context: int) -> Reading:
        """Find nothing; there is only what acts."""
        self._begin(db, "read")
        raise RequestError("unknown_id", f"no record {record_id}")

    def _begin(self, db: sqlite3.Connection, what: str) -> str:
        assert isinstance(db, StoreConnection)
        name = db.path.stem
        with self._lock:
            self.calls[name, what] += 1
        if act := self.acts.get((name, what)):
            act(db)
        return name


class Turns:
    """Lets the stores answer in one order only, whichever of them was asked first."""

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)
        self._turn = threading.Condition()

    def __call__(self, db: StoreConnection) -> None:
        with self._turn:
            assert self._turn.wait_for(lambda: self._order[0] == db.path.stem, 20)
            del self._order[0]
            self._turn.notify_all()


Answers = dict[str, Mapping[str, Any]]
"""What each store answers, or raises, by the method that asks it."""


class Coded(Scripted):
    """A reader of code and of vectors that answers as `answers` say, or raises what they hold."""

    format = "coded"
    capabilities = Scripted.capabilities | {
        *("symbols", "references", "impact", "chunk", "architecture", "vectors.search")
    }

    def __init__(self, answers: Answers) -> None:
        super().__init__({store: {} for store in answers})
        self.answers = answers
        self.asked: list[tuple[str, object]] = []

    def symbols(self, db: sqlite3.Connection, name: str, limit: int, *, exact: bool) -> Symbols:
        """Give the first of what is written down."""
        answer: Symbols = self._answer(db, "symbols", (name, limit, exact)) or Symbols(())
        return replace(answer, symbols=answer.symbols[:limit], is_truncated=len(answer.symbols) > limit)

    def references(
        self, db: sqlite3.Connection, name: str, kind: ReferenceKind, path: str | None, limit: int
    ) -> References:
        """Give the first of what is written down."""
        answer: References = self._answer(db, "references", (name, kind, path, limit)) or References(())
        is_truncated = len(answer.references) > limit
        return replace(answer, references=answer.references[:limit], is_truncated=is_truncated)

    def impact(
        self, db: sqlite3.Connection, target: str, direction: code.Direction, depth: int, budget: Budget
    ) -> Impact:
        """Give what is written down, or know no such target."""
        answer = self._answer(db, "impact", (target, direction, depth))
        return answer or Impact((), (), is_known=False)

    def chunk(self, db: sqlite3.Connection, path: str, line: int) -> Chunk:
        """Give what is written down."""
        answer: Chunk | None = self._answer(db, "chunk", (path, line))
        if answer is None:
            raise RequestError("unknown_id", f"no file {path} with text at line {line}")
        return answer

    def architecture(self, db: sqlite3.Connection) -> Mapping[str, Any] | None:
        """Give what is written down."""
        report: Mapping[str, Any] | None = self._answer(db, "architecture", ())
        return report

    def vectors(self, db: sqlite3.Connection) -> VectorFacts:
        """Give what is written down."""
        facts: VectorFacts = self._answer(db, "vectors", ())
        return facts

    def similar(
        self,
        db: sqlite3.Connection,
        vector: Sequence[float],
        limit: int,
        budget: Budget,
        memory_bytes: int = MEMORY_BYTES,
    ) -> list[Similar]:
        """Give the first of what is written down."""
        near: Sequence[Similar] = self._answer(db, "similar", (list(vector), limit)) or ()
        return list(near[:limit])

    def _answer(self, db: sqlite3.Connection, method: str, given: object) -> Any:
        name = self._begin(db, method)
        self.asked.append((method, given))
        answer = self.answers[name].get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Plain(Scripted):
    """A reader of what no other recognises; it answers searches only."""

    format = "plain"
