"""What the daemon and a reader promise each other: the values, the errors, the `Reader` protocol.

A reader is blocking and stateless. It is handed an open `sqlite3.Connection` on that connection's
own thread, inside one read transaction (DESIGN §3), and a `Budget` that it keeps. It never opens,
logs or writes, keeps nothing but what goes with the connection, and raises only `StoreError` and
`RequestError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

from .budget import Budget
from .codes import STORE_CODES, RequestError, State, StoreError

if TYPE_CHECKING:  # the client imports this module and must start fast
    import sqlite3

    from .postings import Postings

__all__ = [
    "CONTEXT_LIMITS",
    "GREP_LIMITS",
    "HINT_NO_EMBEDDER",
    "HINT_NO_EMBEDDINGS",
    "HINT_NO_HITS",
    "HINT_NO_WORDS",
    "LONGEST_PATTERN",
    "PROJECT_FOLDERS",
    "RRF_K",
    "SEARCH_LIMITS",
    "STORE_CODES",
    "TIERS",
    "Budget",
    "Embed",
    "Examined",
    "Examiner",
    "Hit",
    "Match",
    "Matches",
    "Neighbours",
    "OwnRanking",
    "Pattern",
    "Phrase",
    "Query",
    "Ranked",
    "Reader",
    "Reading",
    "Record",
    "RequestError",
    "State",
    "StoreError",
    "StoreFacts",
    "Tier",
    "clamped",
]

Tier = Literal["symbol", "phrase", "all", "any", "dense"]
TIERS: tuple[Tier, ...] = ("symbol", "phrase", "all", "any", "dense")
"""How a record matched, best first (DESIGN §1)."""

Embed = Callable[[str, str], Sequence[float]]
"""`embed(model, text)` gives the vector of *text* under the model that a store names."""

Phrase = tuple[bytes, ...]
"""One word of a query as the index has it: one term as a rule, several or none for rare letters."""

HINT_NO_WORDS = "no searchable words"
HINT_NO_HITS = "no hits; try grep for exact codes, drop the in= filter, or use fewer words"
HINT_NO_EMBEDDINGS = "no embeddings in store"
HINT_NO_EMBEDDER = "no embedder for this query"
"""Hints of a search: the seed's letter for the first and third, the reference's for the second."""

SEARCH_LIMITS = (1, 50)
GREP_LIMITS = (1, 100)
CONTEXT_LIMITS = (0, 5)
"""Smallest and largest `limit` and `context`; a number outside is clamped, never refused."""

LONGEST_PATTERN = 200
"""Characters that a grep's pattern may have; it has one at least (DESIGN §6)."""

RRF_K = 60
"""The contract's constant of reciprocal rank fusion: a position counts 1 / (60 + position)."""

PROJECT_FOLDERS: Mapping[str, str] = {
    ".contextpull": "docs",
    ".claude/cache/codebase-index": "code",
    ".contextful/context": "tables",
}
"""Folders in which a format keeps its store inside a project, and a word for what it holds.

The project's directory names the store; the word is added where a project has stores of several formats.
"""


def clamped(value: int, limits: tuple[int, int]) -> int:
    """Return *value*, or the nearest of the two *limits* (both allowed)."""
    return max(limits[0], min(value, limits[1]))


class Query(Struct, frozen=True):
    """One search: free text, path filter entries, and how many hits at most (1 or more).

    `is_hybrid` says that ranks are those of `Reader.fused`, whose scores are on another scale.
    """

    text: str
    within: tuple[str, ...] = ()
    limit: int = 10
    is_hybrid: bool = False


class Pattern(Struct, frozen=True):
    """One grep: the pattern, whether it is a regular expression, path filter, limit (1 or more).

    `among` are the ids of the only records to look at, None for all.
    """

    text: str
    is_regex: bool = False
    within: tuple[str, ...] = ()
    limit: int = 20
    among: tuple[str, ...] | None = None


class Ranked(Struct, frozen=True, gc=False):
    """A record that matched, before its snippet is made.

    `rank` is the reader's own unrounded number, lower is better. `row` is the reader's locator for
    `Reader.hits`, good within one snapshot of the store only.
    """

    id: str
    tier: Tier
    rank: float
    row: int


class Hit(Struct, frozen=True, gc=False):
    """A ranked record made presentable; `score` is what a person sees (DESIGN §1)."""

    id: str
    doc: str
    heading_path: str
    snippet: str
    score: float
    kind: str
    tier: Tier
    line_start: int | UnsetType = UNSET
    line_end: int | UnsetType = UNSET


class Record(Struct, frozen=True, gc=False):
    """The unit that is found and read, its text verbatim."""

    id: str
    doc: str
    heading_path: str
    kind: str
    text: str
    prev_id: str | None = None
    next_id: str | None = None


class Reading(Struct, frozen=True):
    """One record and the records around it, in document order, itself excluded."""

    record: Record
    context: tuple[Record, ...] = ()


class Match(Struct, frozen=True, gc=False):
    """The first matching line of one record; `line_number` counts its document's lines, where known."""

    id: str
    doc: str
    heading_path: str
    line: str
    line_number: int | UnsetType = UNSET


class Matches(Struct, frozen=True):
    """Matches in id order (UTF-8 bytes); `is_truncated` when a further record matches."""

    matches: tuple[Match, ...]
    is_truncated: bool = False


class Neighbours(Struct, frozen=True):
    """A record with those before and after it, and the head of the table run it continues."""

    records: tuple[Record, ...]
    header: Record | None = None


class StoreFacts(Struct, frozen=True):
    """What a reader learns when it opens a store.

    `identity` is the reader's share of the fingerprint: whatever an answer depends on beside the
    signature of the file's bytes. `model` is that of the vectors it holds, None
    without any. `details` are what people want to know of the store, in `stores`.
    """

    schema_version: str
    identity: str
    documents: int
    records: int
    model: str | None = None
    details: Mapping[str, Any] = {}


