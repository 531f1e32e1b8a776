"""ASOF JOIN: each row with what was to be had at its instant, never with what came later. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, cast

from collated_readers.contextful.guard import Judged
from collated_readers.contextful.model import ContextStore
from collated_readers.contextful.refusals import refused

__all__ = ["check_asof"]

_Node = Mapping[str, Any]

# type of comparison -> the side on which the earlier instant stands
_EARLIER = {
    "COMPARE_GREATERTHANOREQUALTO": "right",
    "COMPARE_GREATERTHAN": "right",
    "COMPARE_LESSTHANOREQUALTO": "left",
    "COMPARE_LESSTHAN": "left",
}
_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")


def check_asof(store: ContextStore, tree: Any, judged: Judged) -> None:
    """Refuse an ASOF JOIN whose right side does not say when its rows were to be had, or not by that time.

    By valid time a row would be joined with what was only known after it. Values that the statement itself
    brings may be joined as it likes.

    Raises:
        RequestError: `StoreAvailableTimeUndeclared`, naming the table.
    """
    declared = {name: _available_time(store, name) for name in judged.asof_rights}
    for name, column in declared.items():
        if column is None:
            raise _undeclared(f"{name!r:.200} stands right of an ASOF JOIN and declares no available_time")
    columns = {column.casefold() for column in declared.values() if column is not None}
    if columns and not all(_is_by(columns, join) for join in _joins(tree)):
        shown = ", ".join(f"{column!r:.80} of {name!r:.80}" for name, column in declared.items())
        raise _undeclared(f"an ASOF JOIN asks for what was available by then: join where it is >= {shown}")


def _available_time(store: ContextStore, name: str) -> str | None:
    table = store.tables.get(name)
    return None if table is None else table.declared.available_time


def _undeclared(message: str) -> Exception:
    return refused("StoreAvailableTimeUndeclared", message)


def _joins(tree: Any) -> Iterator[_Node]:
    """Yield the ASOF JOINs of a statement that was judged, and so is not too deep."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found = cast("_Node", node)  # JSON, whose names are text
            if found.get("ref_type") == "ASOF":
                yield found
            waiting += found.values()
        elif isinstance(node, list):
            waiting += cast("Sequence[Any]", node)


def _is_by(columns: Set[str], join: _Node) -> bool:
    """Tell whether *join* takes of its right side the latest by one of *columns* that is not later."""
    if join["right"].get("column_name_alias"):
        return False  # which of its columns is meant by a name is not looked into
    if using := join.get("using_columns"):
        return str(using[-1]).casefold() in columns  # the engine's rule: by the last, all others are equal
    unequal = [one for one in _comparisons(join.get("condition")) if one.get("type") not in _EQUAL]
    if len(unequal) != 1:
        return False
    earlier: _Node = unequal[0].get(_EARLIER.get(unequal[0].get("type", ""), ""), {})
    *qualifiers, column = [str(name).casefold() for name in earlier.get("column_names", ("",))]
    return column in columns and qualifiers in ([], [_name_of(join["right"])])


def _comparisons(condition: Any) -> list[_Node]:
    if condition is None:
        return []
    children: list[_Node] = condition["children"] if condition["type"] == "CONJUNCTION_AND" else [condition]
    return children


def _name_of(right: _Node) -> str:
    """Return the name by which the statement knows the right side of a join."""
    path: list[str] = right.get("qualified_name", {}).get("path", [""])
    return str(right.get("alias") or path[-1]).casefold()
