"""The verdict on a caller's statement, and on a template's, from the engine's tree of it (guard.md §2)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers.codes import RequestError
from collated_readers.contextful.refusals import refused

from .parameters import check_template_placeholders, values_to_bind
from .walk import Survey, survey

__all__ = ["MAX_TREE_BYTES", "Judged", "decode_tree", "judge", "judge_template"]

MAX_TREE_BYTES = 12 * 1024 * 1024  # more than `MAX_OBJECTS` of the longest kind

_SHOWN = 500  # characters of what the engine says of a text that it does not take
_LEDGER = "__requests"

# How the engine begins to say why it serializes no tree, and what that is to a caller; all else is no SQL.
_NOT_TAKEN = {
    "Only SELECT statements": "StatementNotReadOnly",
    "A CTE body must be": "StatementNotReadOnly",
    "Mixing named and positional parameters": "QueryParameterRejected",
}

# What is said of a statement with several faults: an unknown relation before any parameter.
_PRECEDENCE = (
    "StatementNotReadOnly",
    "TableFunctionRefused",
    "EnforceUnknownRelation",
    "LedgerNotTenantScoped",
)


class Judged(Struct, frozen=True):
    """A statement that may run: the *relations* that it reads, sorted, and the *values* to bind by name.

    *asof_rights* are those of the relations that stand on the right of an ASOF JOIN, through subqueries and
    common table expressions. *placeholders* are the names of a template's. A statement *is_volatile* when
    it asks the clock or the dice.
    """

    relations: tuple[str, ...]
    values: Mapping[str, Any]
    asof_rights: tuple[str, ...] = ()
    placeholders: tuple[str, ...] = ()
    is_volatile: bool = False


def decode_tree(serialized: bytes | str) -> Any:
    """Return the tree that the engine serialized as JSON.

    Raises:
        RequestError: `StatementNotReadOnly`: it is too large, or nested too deeply.
    """
    if len(serialized) > MAX_TREE_BYTES:
        raise refused("StatementNotReadOnly", "the statement is too large")
    try:
        return msgspec.json.decode(serialized)
    except RecursionError as error:
        raise refused("StatementNotReadOnly", "the statement is nested too deeply") from error
    except msgspec.DecodeError as error:  # no number is too large for it, so nothing is known to get here
        raise refused("StatementNotReadOnly", "the statement cannot be read") from error


def judge(
    tree: Any,
    *,
    text: str,
    relations: Set[str],
    closed: Mapping[str, str],
    parameters: Mapping[str, Any] | None,
) -> Judged:
    """Return what a caller's statement reads and binds. *closed* are ledgers that exist, and why not.

    Raises:
        RequestError: `StatementNotReadOnly`, `TableFunctionRefused`, `FunctionRefused`,
            `EnforceUnknownRelation`, `LedgerNotTenantScoped`, `QueryParameterRejected`; `engine_error` for
            text that does not parse.
    """
    found = _survey(tree)
    faults = found.faults + [_unknown(name, relations, closed) for name in _foreign(found, relations)]
    if faults:
        raise min(faults, key=_rank)
    return _judged(found, values_to_bind(found.placeholders, parameters, text))


def judge_template(tree: Any, *, declared: tuple[tuple[str, str], ...], tables: Set[str]) -> Judged:
    """Return what a template's body reads; its *declared* parameters are bound by `arguments_to_bind`.

    Raises:
        RequestError: `TemplateNamesForeignRelation` for anything but the store's tables; all else as
            `judge`, and `TemplateArgumentRejected` for placeholders that are not its parameters.
    """
    found = _survey(tree)
    foreign = [fault for fault in found.faults if fault.code in _PRECEDENCE[1:]]
    if foreign or _foreign(found, tables):
        raise refused("TemplateNamesForeignRelation", "a template names tables of its store and nothing else")
    if found.faults:
        raise min(found.faults, key=_rank)
    check_template_placeholders(declared, found.placeholders)
    return _judged(found, {})


def _survey(tree: Any) -> Survey:
    """Return what is in the only statement of *tree*."""
    try:
        if tree["error"]:
            raise _not_taken(tree)
        statements = tree["statements"]
        if len(statements) != 1:
            raise refused("StatementNotReadOnly", f"there are {len(statements)} statements, not one")
        return survey(statements[0]["node"])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # A tree of another shape than this release's: nothing in it is known to be harmless.
        raise refused("StatementNotReadOnly", "the engine's tree is not one that is known") from error


def _not_taken(tree: Mapping[str, Any]) -> RequestError:
    """Return the refusal of a text that the engine does not serialize: no SELECT, or no SQL."""
    message = str(tree.get("error_message", ""))[:_SHOWN]
    identifiers = (identifier for words, identifier in _NOT_TAKEN.items() if message.startswith(words))
    return refused(next(identifiers, "engine_error"), message)


def _foreign(found: Survey, relations: Set[str]) -> list[str]:
    return sorted(found.parts.all_relations() - relations)


def _unknown(name: str, relations: Set[str], closed: Mapping[str, str]) -> RequestError:
    """Return the refusal of a name; it is the same whether or not something has it."""
    if name in closed and name.removesuffix(_LEDGER) in relations:
        return refused("LedgerNotTenantScoped", f"{name!r:.80} is closed: {closed[name]}")
    return refused("EnforceUnknownRelation", f"there is no relation {name!r:.80}")


def _rank(fault: RequestError) -> int:
    return _PRECEDENCE.index(fault.code) if fault.code in _PRECEDENCE else len(_PRECEDENCE)


def _judged(found: Survey, values: Mapping[str, Any]) -> Judged:
    return Judged(
        relations=tuple(sorted(found.parts.all_relations())),
        values=values,
        asof_rights=tuple(sorted(found.parts.relations_of(found.asof))),
        placeholders=tuple(sorted({placeholder.name for placeholder in found.placeholders})),
        is_volatile=found.is_volatile,
    )
