"""Exit codes, as a function of the answer (DESIGN §7)."""

from collections.abc import Mapping

from msgspec import Struct

from collated import protocol
from collated.errors import CollatedError, RequestFailed

__all__ = ["FOUND", "INTERRUPTED", "NOTHING", "PARTIAL", "UNREACHABLE", "USAGE", "of_error", "of_result"]

FOUND = 0
NOTHING = 1
USAGE = 2
PARTIAL = 3
UNREACHABLE = 69  # EX_UNAVAILABLE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT

# Every other code of `errors.CODES` is a request that was wrong: usage.
_OF_CODE: Mapping[str, int] = {
    "unknown_store": NOTHING,
    "unknown_id": NOTHING,
    "EnforceUnknownRelation": NOTHING,
    "RetrieveTableUnavailable": NOTHING,
    "StoreUnknownTable": NOTHING,
    "ErasureTransactionIncomplete": PARTIAL,
    "ReadBackendAbsent": PARTIAL,
    "ReadDurationExceeded": PARTIAL,
    "ReadPartUnavailable": PARTIAL,
    "StoreEncryptionKeyUnbound": PARTIAL,
    "StoreManifestUnreadable": PARTIAL,
    "store_unavailable": PARTIAL,
    "deadline_exceeded": PARTIAL,
    "overloaded": UNREACHABLE,
    "draining": UNREACHABLE,
    "cancelled": UNREACHABLE,
    "internal": UNREACHABLE,
    "daemon_unreachable": UNREACHABLE,
}


# The field of a result that holds what was found; whoever has another one has always found something.
_FOUND: Mapping[type[Struct], str] = {
    protocol.SearchResult: "hits",
    protocol.GrepResult: "matches",
    protocol.StoresResult: "stores",
    protocol.IndexResult: "text",
    protocol.SymbolsResult: "symbols",
    protocol.ReferencesResult: "references",
    protocol.ImpactResult: "nodes",
    protocol.ChunkResult: "chunks",
    protocol.ArchitectureResult: "report",
    protocol.VectorsSearchResult: "hits",
    protocol.ContextTable: "rows",
}


def of_result(result: Struct) -> int:
    """Return the exit code of a method's result."""
    if not getattr(result, "complete", True):
        return PARTIAL
    field = _FOUND.get(type(result))
    return FOUND if field is None or getattr(result, field) else NOTHING


def of_error(error: CollatedError) -> int:
    """Return the exit code of an error, by its code."""
    code = error.code if isinstance(error, RequestFailed) else type(error).code
    return _OF_CODE.get(code, USAGE)
