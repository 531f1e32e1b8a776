"""`context.execute_query`: the statements that a store's owner declared for others to fill in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from collated_readers.codes import RequestError
from collated_readers.contextful.guard import Judged, arguments_to_bind, check_text, judge_template
from collated_readers.contextful.model import Template
from collated_readers.contextful.reads import Reads

from .arguments import Bounded, bounds_of, check_relations, invalid
from .asof import check_asof
from .call import Call, Statement

__all__ = ["ExecuteQuery", "execute_query", "served", "tool_of"]

_STATES = 16  # of stores, whose templates are remembered as judged

_SCHEMAS: Mapping[str, Mapping[str, str]] = {
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "string": {"type": "string"},
    "timestamp": {"type": "string", "format": "date-time"},
    "boolean": {"type": "boolean"},
}


class ExecuteQuery(Bounded, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A template by its *id*, and a value for each of its parameters."""

    id: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def execute_query(call: Call, params: ExecuteQuery) -> dict[str, Any]:
    """Return what a template answers.

    Raises:
        RequestError: why the template may not be run; `TemplateArgumentRejected`; and as `query`.
    """
    reads = call.reads(bounds_of(params))
    template, judged = _judged(reads, params.id)
    check_relations(reads, judged.relations)
    values = arguments_to_bind(template.parameters, judged.placeholders, params.arguments)
    statement = Statement(
        template.sql,
        judged.relations,
        values,
        template_rows=template.max_rows,
        is_volatile=judged.is_volatile,
    )
    return call.answer(reads, params, statement)


def served(reads: Reads) -> list[Template]:
    """Return the templates that may be run, in the order in which they are declared."""
    verdicts = _verdicts(reads)
    return [one for one in reads.store.templates if isinstance(verdicts[one.id], Judged)]


def tool_of(template: Template) -> dict[str, Any]:
    """Return a template as a tool: its id, the schema of its arguments, its limits (template-projection)."""
    tool: dict[str, Any] = {
        "name": template.id,
        "inputSchema": {
            "type": "object",
            "properties": {name: dict(_SCHEMAS[kind]) for name, kind in template.parameters},
            "required": [name for name, _ in template.parameters],
        },
    }
    return tool if template.max_rows is None else {**tool, "limits": {"max_rows": template.max_rows}}


def _judged(reads: Reads, wanted: str) -> tuple[Template, Judged]:
    if wanted in reads.store.withheld_templates:
        raise reads.store.withheld_templates[wanted].with_traceback(None)
    for template in reads.store.templates:
        if template.id == wanted:
            verdict = _verdicts(reads)[wanted]
            if isinstance(verdict, Judged):
                return template, verdict
            raise verdict.with_traceback(None)
    raise invalid(f"there is no template {wanted!r:.200}; context.describe lists them")


# ------------------------------------------------------------------- once per state of a store

_Verdicts = Mapping[str, Judged | RequestError]
_remembered: OrderedDict[tuple[str, str], _Verdicts] = OrderedDict()


def _verdicts(reads: Reads) -> _Verdicts:
    """Return what each template reads, or why it may not be run (startup-time-check)."""
    state = (reads.store.root, reads.store.digest)
    if state not in _remembered:
        _remembered[state] = {template.id: _verdict(reads, template) for template in reads.store.templates}
        while len(_remembered) > _STATES:
            _remembered.popitem(last=False)
    return _remembered[state]


def _verdict(reads: Reads, template: Template) -> Judged | RequestError:
    try:
        check_text(template.sql)
        tree = reads.tree(template.sql)
        judged = judge_template(tree, declared=template.parameters, tables=reads.store.tables.keys())
        check_asof(reads.store, tree, judged)
    except RequestError as error:
        return error
    return judged