class Examined(Struct, frozen=True):
    """What `Examiner.examine` found, shown in `stores` beside `StoreFacts.details`.

    It is found again after *again_s* seconds, None when it holds as long as the store does not change.
    """

    details: Mapping[str, Any]
    again_s: float | None = None


@runtime_checkable
class Examiner(Protocol):
    """A reader with work to do on a store that nobody waits for."""

    def examine(self, db: sqlite3.Connection, root: str | None, budget: Budget) -> Examined:
        """Return what takes too long for `Reader.open`; runs in the background, on a connection of its own.

        *root* is the project's directory, where it is there. What a format lacks of an index is made
        here, below `StoreConnection.cache` alone.
        """
        ...


@runtime_checkable
class OwnRanking(Protocol):
    """A reader of a format whose program ranks in a way that the tiers do not give."""

    def own(self, db: sqlite3.Connection, query: Query) -> list[Ranked]:
        """Return the store's list as its own program orders it, at most `query.limit` records, each once.

        The order is that of the list: the tiers that `Reader.tiers` names one after another, and within
        `any` not always by rank, for a program may show one record of a file first. A list of one more
        begins with this one.

        Raises:
            RequestError: `invalid_params` (path filter).
            StoreError: `invalid_rank`, `damaged`.
        """
        ...


class Reader(Protocol):
    """Reads one format; blocking, stateless, safe to use from many threads at once."""

    @property
    def format(self) -> str:
        """Return the format's name, as users see it: `contextpull`."""
        ...

    @property
    def versions(self) -> str:
        """Return the schema versions that are supported, for people: `1.x`."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the wire methods that this format can answer."""
        ...

    def recognises(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> bool:
        """Tell whether the file is of this format, of whatever version.

        *tables* maps each name in `sqlite_master` to its type (`table`, `view`).
        """
        ...

    def open(self, db: sqlite3.Connection, tables: Mapping[str, str]) -> StoreFacts:
        """Check version and schema and return the store's facts.

        Raises:
            StoreError: `unsupported_version` (naming both), `wrong_schema`, `fts5_missing`,
                `building`, `damaged`.
        """
        ...

    def tiers(self, query: Query) -> tuple[Tier, ...]:
        """Return the lexical tiers to run, best first; empty when no word can be searched. Pure."""
        ...

    def ranked(self, db: sqlite3.Connection, query: Query, tier: Tier) -> list[Ranked]:
        """Return one tier's best `query.limit` records in (rank, id) order, whatever other tiers found."""
        ...

    def fused(self, db: sqlite3.Connection, query: Query, embed: Embed) -> list[Ranked] | None:
        """Return the store's hybrid list in (rank, id) order, or None when it has no embeddings."""
        ...

    def hits(self, db: sqlite3.Connection, query: Query, ranked: Sequence[Ranked]) -> list[Hit]:
        """Return *ranked* with path, heading, snippet and score, in the order given."""
        ...

    def digests(self, db: sqlite3.Connection, ranked: Sequence[Ranked]) -> list[bytes]:
        """Return for each of *ranked* 16 bytes that are equal for records of equal text; none if unknown."""
        ...

    def loosened(self, query: Query, ignored: Set[str], least: int) -> Query:
        """Return *query*, if it has *least* words or more, without those *ignored*, if any are left. Pure."""
        ...

    def phrases(self, query: Query) -> tuple[Phrase, ...]:
        """Return the query's words as `postings` names terms, in order, repeated ones too. Pure."""
        ...

    def names(self, query: Query) -> Phrase:
        """Return the one term under which `postings` lists what the tier `symbol` finds; () without. Pure."""
        ...

    def vocabulary(self, db: sqlite3.Connection) -> Iterable[bytes] | None:
        """Return every term of the store's index, None if its words cannot be looked up by `phrases`."""
        ...

    def postings(self, db: sqlite3.Connection, terms: Sequence[bytes] | None = None) -> Postings | None:
        """Return where *terms* stand, all for None; None if the store has no index to be read so.

        What bm25 makes of them is what `ranked` gives, to the last bit.

        Raises:
            StoreError: `damaged`: the index and the records do not agree.
        """
        ...

    def path_matcher(self, within: Sequence[str]) -> Callable[[str], bool] | None:
        """Return what tells whether a document path passes the filter; None where all do. Pure.

        Raises:
            RequestError: `invalid_params`.
        """
        ...

    def texts(self, db: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
        """Yield (id, text) of each record in id order, the text folded as `needles` are.

        Raises:
            StoreError: `damaged`.
        """
        ...

    def needles(self, pattern: Pattern) -> tuple[bytes, ...]:
        """Return what the folded text of each record that `grep` finds holds, all; () if unknown. Pure."""
        ...

    def read(self, db: sqlite3.Connection, record_id: str, context: int) -> Reading:
        """Return a record with *context* records on each side (clamped).

        Raises:
            RequestError: `unknown_id`.
        """
        ...

    def grep(self, db: sqlite3.Connection, pattern: Pattern, budget: Budget) -> Matches:
        """Return the first matching line of each record, in id order.

        Raises:
            RequestError: `pattern_rejected`, `invalid_params`.
        """
        ...

    def neighbours(self, db: sqlite3.Connection, record_id: str, before: int, after: int) -> Neighbours:
        """Return a record among its neighbours, in document order.

        Raises:
            RequestError: `unknown_id`.
        """
        ...

    def index(self, db: sqlite3.Connection, prefix: str | None) -> str:
        """Return the store's table of contents, or the documents whose path starts with *prefix*."""
        ...
