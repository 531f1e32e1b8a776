"""One `[[pipeline.tables]]` block: what it says of reads, or why its table is withheld (layout §3). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from .instants import parse_age
from .model import Declared, Limits, Retention, ValidTime
from .parsing import is_object
from .schemas import declared_columns

__all__ = ["declared_of", "is_restricting"]

_ENTRY = re.compile(r"\*|local:device|(?:on-prem|private-cloud|public-cloud):(?:\*|[^\s*]+)")

_Count = Annotated[int, Meta(ge=0)]
_RESTRICTING = ("policy", "class", "visibility", "view", "zone")


class _ValidTime(Struct, forbid_unknown_fields=True, rename={"since": "from", "until": "to"}):
    since: str
    until: str | None = None


class _RetainRows(Struct, forbid_unknown_fields=True):
    column: str
    age: str


class _Retrieve(Struct, forbid_unknown_fields=True):
    text: tuple[str, ...] | None = None


class _Limits(Struct, forbid_unknown_fields=True):
    max_rows: _Count | None = None
    max_duration_ms: _Count | None = None
    max_response_bytes: _Count | None = None


class _Zone(Struct, forbid_unknown_fields=True):
    allow: tuple[str, ...]
    protected_class_override: Any = None  # it lifts a floor of classes, and those are withheld anyway


class _Policy(Struct, forbid_unknown_fields=True):
    limits: _Limits = msgspec.field(default_factory=_Limits)
    zone: _Zone | None = None
    rows: Any = None
    columns: dict[str, Any] = {}
    redistribution: Any = None  # what leaves the machine, which no read does


class _Block(Struct, forbid_unknown_fields=True, rename={"class_": "class"}):
    """Every key that the format has; one more might restrict reads, so it is refused."""

    name: str
    primary_key: tuple[str, ...] = ()
    order_by: str | None = None
    write_mode: Literal["append", "replace"] = "append"
    valid_time: _ValidTime | None = None
    available_time: Any = None
    columns: dict[str, str] = {}
    partition_by: tuple[str, ...] = ()
    cluster_by: Any = None
    retain_rows: _RetainRows | None = None
    retain_runs: Any = None
    retain_versions: bool = False
    content_hash_column: str | None = None
    indexes: tuple[dict[str, Any], ...] = ()
    agent_description: str | None = None
    agent_hint: str | None = None
    example_queries: tuple[str, ...] = ()
    column_hints: dict[str, str] = {}
    result_cache: Any = None
    private: Any = None
    retrieve: _Retrieve = msgspec.field(default_factory=_Retrieve)
    policy: _Policy = msgspec.field(default_factory=_Policy)
    class_: Any = None
    visibility: Any = None
    view: Any = None
    redaction: Any = None  # this and what follows is about writing, sending and erasing
    subject_id: Any = None
    replicate: Any = None
    snapshot: Any = None
    erasure_key: Any = None
    referenced_by: Any = None
    on_erase: Any = None


def declared_of(name: str, block: Mapping[str, Any]) -> Declared:
    """Return what *block* declares of the table *name*; withheld where that cannot be kept to."""
    try:
        found = msgspec.convert({**block, "name": name}, _Block)
        return _declared(found)
    except (ValueError, RecursionError) as error:  # msgspec's own is a ValueError
        return Declared(name, withheld=f"its declaration is not understood: {error!s:.200}")


def is_restricting(block: Mapping[str, Any]) -> bool:
    """Tell whether a block of another kind than `[[pipeline.tables]]` restricts who may read."""
    return any(key in block for key in _RESTRICTING)


def _declared(block: _Block) -> Declared:
    since, rows = block.valid_time, block.retain_rows
    limits = block.policy.limits
    return Declared(
        name=block.name,
        primary_key=block.primary_key,
        order_by=block.order_by,
        write_mode=block.write_mode,
        valid_time=ValidTime(since.since, since.until) if since else None,
        columns=declared_columns(block.columns),
        partition_by=block.partition_by,
        retain_rows=Retention(rows.column, parse_age(rows.age)) if rows else None,
        retain_versions=block.retain_versions,
        content_hash_column=block.content_hash_column,
        retrieve_text=block.retrieve.text,
        indexes=tuple(msgspec.to_builtins(one) for one in block.indexes),
        description=block.agent_description,
        hint=block.agent_hint,
        column_hints=block.column_hints,
        example_queries=block.example_queries,
        limits=Limits(limits.max_rows, limits.max_duration_ms, limits.max_response_bytes),
        zone_allow=block.policy.zone.allow if block.policy.zone else None,
        withheld=_withheld(block),
        available_time=_available_time(block.available_time),
        result_cache_ns=_result_cache(block),
    )


def _available_time(declared: object) -> str | None:
    """Return the declared column, None for a spelling that is not known: such reads are refused."""
    column = declared.get("column") if is_object(declared) else declared
    return column if isinstance(column, str) else None


def _result_cache(block: _Block) -> int | None:
    """Return for how long rows may be given again; anything that is not understood keeps them from it."""
    if not isinstance(block.result_cache, str) or block.private not in (None, False):
        return None
    with suppress(ValueError):
        return parse_age(block.result_cache)
    return None


def _withheld(block: _Block) -> str | None:
    """Return the first reason why the table may not be served to anybody here."""
    policy = block.policy
    reasons = {
        "it has a policy of rows": policy.rows is not None,
        "it has a policy of columns": bool(policy.columns),
        "it has a class": block.class_ is not None,
        "it has a visibility": block.visibility is not None,
        "it is restricted by a view": block.view is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            return f"{reason}, which is not evaluated here"
    return _unknown_zone(policy.zone.allow) if policy.zone else None


def _unknown_zone(allow: tuple[str, ...]) -> str | None:
    """Return why nobody knows what a zone admits. One that is known may admit nobody here: see `admits`."""
    unknown = [entry for entry in allow if not _ENTRY.fullmatch(entry)]
    return f"its zone has an entry that is not known: {unknown[0]!r:.80}" if unknown else None
