"""Which nodes of the engine's serialized tree are known to be harmless, of DuckDB 2.0.1.

A node is an object with a `type`; an expression has a `class` too. What is not named here is refused: the
body of a `WITH` may be a COPY or an INSERT (guard.md §9), and a new release may bring more of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = [
    "SQL_TYPES",
    "SYSTEM_SCHEMAS",
    "is_known_expression",
    "is_known_node",
    "is_known_setting",
    "is_query",
]

_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"})
_TABLES = frozenset({"BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY"})
_MODIFIERS = frozenset({"DISTINCT_MODIFIER", "LIMIT_MODIFIER", "ORDER_MODIFIER"})
_ORDERS = frozenset({"ASCENDING", "DESCENDING", "ORDER_DEFAULT"})

_NODES = _QUERIES | _TABLES | _MODIFIERS | _ORDERS

_COMPARISONS = frozenset({
    "COMPARE_DISTINCT_FROM",
    "COMPARE_EQUAL",
    "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_LESSTHAN",
    "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_NOTEQUAL",
    "COMPARE_NOT_DISTINCT_FROM",
})  # fmt: skip

_OPERATORS = frozenset({
    "ARRAY_CONSTRUCTOR",
    "ARRAY_EXTRACT",
    "ARRAY_SLICE",
    "COMPARE_IN",
    "COMPARE_NOT_IN",
    "GROUPING_FUNCTION",
    "OPERATOR_COALESCE",
    "OPERATOR_IS_NOT_NULL",
    "OPERATOR_IS_NULL",
    "OPERATOR_NOT",
    "OPERATOR_TRY",
    "OPERATOR_UNPACK",
    "STRUCT_EXTRACT",
})  # fmt: skip

_WINDOWS = frozenset({
    "WINDOW_AGGREGATE",
    "WINDOW_CUME_DIST",
    "WINDOW_FILL",
    "WINDOW_FIRST_VALUE",
    "WINDOW_LAG",
    "WINDOW_LAST_VALUE",
    "WINDOW_LEAD",
    "WINDOW_NTH_VALUE",
    "WINDOW_NTILE",
    "WINDOW_PERCENT_RANK",
    "WINDOW_RANK",
    "WINDOW_RANK_DENSE",
    "WINDOW_ROW_NUMBER",
})  # fmt: skip

_EXPRESSIONS: Mapping[str, frozenset[str]] = {
    "BETWEEN": frozenset({"COMPARE_BETWEEN", "COMPARE_NOT_BETWEEN"}),
    "CASE": frozenset({"CASE_EXPR"}),
    "CAST": frozenset({"OPERATOR_CAST"}),
    "COLLATE": frozenset({"COLLATE"}),
    "COLUMN_REF": frozenset({"COLUMN_REF"}),
    "COMPARISON": _COMPARISONS,
    "CONJUNCTION": frozenset({"CONJUNCTION_AND", "CONJUNCTION_OR"}),
    "CONSTANT": frozenset({"VALUE_CONSTANT"}),
    "FUNCTION": frozenset({"FUNCTION"}),
    "LAMBDA": frozenset({"LAMBDA"}),
    "OPERATOR": _OPERATORS,
    "PARAMETER": frozenset({"VALUE_PARAMETER"}),
    "POSITIONAL_REFERENCE": frozenset({"POSITIONAL_REFERENCE"}),
    "STAR": frozenset({"STAR"}),
    "SUBQUERY": frozenset({"SUBQUERY"}),
    "TYPE": frozenset({"TYPE"}),
    "WINDOW": _WINDOWS,
}

# (type of node, key) -> what may stand there
_SETTINGS: Mapping[tuple[str, str], frozenset[Any]] = {
    ("SET_OPERATION_NODE", "setop_type"): frozenset({"EXCEPT", "INTERSECT", "UNION", "UNION_BY_NAME"}),
    ("JOIN", "ref_type"): frozenset({"ASOF", "CROSS", "NATURAL", "POSITIONAL", "REGULAR"}),
    ("BASE_TABLE", "at_clause"): frozenset({None}),  # another state than the one that the bounds are for
    ("FUNCTION", "export_state"): frozenset({False}),  # the engine's own bytes
}

_SQL_TYPES = """
    array bigint bignum binary bit bitstring blob bool boolean bpchar bytea char date datetime dec decimal
    double enum float float4 float8 guid hugeint int int1 int128 int16 int2 int32 int4 int64 int8 integer
    integral interval json list logical long map numeric nvarchar real row short signed smallint string
    struct text time time_ns timestamp timestamp_ms timestamp_ns timestamp_s timestamp_us timestamptz
    timestamptz_ns timetz tinyint tuple ubigint uhugeint uint128 uint16 uint32 uint64 uint8 uinteger union
    usmallint utinyint uuid varbinary varchar variant varint
    """

SQL_TYPES = frozenset(_SQL_TYPES.split()) | {"time with time zone", "timestamp with time zone"}
"""The types that a value may be cast to, in lower case: those of values, none that holds engine state."""

SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog", "system", "temp"})
"""The catalogs and schemas that are the engine's own (guard.md §2), in lower case."""


def is_query(node: Any) -> bool:
    """Tell whether *node* is a query that only reads: what a statement is."""
    return isinstance(node, dict) and cast("dict[str, Any]", node).get("type") in _QUERIES


def is_known_node(kind: str) -> bool:
    """Tell whether a node that is no expression may be in a statement."""
    return kind in _NODES


def is_known_expression(class_: Any, kind: str) -> bool:
    """Tell whether an expression of this class and type may be in a statement."""
    return isinstance(class_, str) and kind in _EXPRESSIONS.get(class_, ())


def is_known_setting(kind: str, node: Mapping[str, Any]) -> bool:
    """Tell whether a node's own settings are known: its set operation, the kind of its join."""
    return all(node.get(key) in known for (of, key), known in _SETTINGS.items() if of == kind)
