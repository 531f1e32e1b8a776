"""The wire's part on context stores: the seed's tools, each with the `store` it is asked of.

Arguments and answers are the seed's (seeds/002, formats/contextful/readface.md); the `code` of an error is
the seed's identifier. Bounds are instants (`2030-01-31T00:00:00Z`, inclusive) or dates (the whole day).
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from .protocol_rpc import Int, Params

__all__ = [
    "ContextAnswer",
    "ContextParams",
    "ContextTable",
    "DescribeParams",
    "ExecuteQueryParams",
    "FileParams",
    "FilesParams",
    "LineageParams",
    "QueryParams",
    "RecallParams",
    "ReferenceParams",
    "RetrieveParams",
    "SubscribeRunsParams",
]

_Sql = Annotated[str, Meta(max_length=65_536)]
_Vector = Annotated[list[float], Meta(max_length=65_536)]
_Value = str | int | float | bool


class ContextParams(Params, omit_defaults=True, kw_only=True):
    """What all tools take; ceilings have no defaults, and `internals` adds how the answer was made."""

    store: str
    internals: bool = False
    deadline_ms: Int | None = None
    sync: bool = False


class BudgetParams(ContextParams, omit_defaults=True, kw_only=True):
    """A tool whose answer can be held to a time and a size."""

    max_duration_ms: Int | None = None
    max_response_bytes: Int | None = None


class BoundParams(BudgetParams, omit_defaults=True, kw_only=True):
    """A tool that reads under bounds; `pin` names builds of published models, by table."""

    as_of: str | None = None
    valid_as_of: str | None = None
    available_as_of: str | None = None
    pin: dict[str, str | None] | None = None


class DescribeParams(BoundParams, omit_defaults=True, kw_only=True):
    """One table, or all."""

    table: str | None = None


class Parameter(Struct, forbid_unknown_fields=True):
    """A typed value for a placeholder `$name` or `$1`; nothing is coerced."""

    type: Literal["integer", "float", "string", "timestamp", "boolean"]
    value: _Value


class QueryParams(BoundParams, omit_defaults=True, kw_only=True):
    """One read-only SELECT over the store's tables."""

    sql: _Sql
    parameters: dict[str, Parameter] | None = None


class ReferenceParams(BoundParams, omit_defaults=True, kw_only=True):
    """One row, by the run that landed it and its number there."""

    table: str
    run_id: str
    row_seq: Int


class ExecuteQueryParams(BoundParams, omit_defaults=True, kw_only=True):
    """A template of the store's declaration, and all of its arguments."""

    id: str
    arguments: dict[str, _Value] | None = None


class FilesParams(BoundParams, omit_defaults=True, kw_only=True):
    """The files that tables are read from; of the bounds `as_of` alone counts."""


class FileParams(BoundParams, omit_defaults=True, kw_only=True):
    """The rows of one run's part, as the table shows them."""

    path: str


class LineageParams(BudgetParams, omit_defaults=True, kw_only=True):
    """The seed's arguments; no store here keeps an applied graph, so it is refused."""

    table: str | None = None
    direction: Literal["up", "down", "both"] | None = None
    depth: Int | None = None


class SubscribeRunsParams(ContextParams, omit_defaults=True, kw_only=True):
    """Runs committed after positions `RUN/NODE`; ask again with the `after` of the answer."""

    tables: list[str]
    after: dict[str, str] | None = None


class RetrieveParams(BoundParams, omit_defaults=True, kw_only=True):
    """Ranked rows of the tables whose name begins with `prefix`, of `tables` alone where given.

    `filter` maps columns to a value or a list of values; what is wrong with it is `FilterBudgetExceeded`.
    """

    query: str
    prefix: str = ""
    tables: list[str] | None = None
    query_embedding: _Vector | None = None
    filter: Any = None
    kinds: Any = None
    limit: Int | None = None
    since: str | None = None
    min_score: Int | None = None


class RecallParams(BudgetParams, omit_defaults=True, kw_only=True):
    """Claims of one subject, true at `observed_at` as far as had landed at `as_of_ingest`."""

    table: str
    subject: str
    observed_at: str | None = None
    as_of_ingest: str | None = None
    limit: Int | None = None
    pin: dict[str, str | None] | None = None


class ContextTable(Struct, omit_defaults=True, kw_only=True):
    """A table of cells, each JSON by the SQL type of its column, and what was bound, cut or withheld."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool
    bounds: dict[str, Any] | None = field(default=None, name="contextful.bounds")
    resolved: dict[str, Any] | None = field(default=None, name="contextful.resolved")
    restriction: dict[str, Any] | None = field(default=None, name="contextful.restriction")
    retrieval: dict[str, Any] | None = field(default=None, name="contextful.retrieval")
    truncation: dict[str, Any] | None = field(default=None, name="contextful.truncation")
    internals: dict[str, Any] | None = field(default=None, name="contextful.internals")
    recall: dict[str, Any] | None = field(default=None, name="contextful.recall")


ContextAnswer = dict[str, Any]
"""An answer that is no table; its keys are the seed's."""
