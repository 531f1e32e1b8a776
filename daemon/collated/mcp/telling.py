"""Tells whoever listens what changed of the stores. Imports the SDK."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn

from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent, ToolsListChanged

from collated.protocol import StoreStatus

from .addresses import INDEX
from .changes import changed
from .link import Link
from .scope import Scope

__all__ = ["tell_changes"]


async def tell_changes(
    link: Link, known: Mapping[str, StoreStatus], scope: Scope, tell: Callable[[ServerEvent], Awaitable[None]]
) -> NoReturn:
    """Have *tell* tell each change, for ever, to who sees what *scope* allows and knows the stores so far."""
    before = _seen(known, scope)
    while True:
        known = await link.changed(known)
        now = _seen(known, scope)
        found = changed(before, now)
        if found.tools:
            await tell(ToolsListChanged())
        if found.stores:
            await tell(ResourcesListChanged())
        if found.contents:
            await tell(ResourceUpdated(uri=INDEX))
        before = now


def _seen(known: Mapping[str, StoreStatus], scope: Scope) -> dict[str, StoreStatus]:
    return {store.name: store for store in scope.visible(list(known.values()))}
