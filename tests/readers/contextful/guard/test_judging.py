"""Trees that are not as this release makes them, and what is said first of several faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest

from collated_readers import RequestError
from collated_readers.contextful.guard import Judged, decode_tree, judge
from collated_readers.contextful.guard.judging import MAX_TREE_BYTES
from collated_readers.contextful.guard.walk import MAX_DEPTH, MAX_OBJECTS
from collated_readers.contextful.session import Session

Judge = Callable[..., Judged]

STATEMENT = (
    "WITH RECURSIVE c AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM c WHERE v < 3)"
    " SELECT sum(e.amount) OVER (ORDER BY e.happened), CAST(n.stars AS DOUBLE), $p"
    " FROM events e JOIN notes n USING (note_id) JOIN c ON true, (VALUES (1)) w"
    " WHERE n.stars IN (SELECT amount FROM events) UNION ALL SELECT 1, 2, 3 ORDER BY 1 LIMIT 2"
)


def refusal(tree: Any) -> str:
    with pytest.raises(RequestError) as raised:
        verdict(tree)
    return raised.value.code


def verdict(tree: Any) -> Judged:
    relations = frozenset({"events", "notes"})
    parameters = {"p": {"type": "integer", "value": 1}}
    return judge(tree, text=STATEMENT, relations=relations, closed={}, parameters=parameters)


SHAPES: list[Any] = [
    None,
    [],
    {},
    "SELECT 1",
    {"error": False},
    {"error": False, "statements": []},
    {"error": False, "statements": [{}, {}]},
    {"error": False, "statements": None},
    {"error": False, "statements": ["SELECT_NODE"]},
    {"error": False, "statements": [{"node": None}]},
    {"error": False, "statements": [{"node": "SELECT_NODE"}]},
    {"error": False, "statements": [{"node": []}]},
    {"error": False, "statements": [{"node": {}}]},
    {"error": False, "statements": [{"node": {"node": {"type": "SELECT_NODE"}}}]},
    {"error": False, "statements": [{"node": {"type": "EMPTY"}}]},
    {"error": False, "statements": [{"node": {"type": "SELECT_NODE", "cte_map": None}}]},
    {"error": False, "statements": [{"node": {"type": "SOMETHING_NEW"}}]},
    {"error": False, "statements": [{"node": {"type": "SELECT_NODE", "new": {"type": "SOMETHING_NEW"}}}]},
    {"error": False, "statements": [{"node": {"type": "BASE_TABLE", "at_clause": None}}]},
    {"error": False, "statements": [{"node": {"class": "SOMETHING_NEW", "type": "FUNCTION"}}]},
    {"error": False, "statements": [{"node": {"class": "OPERATOR", "type": "SOMETHING_NEW"}}]},
    {"error": False, "statements": [{"node": {"class": ["FUNCTION"], "type": {"id": "FUNCTION"}}}]},
    {"error": False, "statements": [{"node": {"class": "FUNCTION", "type": "FUNCTION"}}]},
]


@pytest.mark.rule("engine-own-parse")
@pytest.mark.parametrize("tree", SHAPES)
def test_a_tree_of_another_shape_is_refused(tree: Any) -> None:
    assert refusal(tree) == "StatementNotReadOnly"


@pytest.mark.rule("engine-own-parse")
def test_no_node_of_a_tree_can_become_something_new(session: Session) -> None:
    """Each type and class in the tree of an honest statement, one by one."""
    tree = session.tree(STATEMENT)
    assert verdict(tree).relations == ("events", "notes")
    changed = 0
    for node, key in list(kinds(tree)):
        before, node[key] = node[key], "SOMETHING_NEW"
        assert refusal(tree) == "StatementNotReadOnly", before
        node[key] = before
        changed += 1
    assert verdict(tree).relations == ("events", "notes")
    assert changed > 50


def kinds(node: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every place in a tree that says what a node is."""
    if isinstance(node, dict):
        known = cast("dict[str, Any]", node)
        yield from ((known, key) for key in ("type", "class", "setop_type", "ref_type") if key in known)
        node = [*known.values()]
    if isinstance(node, list):
        for child in cast("Iterable[Any]", node):
            yield from kinds(child)


