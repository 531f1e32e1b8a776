"""The wire's part on code stores and vector stores; appended to as `protocol` is.

Places are paths in a project, lines count from 1, and `sha256` is the file's when it was indexed. Text of
all that is sent is free of secrets, as far as the reader of its format knows them.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from collated_readers.code import Direction, How, ReferenceKind
from collated_readers.vectors import Direction as Better
from collated_readers.vectors import Metric

from .protocol_rpc import Answered, Int, Params

__all__ = [
    "VECTOR_NUMBERS",
    "ArchitectureParams",
    "ArchitectureResult",
    "Chunk",
    "ChunkParams",
    "ChunkResult",
    "File",
    "ImpactParams",
    "ImpactResult",
    "Node",
    "PartialGraph",
    "Reference",
    "ReferencesParams",
    "ReferencesResult",
    "Similar",
    "Symbol",
    "SymbolsParams",
    "SymbolsResult",
    "VectorsSearchParams",
    "VectorsSearchResult",
]

# --------------------------------------------------------------------------- parameters

VECTOR_NUMBERS = 65_536
"""So long is a query's vector at most, many times what any model gives."""

# Each store looks for these on the event loop or near it, so they are no longer than a path can be.
_Name = Annotated[str, Meta(max_length=4_096)]
_Vector = Annotated[list[float], Meta(max_length=VECTOR_NUMBERS)]


class SymbolsParams(Params):
    """`limit` is clamped to 1..1000; unless `exact`, names that begin so and `Owner.member` count too."""

    name: _Name
    exact: bool = False
    limit: Int = 20
    stores: list[str] | None = None
    formats: list[str] | None = None
    deadline_ms: Int | None = None
    sync: bool = False


class ReferencesParams(Params):
    """`name` may be `Owner.member`; `path` is a file or folder; `limit` is clamped to 1..1000."""

    name: _Name
    kind: ReferenceKind = "all"
    path: _Name | None = None
    limit: Int = 50
    stores: list[str] | None = None
    formats: list[str] | None = None
    deadline_ms: Int | None = None
    sync: bool = False


class ImpactParams(Params):
    """`target` is a file, a symbol, `Owner.member` or a path's end; `depth` is clamped to 1..10.

    `up` is towards those who depend on the target; `limit` is clamped to 1..1000.
    """

    target: _Name
    direction: Direction = "up"
    depth: Int = 2
    limit: Int = 200
    stores: list[str] | None = None
    formats: list[str] | None = None
    deadline_ms: Int | None = None
    sync: bool = False


class ChunkParams(Params):
    """A place in a file of the project; without `store`, of any project. An absolute path is one too."""

    path: _Name
    line: Int
    store: str | None = None
    deadline_ms: Int | None = None
    sync: bool = False


class ArchitectureParams(Params):
    """The store whose report is wanted."""

    store: str
    deadline_ms: Int | None = None
    sync: bool = False


class VectorsSearchParams(Params):
    """`vector` has finite numbers, not all zero; `limit` is clamped to 1..1000.

    With `model`, stores whose vectors another model made do not answer.
    """

    vector: _Vector
    model: _Name | None = None
    limit: Int = 10
    stores: list[str] | None = None
    formats: list[str] | None = None
    deadline_ms: Int | None = None
    sync: bool = False


# --------------------------------------------------------------------------- results


class Symbol(Struct):
    """A definition; `qualified` names what encloses it in its file, `Class.method`."""

    store: str
    name: str
    qualified: str | None
    kind: str
    path: str
    line_start: int
    line_end: int
    sha256: str
    signature: str | None


class SymbolsResult(Struct):
    """Definitions by name, path, line and store, all found in the best way in which any store has some.

    `how` is that way, None where there are none; `more` others begin with the name.
    """

    symbols: list[Symbol]
    how: How | None
    more: int
    truncated: bool
    complete: bool
    stores: Answered


class PartialGraph(Struct):
    """A store whose graph knows its languages in part only: which, and why."""

    store: str
    languages: list[str]
    reason: str | None


class Reference(Struct):
    """A place where a name is used or defined; `receiver` is what it was called on, `caller` by whom."""

    store: str
    path: str
    line: int
    kind: str
    confidence: str | None
    target: str | None
    receiver: str | None
    caller: str | None
    sha256: str


class ReferencesResult(Struct):
    """References by path, line, kind and store, then each `possible_call`, the likelier ones first.

    `coverage` names those of their stores that know but a part.
    """

    references: list[Reference]
    coverage: list[PartialGraph]
    truncated: bool
    complete: bool
    stores: Answered


class Node(Struct):
    """What a walk came to, `distance` edges from the target; `kind` is `symbol` or `file`."""

    store: str
    kind: str
    path: str
    name: str
    line_start: int | None
    distance: int
    via_edge: str
    via_confidence: str | None
    sha256: str


class File(Struct):
    """A file of a project."""

    store: str
    path: str


class ImpactResult(Struct):
    """Nodes by distance, confidence, path, kind, name, line, edge and store; files by distance, path, store.

    `known_in` are the stores that have the target; elsewhere there is nothing to walk from.
    """

    nodes: list[Node]
    files: list[File]
    known_in: list[str]
    coverage: list[PartialGraph]
    truncated: bool
    complete: bool
    stores: Answered


class Chunk(Struct):
    """What stood at a line when its file was indexed; `symbol` is the smallest around it."""

    store: str
    id: str
    ref: str
    path: str
    line_start: int
    line_end: int
    kind: str
    text: str
    sha256: str
    symbol: Symbol | None


class ChunkResult(Struct):
    """One chunk of each store that has the file and the line, by store."""

    chunks: list[Chunk]
    truncated: bool
    complete: bool
    stores: Answered


class ArchitectureResult(Struct):
    """The report that the program left in the store, as it is; None if there is none."""

    store: str
    report: dict[str, Any] | None


class Similar(Struct):
    """A record whose vector is near; `score` is the metric's own, `text` its beginning, for `read` has all.

    `direction` says whether a higher or a lower score is better.
    """

    store: str
    id: str
    ref: str
    doc: str
    heading_path: str
    kind: str
    text: str
    score: float
    metric: Metric
    direction: Better
    model: str


class VectorsSearchResult(Struct):
    """One ranked list; `order` is `score` where all hits' metric and model are one, else `rank`.

    By `rank` a hit stands as high as in its own store's list, for scores of two kinds cannot be compared.
    """

    hits: list[Similar]
    order: Literal["score", "rank"]
    truncated: bool
    complete: bool
    stores: Answered
