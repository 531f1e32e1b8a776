"""The wire, as msgspec Structs: requests, results, notifications (DESIGN §6).

What all methods share is in `protocol_rpc`, what is found and read in `protocol_search`, code and vector
stores in `protocol_code`; all of it is exported from here. The JSON Schema that `collate schema` prints is
made from these. Fields are only ever appended, with defaults; names are never retyped or reused.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from .protocol_code import (
    VECTOR_NUMBERS,
    ArchitectureParams,
    ArchitectureResult,
    Chunk,
    ChunkParams,
    ChunkResult,
    File,
    ImpactParams,
    ImpactResult,
    Node,
    PartialGraph,
    Reference,
    ReferencesParams,
    ReferencesResult,
    Similar,
    Symbol,
    SymbolsParams,
    SymbolsResult,
    VectorsSearchParams,
    VectorsSearchResult,
)
from .protocol_context import (
    ContextAnswer,
    ContextParams,
    ContextTable,
    DescribeParams,
    ExecuteQueryParams,
    FileParams,
    FilesParams,
    LineageParams,
    QueryParams,
    RecallParams,
    ReferenceParams,
    RetrieveParams,
    SubscribeRunsParams,
)
from .protocol_rpc import (
    NO_STORES,
    Answered,
    Envelope,
    ErrorData,
    ErrorObject,
    ErrorResponse,
    Failure,
    Id,
    Int,
    Notification,
    Params,
    Request,
    Response,
)
from .protocol_search import (
    ContextRecord,
    GrepParams,
    GrepResult,
    Hit,
    IndexParams,
    IndexResult,
    Match,
    Mode,
    NeighboursParams,
    NeighboursResult,
    Partial,
    PartialHit,
    Ranking,
    ReadParams,
    ReadResult,
    Record,
    SearchParams,
    SearchResult,
    Statistics,
)

__all__ = [
    "METHODS",
    "NOTIFICATIONS",
    "NO_STORES",
    "PROTOCOL_VERSION",
    "VECTOR_NUMBERS",
    "Answered",
    "ArchitectureParams",
    "ArchitectureResult",
    "Chunk",
    "ChunkParams",
    "ChunkResult",
    "ContextAnswer",
    "ContextParams",
    "ContextRecord",
    "ContextTable",
    "DescribeParams",
    "Envelope",
    "ErrorData",
    "ErrorObject",
    "ErrorResponse",
    "ExecuteQueryParams",
    "Failure",
    "File",
    "FileParams",
    "FilesParams",
    "GrepParams",
    "GrepResult",
    "Hit",
    "Id",
    "ImpactParams",
    "ImpactResult",
    "IndexParams",
    "IndexResult",
    "Int",
    "LineageParams",
    "Match",
    "Method",
    "Mode",
    "NeighboursParams",
    "NeighboursResult",
    "Node",
    "Notification",
    "Params",
    "Partial",
    "PartialGraph",
    "PartialHit",
    "QueryParams",
    "Ranking",
    "ReadParams",
    "ReadResult",
    "RecallParams",
    "Record",
    "Reference",
    "ReferenceParams",
    "ReferencesParams",
    "ReferencesResult",
    "Request",
    "Response",
    "RetrieveParams",
    "SearchParams",
    "SearchResult",
    "Similar",
    "Statistics",
    "SubscribeRunsParams",
    "Symbol",
    "SymbolsParams",
    "SymbolsResult",
    "VectorsSearchParams",
    "VectorsSearchResult",
    "schema",
]

PROTOCOL_VERSION = 1

# --------------------------------------------------------------------------- parameters


class NoParams(Params):
    """Nothing."""


class ClientInfo(Struct):
    """Who is asking, for the log."""

    name: str = ""
    version: str = ""


class InitializeParams(Struct):
    """Tolerant of unknown fields, unlike all others, so that old and new can meet.

    `require` are methods, formats and backends without which the client would rather not go on.
    """

    client: ClientInfo | None = None
    protocol: Int = PROTOCOL_VERSION
    require: list[str] = field(default_factory=list[str])


class StoresParams(Params):
    """Which stores to list; nothing means all."""

    stores: list[str] | None = None
    formats: list[str] | None = None


class SubscribeParams(Params):
    """The whole set of topics wanted on this connection; an empty list ends all."""

    topics: list[Literal["stores/changed"]]


class CacheParams(Params):
    """Whether to remove all sidecars; they are made anew afterwards."""

    clear: bool = False


class CancelParams(Params):
    """The request to cancel."""

    id: Id


# --------------------------------------------------------------------------- results


class Reason(Struct, frozen=True):
    """Why a store is not open; `code` is a key of `collated_readers.STORE_CODES`."""

    code: str
    message: str


class StoreStatus(Struct):
    """One store, open or not. `root` is the project directory, for local clients.

    `details` is what its format has to say of it, such as when it was built; more comes in the background.
    """

    name: str
    path: str
    root: str | None
    format: str | None
    schema_version: str | None
    state: str
    reason: Reason | None
    fingerprint: str | None
    documents: int | None
    records: int | None
    bytes: int | None
    capabilities: list[str]
    details: dict[str, Any] = field(default_factory=dict[str, Any])


class InitializeResult(Struct):
    """What this daemon speaks. `backends` are what it asks context stores with."""

    protocol: int
    server: dict[str, str]
    framing: str
    methods: list[str]
    formats: dict[str, str]
    limits: dict[str, float]
    backends: list[str] = field(default_factory=list[str])


class PingResult(Struct):
    """Alive."""


class StatusResult(Struct):
    """How the daemon is. `engines` are the worker processes that read context stores."""

    version: str
    pid: int
    uptime_s: float
    socket: str
    config: str | None
    config_error: str | None
    stores: dict[str, int]
    cache: dict[str, int]
    memory: dict[str, int]
    watch: dict[str, Any]
    connections: int
    in_flight: int
    sidecars: dict[str, Any] = field(default_factory=dict[str, Any])
    engines: dict[str, Any] = field(default_factory=dict[str, Any])


class StoresResult(Struct):
    """In store order."""

    stores: list[StoreStatus]


class Changes(Struct):
    """Names of stores: the result of `rescan` and the parameters of `stores/changed`."""

    added: list[str]
    changed: list[str]
    removed: list[str]


class ReloadResult(Struct):
    """The settings that changed (`section.key`), and the stores that came or went with them."""

    settings: list[str]
    stores: Changes


class CacheEntry(Struct):
    """An open store's sidecar: its bytes are its share of a file that holds several.

    `state` is `ready`, `building`, `waiting` or `refused`; `reason` says why it is refused, or what
    failed the last time. Its code is one of a store, or `not_offered` (the store has no index to make
    it of), `over_budget`, `too_large`, `memory` or `worker_died`.
    """

    store: str
    fingerprint: str
    records: int
    bytes: int
    state: str
    reason: Reason | None


class CacheResult(Struct):
    """The sidecars by store, and what they take; `limit_bytes` is 0 where they are turned off."""

    directory: str
    bytes: int
    limit_bytes: int
    freed_bytes: int
    error: str | None
    entries: list[CacheEntry]


class SubscribeResult(Struct):
    """The topics now in force on this connection."""

    topics: list[str]


class Progress(Struct):
    """The parameters of `$/progress`."""

    token: Id
    value: Partial


# --------------------------------------------------------------------------- the table


class Method(Struct, frozen=True):
    """One row of DESIGN §6's table."""

    params: type[Any]
    result: type[Any]


