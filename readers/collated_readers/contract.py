"""What the daemon and a reader promise each other: the values, the errors, the `Reader` protocol.

A reader is blocking and stateless. It is handed an open `sqlite3.Connection` on that connection's
own thread, inside one read transaction (DESIGN §3), and a `Budget` that it keeps. It never opens,
caches, logs or writes, and raises only `StoreError` and `RequestError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

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
PROJECT_FOLDERS: Mapping[str, str] = {".contextpull": "docs", ".claude/cache/codebase-index": "code"}
"""Folders in which a format keeps its store inside a project, and a word for what it holds.

The project's directory names the store; the word is added where a project has stores of several formats.
"""

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


def clamped(value: int, limits: tuple[int, int]) -> int:
    """Return *value*, or the nearest of the two *limits* (both allowed)."""
    return max(limits[0], min(value, limits[1]))


class State(StrEnum):
    """What the daemon says of a store that was found; every found file has one (DESIGN §1)."""

    OPENING = "opening"
    OPEN = "open"
    BUILDING = "building"
    BUSY = "busy"
    REFUSED = "refused"
    UNREADABLE = "unreadable"


# code -> (state of a store that fails so when it is opened, what it means). Part of the API:
# a code is never reworded or reused. README repeats this table and a test holds it to that.
STORE_CODES: Mapping[str, tuple[State, str]] = {
    "opening": (State.OPENING, "the store was found and is being opened; ask again"),
    "not_a_file": (State.REFUSED, "a directory, FIFO, socket or device where a store file was expected"),
    "empty_file": (State.REFUSED, "a file of no bytes"),
    "not_sqlite": (State.REFUSED, "the file does not begin like a SQLite database"),
    "unknown_format": (State.REFUSED, "no reader recognises the file"),
    "unsupported_version": (State.REFUSED, "the store's schema version is not one that the reader supports"),
    "wrong_schema": (
        State.REFUSED,
        "a table or column that the format demands is missing or is not a real table",
    ),
    "fts5_missing": (State.REFUSED, "this Python's SQLite was built without FTS5"),
    "index_incomplete": (State.REFUSED, "the program that makes the store has not finished its first build"),
    "symbols_missing": (State.OPEN, "the store was made without symbols: nobody knows of any, or of none"),
    "indexing": (State.OPEN, "the store's texts are being indexed for the first time; ask again"),
    "sqlite_snapshot_incomplete": (
        State.REFUSED,
        "a vector store that is no clean snapshot: files beside it",
    ),
    "sqlite_snapshot_changed": (State.BUSY, "a vector store changed while it was read"),
    "not_a_database": (State.REFUSED, "a vector store that does not begin like a SQLite database"),
    "unknown_sqlite_schema": (State.REFUSED, "a vector store of a layout that no adapter knows"),
    "invalid_manifest": (State.REFUSED, "the manifest beside a vector store is wrong"),
    "invalid_text_encoding": (State.REFUSED, "a text of a vector store is no UTF-8"),
    "metadata_conflict": (State.REFUSED, "a vector store's metadata lack something or contradict"),
    "empty_store": (State.REFUSED, "a vector store without records"),
    "checksum_mismatch": (State.REFUSED, "a text of a vector store is not the one that was indexed"),
    "offset_length_mismatch": (State.REFUSED, "a record's offsets do not fit its text"),
    "offset_gap": (State.REFUSED, "text is missing between two records"),
    "reconstruction_mismatch": (State.REFUSED, "the records together are not the text they were cut from"),
    "invalid_vector": (State.OPEN, "a stored vector has a wrong length, or numbers that are not finite"),
    "normalization_mismatch": (State.REFUSED, "a stored vector is not of unit length"),
    "unsupported_embedding_format": (State.REFUSED, "vectors are stored in a way that is not supported"),
    "unsupported_metric": (State.REFUSED, "a metric other than dot, cosine and l2"),
    "unsupported_normalization": (State.REFUSED, "a normalization other than l2 and none"),
    "schema_mismatch": (State.REFUSED, "a table or column that the manifest names is not in the store"),
    "id_not_primary_key": (State.REFUSED, "the column of ids is not the declared primary key"),
    "virtual_table_unsupported": (State.REFUSED, "records in a virtual table, which needs an extension"),
    "invalid_source_metadata": (State.REFUSED, "a record's source is no JSON object"),
    "invalid_record_id": (State.REFUSED, "a record without an id"),
    "invalid_record_text": (State.REFUSED, "a record whose text is no text"),
    "memory_budget_exceeded": (State.OPEN, "a search of vectors needs more memory than it may take"),
    "building": (State.BUILDING, "the store is in the middle of its first ingest"),
    "locked": (State.BUSY, "another program holds the store locked"),
    "hot_journal": (State.BUSY, "a writer was interrupted or is at work: a journal lies beside the store"),
    "too_large_to_copy": (State.BUSY, "the store is being written and is larger than cache.copy_limit_bytes"),
    "keeps_changing": (State.BUSY, "the store changed each time it was read"),
    "disk_full": (State.BUSY, "no room for the private copy of a store that is being written"),
    "permission_denied": (State.UNREADABLE, "the file or a directory above it may not be read"),
    "unwritable_directory": (State.UNREADABLE, "SQLite wants to write beside the store and cannot"),
    "too_many_open_files": (State.UNREADABLE, "the process is out of file descriptors"),
    "broken_symlink": (State.UNREADABLE, "a symlink that leads nowhere or in a circle"),
    "vanished": (State.UNREADABLE, "the file was there and is gone"),
    "damaged": (State.UNREADABLE, "SQLite or the reader found the contents broken"),
    "io_error": (State.UNREADABLE, "the operating system could not read the file"),
    "invalid_rank": (State.OPEN, "the store gave a rank that is not a finite number"),
    "deadline_exceeded": (State.OPEN, "the store did not answer in time"),
    "backed_off": (State.OPEN, "the store kept failing and is left alone for a while"),
    "internal": (State.UNREADABLE, "a fault of collated itself; the log has the traceback"),
}


class StoreError(Exception):
    """One store failed; the others go on. `code` is a key of `STORE_CODES`."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the stable *code* and the *message* that says what to do."""
        super().__init__(message)
        self.code = code
        self.message = message


class RequestError(Exception):
    """The request is at fault: `unknown_id`, `pattern_rejected`, `invalid_params` or `unsupported`."""

    def __init__(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Keep the stable *code* of DESIGN §6, the *message* and what to try instead."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.suggestion = suggestion


class Budget:
    """A deadline and a cancellation that travel to the worker thread as a value (DESIGN §8).

    Set on the event loop, read by the SQLite progress handler and by a reader's own loops.
    Assigning a bool is atomic, so no lock is needed.
    """

    __slots__ = ("cancelled", "deadline")

    def __init__(self, deadline: float) -> None:
        """Take the *deadline* in seconds of `time.monotonic()`."""
        self.deadline = deadline
        self.cancelled = False

    @classmethod
    def lasting(cls, seconds: float) -> Budget:
        """Return a budget that ends *seconds* from now."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Return the seconds left, 0.0 when spent or cancelled."""
        return 0.0 if self.cancelled else max(0.0, self.deadline - time.monotonic())

    def is_spent(self) -> bool:
        """Tell whether to stop now."""
        return self.cancelled or time.monotonic() >= self.deadline

    def check(self) -> None:
        """Return while there is time left.

        Raises:
            StoreError: `deadline_exceeded` once the budget is spent or cancelled.
        """
        if self.is_spent():
            raise StoreError("deadline_exceeded", "the store did not answer in time")


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
