"""The walk over a statement's tree: every node is looked at, and known or refused.

Iterative, in the order of the text, and bounded in nodes and depth, so that no statement can exhaust it.
Names of relations are only collected here; `judging` compares them with those that are registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from msgspec import Struct, field

from collated_readers.codes import RequestError
from collated_readers.contextful.refusals import refused

from .functions import VOLATILE, is_allowed, why_refused
from .nodes import SQL_TYPES, SYSTEM_SCHEMAS, is_known_expression, is_known_node, is_known_setting, is_query
from .scopes import Parts, Scope

__all__ = ["MAX_DEPTH", "MAX_OBJECTS", "Placeholder", "Survey", "survey"]

MAX_OBJECTS = 60_000  # of objects and lists: two for a constant, some five for an operator
MAX_DEPTH = 750  # of them, in each other: some 250 operators in a chain; a decoder may end at 1000

_Node = dict[str, Any]

# Bare words that the engine takes for functions where no column has their name. The first read the
# session; `user`, a common name of a column, is one only where there is nothing that it could belong to.
_SESSION_WORDS = frozenset(
    {"current_catalog", "current_role", "current_schema", "current_user", "session_user"}
)
_CLOCK_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})


class Placeholder(NamedTuple):
    """A placeholder: its name, `1` of `$1` and of the first `?`, and where it stands in the text's bytes."""

    name: str
    at: int


class Survey(Struct):
    """What a walk found: *faults* in the order of the text, *asof* the parts right of ASOF JOINs."""

    parts: Parts = field(default_factory=Parts)
    asof: list[int] = field(default_factory=list[int])
    placeholders: list[Placeholder] = field(default_factory=list[Placeholder])
    faults: list[RequestError] = field(default_factory=list[RequestError])
    is_volatile: bool = False

    def fault(self, identifier: str, message: str) -> None:
        """Note what is wrong."""
        self.faults.append(refused(identifier, message))


class _Place(NamedTuple):
    """A node to be looked at: in which scope and part, how deep, and whether columns can be there."""

    node: Any
    scope: Scope
    part: int
    depth: int
    has_columns: bool

    def below(self, node: Any) -> _Place:
        """Return the place of a child that sees what this one sees."""
        return self._replace(node=node, depth=self.depth + 1)


def survey(tree: Any) -> Survey:
    """Walk the whole tree of a statement, from its query on.

    Raises:
        RequestError: `StatementNotReadOnly` for what is no query, and for more than `MAX_OBJECTS` or
            `MAX_DEPTH` levels of them.
    """
    if not is_query(tree):
        raise refused("StatementNotReadOnly", "the statement is no query")
    found = Survey()
    waiting, count = [_Place(tree, {}, 0, 0, has_columns=False)], 0
    while waiting:
        place = waiting.pop()
        count += 1
        if count > MAX_OBJECTS or place.depth > MAX_DEPTH:
            raise refused("StatementNotReadOnly", "the statement is too large or nested too deeply")
        waiting.extend(reversed(list(_children(place, found))))
    return found


def _children(place: _Place, found: Survey) -> Iterator[_Place]:
    """Yield the places below *place*, after what is to be said of itself."""
    node = place.node
    if isinstance(node, dict):
        _look(cast("_Node", node), place, found)
        yield from _below(cast("_Node", node), place, found)
    else:
        yield from (place.below(child) for child in node if isinstance(child, (dict, list)))


def _look(node: _Node, place: _Place, found: Survey) -> None:
    """Note what is wrong with a node itself, and what it names."""
    kind = node.get("type")
    found.is_volatile |= node.get("sample") is not None
    if "class" in node:
        _look_at_expression(node, place, found)
    elif isinstance(kind, str):
        _look_at_node(kind, node, place, found)


def _look_at_node(kind: str, node: _Node, place: _Place, found: Survey) -> None:
    if kind == "TABLE_FUNCTION":
        name = _path(node.get("function"))[-1]
        found.fault("TableFunctionRefused", f"a table function, {name!r:.80}, is no relation of the store")
    elif not (is_known_node(kind) and is_known_setting(kind, node)):
        found.fault("StatementNotReadOnly", f"a statement may not hold {_WORDS.get(kind, kind)!s:.80}")
    elif kind == "BASE_TABLE":
        _look_at_table(node, place, found)
    elif kind == "PIVOT" and any(pivot.get("pivot_enum") for pivot in node.get("pivots", ())):
        found.fault("StatementNotReadOnly", "a PIVOT lists its values, it names no type")


_WORDS = {
    "SHOW_REF": "SHOW, DESCRIBE or SUMMARIZE",
    "BASE_TABLE": "AT, the state of a table at another time",
    "COPY_QUERY_NODE": "COPY",
    "DELETE_QUERY_NODE": "DELETE or TRUNCATE",
    "INSERT_QUERY_NODE": "INSERT",
    "UPDATE_QUERY_NODE": "UPDATE",
}