@pytest.mark.rule("whole-tree-walk")
def test_a_tree_is_walked_to_its_end_or_refused() -> None:
    def deep(levels: int) -> Any:
        node: Any = {"type": "SHOW_REF"}
        for _ in range(levels - 1):
            node = {"inner": node}
        return {"error": False, "statements": [{"node": {"type": "SELECT_NODE", "inner": node}}]}

    assert "SHOW" in message(deep(MAX_DEPTH - 1))
    assert "nested too deeply" in message(deep(MAX_DEPTH + 1))
    inner: list[dict[str, Any]] = [{} for _ in range(MAX_OBJECTS)]
    node: dict[str, Any] = {"type": "SELECT_NODE", "inner": inner}
    wide = {"error": False, "statements": [{"node": node}]}
    assert "too large" in message(wide)


def message(tree: Any) -> str:
    with pytest.raises(RequestError) as raised:
        verdict(tree)
    return raised.value.message


def test_what_cannot_be_decoded_is_refused() -> None:
    assert decode_tree('{"error": false}') == decode_tree(b'{"error": false}') == {"error": False}
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, "", "{", "x" * (MAX_TREE_BYTES + 1)):
        with pytest.raises(RequestError) as raised:
            decode_tree(text)
        assert raised.value.code == "StatementNotReadOnly"


def test_every_tree_that_is_shallow_enough_is_decoded() -> None:
    """The decoder's own limit is beyond ours, so that the verdict is not the interpreter's."""
    tree: Any = []
    for _ in range(MAX_DEPTH):
        tree = [tree]
    assert decode_tree(json.dumps(tree)) == tree


@pytest.mark.rule("unregistered-relation")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT version(), * FROM secret, read_text('x'), (SHOW TABLES)", "StatementNotReadOnly"),
        ("SELECT version(), * FROM secret, read_text('x')", "TableFunctionRefused"),
        ("SELECT version(), $p FROM secret", "EnforceUnknownRelation"),
        ("SELECT version(), $p FROM notes", "FunctionRefused"),
        ("SELECT $p FROM notes", "QueryParameterRejected"),
    ],
)
def test_what_is_said_first(judged: Judge, text: str, said: str) -> None:
    with pytest.raises(RequestError) as raised:
        judged(text)
    assert raised.value.code == said


@pytest.mark.rule("unregistered-relation")
def test_a_name_that_nobody_registered_is_told_as_one_that_is_nowhere(judged: Judge) -> None:
    there, nowhere = (
        message_of(judged, f"FROM {name}", {"notes"}).replace(name, "NAME") for name in ("events", "eventz")
    )
    assert there == nowhere == "EnforceUnknownRelation: there is no relation 'NAME'"


def message_of(judged: Judge, text: str, relations: set[str]) -> str:
    with pytest.raises(RequestError) as raised:
        judged(text, relations=relations)
    return raised.value.message


@pytest.mark.rule("scoped-ledger")
def test_a_closed_ledger_says_why_where_its_table_may_be_read(session: Session) -> None:
    text, closed = "SELECT * FROM notes__requests", {"notes__requests": "the reason"}
    for relations, said in (
        ({"notes"}, "LedgerNotTenantScoped: 'notes__requests' is closed: the reason"),
        (set[str](), "EnforceUnknownRelation: there is no relation 'notes__requests'"),
    ):
        with pytest.raises(RequestError) as raised:
            judge(session.tree(text), text=text, relations=relations, closed=closed, parameters=None)
        assert raised.value.message == said


def test_what_the_caller_wrote_is_echoed_but_not_at_length(judged: Judge) -> None:
    with pytest.raises(RequestError) as raised:
        judged('FROM "' + "x" * 5000 + '"')
    assert len(raised.value.message) < 200
