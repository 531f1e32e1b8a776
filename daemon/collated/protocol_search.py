"""The wire's part on records: what is found, listed and read; appended to as `protocol` is."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from collated_readers import Tier

from .protocol_rpc import Answered, Failure, Id, Int, Params

__all__ = [
    "ContextRecord",
    "GrepParams",
    "GrepResult",
    "Hit",
    "IndexParams",
    "IndexResult",
    "Match",
    "Mode",
    "NeighboursParams",
    "NeighboursResult",
    "Partial",
    "PartialHit",
    "Ranking",
    "ReadParams",
    "ReadResult",
    "Record",
    "SearchParams",
    "SearchResult",
    "Statistics",
]

Mode = Literal["lexical", "hybrid"]
Ranking = Literal["contract", "fused", "global", "smart", "default"]
Statistics = Literal["addressed", "all"]

# --------------------------------------------------------------------------- parameters


class SearchParams(Params, rename={"within": "in"}):
    """`in`: path filter entries; `limit` is clamped to 1..50; `ranking` "default" is `[search] ranking`.

    With `ranking` "global" and "smart", `statistics` says over which stores frequencies are summed, and
    `leave_out` leaves out stores that cannot be ranked so, which else are an error.
    """

    query: str
    limit: Int = 10
    within: list[str] | None = None
    stores: list[str] | None = None
    formats: list[str] | None = None
    mode: Mode = "lexical"
    ranking: Ranking = "contract"
    deadline_ms: Int | None = None
    sync: bool = False
    partialResultToken: Id | None = None
    statistics: Statistics = "addressed"
    leave_out: bool = False
    collapse: bool = False


class ReadParams(Params):
    """`context` is clamped to 0..5; `ref` may be an id alone where one store, or one of `stores`, has it."""

    ref: str
    context: Int = 0
    deadline_ms: Int | None = None
    sync: bool = False
    stores: list[str] | None = None


class GrepParams(Params, rename={"within": "in"}):
    """`limit` is clamped to 1..100; `pattern` has 1 to 200 characters."""

    pattern: str
    regex: bool = False
    within: list[str] | None = None
    stores: list[str] | None = None
    formats: list[str] | None = None
    limit: Int = 20
    deadline_ms: Int | None = None
    sync: bool = False
    partialResultToken: Id | None = None


class NeighboursParams(Params):
    """`before` and `after` are clamped to 0..5; `ref` and `stores` are as those of `ReadParams`."""

    ref: str
    before: Int = 1
    after: Int = 1
    deadline_ms: Int | None = None
    sync: bool = False
    stores: list[str] | None = None


class IndexParams(Params):
    """Without `store`, one line for each store."""

    store: str | None = None
    prefix: str | None = None
    deadline_ms: Int | None = None
    sync: bool = False


# --------------------------------------------------------------------------- what is found and read


class Hit(Struct):
    """A record that matched; `also` names the refs of equal text that `collapse` took out of the list."""

    store: str
    id: str
    ref: str
    format: str
    doc: str
    heading_path: str
    snippet: str
    score: float
    kind: str
    tier: Tier
    line_start: int | UnsetType = UNSET
    line_end: int | UnsetType = UNSET
    also: list[str] | UnsetType = UNSET


class Record(Struct):
    """The unit that is found and read."""

    store: str
    id: str
    ref: str
    format: str
    doc: str
    heading_path: str
    kind: str
    text: str
    prev_id: str | None
    next_id: str | None


class ContextRecord(Record):
    """A record read because it stands beside the one that was asked for."""

    context: bool = True


class Match(Struct):
    """The first matching line of a record; `line_number` counts its document's, where the format has them."""

    store: str
    id: str
    ref: str
    doc: str
    heading_path: str
    line: str
    line_number: int | UnsetType = UNSET


# --------------------------------------------------------------------------- results


class SearchResult(Struct):
    """One ranked list; `complete` is false exactly when `stores.failed` is not empty."""

    hits: list[Hit]
    mode: Mode
    hint: str | None
    complete: bool
    stores: Answered


class ReadResult(Record):
    """The record asked for, and those around it in document order."""

    context: list[ContextRecord]


class GrepResult(Struct):
    """Matches by (id, store)."""

    matches: list[Match]
    truncated: bool
    complete: bool
    stores: Answered


class NeighboursResult(Struct):
    """Records in document order; `header` begins the table that the record continues."""

    records: list[Record]
    header: Record | None


class IndexResult(Struct):
    """A table of contents, as text."""

    text: str


class PartialHit(Struct):
    """A hit before its snippet is made."""

    store: str
    id: str
    ref: str
    tier: Tier
    score: float


class Partial(Struct):
    """The value of `$/progress`: how far the answer is; its hits are not in the final order."""

    asked: int
    answered: int
    hits: list[PartialHit]
    failed: list[Failure]