def _look_at_table(node: _Node, place: _Place, found: Survey) -> None:
    *qualifiers, name = _path(node)
    shown = ".".join([*qualifiers, name])
    if _is_of_system(qualifiers):
        found.fault("TableFunctionRefused", f"{shown!r:.80} reaches into a system catalog")
    elif qualifiers:
        found.fault("EnforceUnknownRelation", f"{shown!r:.80}: relations are named without a schema")
    elif name in place.scope:
        found.parts.use(place.part, place.scope[name])
    else:
        found.parts.name(place.part, name)


def _is_of_system(qualifiers: list[str]) -> bool:
    return not SYSTEM_SCHEMAS.isdisjoint(map(str.lower, qualifiers))


def _look_at_expression(node: _Node, place: _Place, found: Survey) -> None:
    class_, kind = node["class"], node.get("type")
    if not (isinstance(kind, str) and is_known_expression(class_, kind) and is_known_setting(kind, node)):
        found.fault("StatementNotReadOnly", f"a statement may not hold an expression {kind!s:.80}")
    elif class_ in ("FUNCTION", "WINDOW"):
        _look_at_function(node, found)
    elif class_ == "COLUMN_REF":
        _look_at_column(node["column_names"], place, found)
    elif class_ == "TYPE":
        _look_at_type(node, found)
    elif class_ == "PARAMETER":
        found.placeholders.append(Placeholder(node["identifier"], node["query_location"]))


def _look_at_function(node: _Node, found: Survey) -> None:
    *qualifiers, name = _path(node)  # `a.b.upper()` is a path too: its qualifiers are columns
    if _is_of_system(qualifiers):
        shown = ".".join([*qualifiers, name])
        found.fault("TableFunctionRefused", f"{shown!r:.80} reaches into a system catalog")
    elif not is_allowed(name):
        why = why_refused(name) or "is not known to be harmless"
        found.fault("FunctionRefused", f"the function {name!r:.80} {why}")
    elif name.lower() in VOLATILE:
        found.is_volatile = True


def _look_at_column(names: list[str], place: _Place, found: Survey) -> None:
    word = names[0].lower() if len(names) == 1 else ""
    if word in _SESSION_WORDS or (word == "user" and not place.has_columns):
        found.fault("FunctionRefused", f"the word {names[0]!r:.80} reads the session")
    elif word in _CLOCK_WORDS:
        found.is_volatile = True


def _look_at_type(node: _Node, found: Survey) -> None:
    path = _path(node)
    if len(path) > 1 or path[0].lower() not in SQL_TYPES:
        found.fault("StatementNotReadOnly", f"{'.'.join(path)!r:.80} is no type of a value")


def _path(node: Any) -> list[str]:
    """Return the name that a node has in the tree, with its qualifiers before it."""
    path: list[str] = node["qualified_name"]["path"]
    return path


def _below(node: _Node, place: _Place, found: Survey) -> Iterator[_Place]:
    """Yield the children of an object, each in the scope and the part that it has."""
    inside = _with_columns(node, place)
    if "cte_map" in node:
        bodies, scope = _with_entries(node["cte_map"], inside, found)
        yield from bodies
        inside = inside._replace(scope=scope)
    for key, child in node.items():
        if key == "right" and node.get("type") in ("JOIN", "RECURSIVE_CTE_NODE"):
            yield _right(node, inside, found)
        elif key != "cte_map" and isinstance(child, (dict, list)):
            yield inside.below(child)


def _right(node: _Node, place: _Place, found: Survey) -> _Place:
    """Return the place of a right side, which may see or be something of its own."""
    right = place.below(node["right"])
    if node["type"] == "RECURSIVE_CTE_NODE":  # the body of the part that it stands in
        return right._replace(scope={**place.scope, node["cte_name"]: place.part})
    if node.get("ref_type") != "ASOF":
        return right
    part = found.parts.begin()
    found.parts.use(place.part, part)
    found.asof.append(part)
    return right._replace(part=part)


def _with_columns(node: _Node, place: _Place) -> _Place:
    source: _Node = node.get("from_table") or {"type": "EMPTY"}
    return place if source["type"] in ("EMPTY", "EXPRESSION_LIST") else place._replace(has_columns=True)


def _with_entries(cte_map: _Node, place: _Place, found: Survey) -> tuple[list[_Place], Scope]:
    """Return the places of a `WITH`'s entries, and the scope of what follows it."""
    places, scope = list[_Place](), dict(place.scope)
    for entry in cte_map["map"]:
        part = found.parts.begin()
        places.append(place.below(entry["value"])._replace(scope=dict(scope), part=part))
        scope[entry["key"]] = part
    return places, scope
