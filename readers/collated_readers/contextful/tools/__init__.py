"""The tools of the read face, by name: each a params struct, and what answers it (readface)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from collated_readers.contextful.refusals import refused

from .arguments import Internal
from .call import Call
from .describe import Describe, describe
from .files import File, Files, file, files
from .lineage import Lineage, lineage
from .query import Query, query
from .recall import Recall, recall
from .reference import Reference, reference
from .subscribe import Subscribe, subscribe
from .templates import ExecuteQuery, execute_query

__all__ = ["TOOLS", "Call", "Tool", "call_tool"]


class Tool(NamedTuple):
    """A tool: the *params* that it takes, and what *answer*s a call with them."""

    params: type[Internal]
    answer: Callable[[Call, Any], dict[str, Any]]  # Any: of the type `params`


TOOLS: Mapping[str, Tool] = {
    "context.describe": Tool(Describe, describe),
    "context.query": Tool(Query, query),
    "context.reference": Tool(Reference, reference),
    "context.lineage": Tool(Lineage, lineage),
    "context.execute_query": Tool(ExecuteQuery, execute_query),
    "context.files": Tool(Files, files),
    "context.file": Tool(File, file),
    "context.subscribe": Tool(Subscribe, subscribe),
    "memory.recall": Tool(Recall, recall),
}
"""The tools that are built here, in the seed's order; `corpus.retrieve` is in `retrieving`."""


def call_tool(name: str, call: Call, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the tool *name*; no argument is ignored.

    Raises:
        RequestError: `ReadArgumentUnsupported` for a tool that is not built; what the tool refuses.
        msgspec.ValidationError: an argument that is not known, missing or of another type.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise refused("ReadArgumentUnsupported", f"{name:.100}: this tool is not built here")
    return tool.answer(call, msgspec.convert(params, tool.params))
