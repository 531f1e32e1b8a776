"""The other side: the reference reader over the same stores, in one process, one after the other."""

from collections.abc import Sequence
from pathlib import Path

from contextpull.ops import Ops, tokenize  # type: ignore[import-untyped]  # the package has no types
from contextpull.store import Store  # type: ignore[import-untyped]  # the package has no types

from .answers import GREP_LIMIT, LIMIT, Answer, Matched, Shown

__all__ = ["Key", "Reference", "tokens_of"]

Key = tuple[int, float, str, str]
"""A hit's place in the federation's order: tier, unrounded rank, id, store (DESIGN §5)."""

_ONE_TIER = """
SELECT f.id AS id, bm25(sections_fts, 0.0, 2.0, 1.0) AS rank FROM sections_fts f
JOIN sections s ON s.id = f.id JOIN documents d ON d.doc_id = s.doc_id
WHERE sections_fts MATCH ? ORDER BY rank, f.id LIMIT ?"""


class Reference:
    """`contextpull.ops.Ops` on each store, all open."""

    def __init__(self, stores: Sequence[Path]) -> None:
        """Open *stores*; a store's name is its file's stem."""
        self._ops: list[tuple[str, Ops]] = []
        self._keys: dict[str, dict[tuple[str, str], Key]] = {}
        self.add(stores)

    def __len__(self) -> int:
        """Return how many stores are open."""
        return len(self._ops)

    def add(self, stores: Sequence[Path]) -> None:
        """Open more stores; what was learnt of the others is forgotten."""
        self._ops += [(path.stem, Ops(Store.open(path))) for path in stores]
        self._keys.clear()

    def close(self) -> None:
        """Close all stores."""
        for _, ops in self._ops:
            ops.store.close()

    def learn(self, text: str) -> None:
        """Find the contract's key of each hit, (tier, unrounded rank, id, store), which `Ops` does not tell.

        Done before anything is timed, so that the merge costs the reference one look-up for each hit.
        """
        keys: dict[tuple[str, str], Key] = {}
        for name, ops in self._ops:
            for tier, match in enumerate(_passes(text)):
                for row in ops.conn.execute(_ONE_TIER, (match, LIMIT)):
                    keys.setdefault((name, row["id"]), (tier, row["rank"], row["id"], name))
        self._keys[text] = keys

    def search(self, text: str) -> Answer:
        """Return the best hits of all stores in the federation's order (DESIGN §5)."""
        return [hit for _, hit in self.ranked(text)]

    def ranked(self, text: str) -> list[tuple[Key, Shown]]:
        """Return what `search` does, with the keys, so that several references can be merged."""
        keys = self._keys[text]
        every = [
            (keys[name, hit.id], hit) for name, ops in self._ops for hit in ops.search(text, limit=LIMIT).hits
        ]
        every.sort(key=lambda each: each[0])
        return [
            (key, Shown(key[3], hit.id, hit.doc, hit.heading_path, hit.kind, hit.score, hit.snippet))
            for key, hit in every[:LIMIT]
        ]

    def expected(self, text: str) -> Answer:
        """Return what `search` does, learning first."""
        self.learn(text)
        return self.search(text)

    def ask_all(self, text: str) -> int:
        """Search every store and return how many hits there are, unmerged; nothing needs to be learnt."""
        return sum(len(ops.search(text, limit=LIMIT).hits) for _, ops in self._ops)

    def grep(self, pattern: str) -> tuple[list[Matched], bool]:
        """Return the first matches of all stores by id and store, and whether there are more."""
        every: list[Matched] = []
        is_more = False
        for name, ops in self._ops:
            found = ops.grep(pattern, limit=GREP_LIMIT)
            is_more |= found.truncated
            every += [Matched(name, m.id, m.doc, m.heading_path, m.line) for m in found.matches]
        every.sort(key=lambda match: (match.id.encode(), match.store.encode()))
        return every[:GREP_LIMIT], is_more or len(every) > GREP_LIMIT


def tokens_of(text: str) -> list[str]:
    """Return the words that the contract searches for."""
    return [str(token) for token in tokenize(text)]


def _passes(text: str) -> list[str]:
    words = tokens_of(text)
    if not words:
        return []
    quoted = [f'"{word}"' for word in words]
    several = [f'"{" ".join(words)}"', " AND ".join(quoted)] if len(words) > 1 else []
    return [*several, " OR ".join(quoted)]
