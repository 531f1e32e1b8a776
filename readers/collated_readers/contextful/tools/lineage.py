"""`context.lineage` and the tools of memory's graph: not built here, which they say by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from collated_readers.contextful.refusals import refused

from .arguments import Budgeted
from .call import Call

__all__ = ["Lineage", "lineage"]


class Lineage(Budgeted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The seed's arguments."""

    table: str | None = None
    direction: Literal["up", "down", "both"] | None = None
    depth: Annotated[int, Meta(ge=0)] | None = None


def lineage(call: Call, params: Lineage) -> dict[str, Any]:
    """Refuse.

    Raises:
        RequestError: `ReadArgumentUnsupported`.
    """
    raise refused(
        "ReadArgumentUnsupported",
        "context.lineage: the graph that a store's jobs applied lies in a file whose form is not public",
    )