METHODS: Mapping[str, Method] = {
    "initialize": Method(InitializeParams, InitializeResult),
    "ping": Method(NoParams, PingResult),
    "status": Method(NoParams, StatusResult),
    "stores": Method(StoresParams, StoresResult),
    "search": Method(SearchParams, SearchResult),
    "read": Method(ReadParams, ReadResult),
    "grep": Method(GrepParams, GrepResult),
    "neighbours": Method(NeighboursParams, NeighboursResult),
    "index": Method(IndexParams, IndexResult),
    "symbols": Method(SymbolsParams, SymbolsResult),
    "references": Method(ReferencesParams, ReferencesResult),
    "impact": Method(ImpactParams, ImpactResult),
    "chunk": Method(ChunkParams, ChunkResult),
    "architecture": Method(ArchitectureParams, ArchitectureResult),
    "vectors.search": Method(VectorsSearchParams, VectorsSearchResult),
    "context.describe": Method(DescribeParams, ContextAnswer),
    "context.query": Method(QueryParams, ContextTable),
    "context.reference": Method(ReferenceParams, ContextAnswer),
    "context.execute_query": Method(ExecuteQueryParams, ContextTable),
    "context.files": Method(FilesParams, ContextAnswer),
    "context.file": Method(FileParams, ContextTable),
    "context.lineage": Method(LineageParams, ContextAnswer),
    "context.subscribe": Method(SubscribeRunsParams, ContextAnswer),
    "corpus.retrieve": Method(RetrieveParams, ContextTable),
    "memory.recall": Method(RecallParams, ContextTable),
    "rescan": Method(NoParams, Changes),
    "reload": Method(NoParams, ReloadResult),
    "cache": Method(CacheParams, CacheResult),
    "subscribe": Method(SubscribeParams, SubscribeResult),
    "$/cancelRequest": Method(CancelParams, PingResult),
}

NOTIFICATIONS: Mapping[str, type[Any]] = {"stores/changed": Changes, "$/progress": Progress}


def schema() -> dict[str, Any]:
    """Return the whole protocol as one JSON Schema document (draft 2020-12), keys sorted."""
    types: list[type[Any]] = [ErrorResponse]
    for method in METHODS.values():
        types += [method.params, method.result]
    types += NOTIFICATIONS.values()
    unique = list(dict.fromkeys(types))
    shown, definitions = msgspec.json.schema_components(unique, ref_template="#/$defs/{name}")
    by_type = dict(zip(unique, shown, strict=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "collated wire protocol",
        "description": "JSON-RPC 2.0; see README and DESIGN §6",
        "protocol": PROTOCOL_VERSION,
        "methods": {
            name: {"params": by_type[method.params], "result": by_type[method.result]}
            for name, method in METHODS.items()
        },
        "notifications": {name: {"params": by_type[params]} for name, params in NOTIFICATIONS.items()},
        "error": by_type[ErrorResponse],
        "$defs": dict(sorted(definitions.items())),
    }
