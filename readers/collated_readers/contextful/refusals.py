"""The refusals of context stores: the seed's identifiers, which are the `code` of a wire error."""

from __future__ import annotations

from collections.abc import Mapping

from collated_readers.codes import RequestError

__all__ = ["IDENTIFIERS", "refused"]

# identifier -> when. Part of the API: never reworded or reused (guard.md §8, layout.md §10).
IDENTIFIERS: Mapping[str, str] = {
    "StatementNotReadOnly": "a statement that is not exactly one read-only SELECT",
    "TableFunctionRefused": "a statement with a table function, or one that reaches into a catalog",
    "FunctionRefused": "a statement with a function that is not known to be harmless",
    "EnforceUnknownRelation": "a relation that is not one of the store's tables",
    "LedgerNotTenantScoped": "a request ledger that is closed, and what closed it",
    "QueryParameterRejected": "a parameter that is missing, unused, positional or of another type",
    "TemplateArgumentRejected": "an argument of a template that is missing, unknown or of another type",
    "TemplateNamesForeignRelation": "a template that names something else than the store's tables",
    "QueryNotOneStatement": "text that is not one statement",
    "QueryProjectAbsent": "a project without a store",
    "FilePreviewNotATable": "a path that is no part of a committed run",
    "ReadDurationExceeded": "a statement that was stopped at its ceiling of time",
    "ReadResponseTooLarge": "a response whose envelope or first row is over its ceiling of bytes",
    "FilterBudgetExceeded": "a filter that is malformed or too large",
    "RetrieveTableUnavailable": "tables to retrieve from that the store does not have",
    "PinnedBuildUnavailable": "a build that is not, or no longer, there",
    "RequiredFaceAbsent": "a backend that was required and is not there",
    "ReadBackendAbsent": "no engine to read the store with",
    "ReadPartUnavailable": "a part that a manifest names and that is not there",
    "ReadArgumentUnsupported": "an argument or a tool that is not built here",
    "SubscriptionPositionUnavailable": "a position that names no committed run",
    "StoreManifestUnreadable": "a manifest, pointer or schema that cannot be read",
    "StoreUnknownTable": "no table of that name",
    "StoreAsOfUnretained": "an instant before the oldest state that is kept",
    "StoreValidTimeUndeclared": "a table that declares no valid time",
    "StoreAvailableTimeUndeclared": "a table that declares no available time",
    "StoreValidTimeNotTimestamp": "a declared valid time that is no timestamp",
    "StoreOrderByUnknownColumn": "a declared order by a column that the table lacks",
    "StoreKeyUnknownColumn": "a declared key of a column that the table lacks",
    "StoreEncryptionKeyUnbound": "an encrypted store, whose key nobody has here",
    "ErasureTransactionIncomplete": "a store with an erasure frontier, which cannot be verified here",
    "engine_error": "what the engine says of a statement",
}


def refused(identifier: str, message: str, suggestion: str | None = None) -> RequestError:
    """Return the error *identifier*, one of `IDENTIFIERS`; its text begins with it."""
    assert identifier in IDENTIFIERS, identifier  # noqa: S101 - ours to get right
    return RequestError(identifier, f"{identifier}: {message}", suggestion)
