"""An MCP server over a link to the daemon, for one session or one kind of caller. Imports the SDK."""

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from collated import __version__
from collated.errors import CollatedError
from collated.protocol import Partial, StoreStatus
from collated_readers import RequestError

from . import contents
from .addresses import INDEX, RECORD, ref_of
from .answering import answered, refused
from .asking import asked
from .link import Link
from .model import Answer, Asked, Tool
from .plain import plain
from .scope import Scope
from .tools import TOOLS, announced

__all__ = ["Context", "Listen", "make_server"]

Context = ServerRequestContext[dict[str, Any], Any]
Listen = Callable[
    [Context, types.SubscriptionsListenRequestParams], Awaitable[types.SubscriptionsListenResult]
]

# Who starts a session waits so long for the daemon, which may have to be started, then for the contents.
_REACH_S = 5.0
_CONTENTS_S = 1.0
_CONTENTS_STORES = 100
_CONTENTS_AT_ONCE = 16


def _shown(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


_SHOWN: Mapping[str, types.Tool] = {name: _shown(tool) for name, tool in TOOLS.items()}

_INDEX = types.Resource(
    uri=INDEX,
    name="index",
    title="Table of contents",
    description="What every store holds, within a budget: the server's instructions as they are now.",
    mime_type="text/plain",
)
_RECORD = types.ResourceTemplate(
    uri_template=RECORD,
    name="record",
    title="A record",
    description="The text of one record, word for word; `store` and `id` are those of a ref STORE:ID.",
    mime_type="text/plain",
)


_EVERYTHING = Scope(None)


def make_server(
    link: Link,
    scope: Scope = _EVERYTHING,
    listen: Listen | None = None,
    budget_tokens: int = contents.BUDGET_TOKENS,
) -> Server[dict[str, Any]]:
    """Return a server of what *scope* allows of the stores behind *link*.

    *listen* answers those who listen for changes (`subscriptions/listen`). The instructions take
    *budget_tokens* at most.
    """
    handlers = _Handlers(link, scope, budget_tokens)
    server: Server[dict[str, Any]] = Server(
        "collated",
        version=__version__,
        title="collated",
        description="Every knowledge store on this machine.",
        on_list_tools=handlers.list_tools,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscriptions_listen=listen,
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, handlers.call_tool)
    server.middleware[:] = [handlers.with_instructions]  # instead of the SDK's own, for telemetry
    return server


class _Handlers:
    """What the server answers each request with."""

    def __init__(self, link: Link, scope: Scope, budget_tokens: int) -> None:
        self._link = link
        self._scope = scope
        self._budget_tokens = budget_tokens

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        with suppress(CollatedError):  # without a daemon: the tools that are there for every store
            await self._link.stores()
        tools = announced(self._visible())
        return types.ListToolsResult(tools=[_SHOWN[tool.name] for tool in tools])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        try:
            known = await self._link.stores()
            stores = list(known.values())
            question = asked(params.name, params.arguments or {}, self._scope.visible(stores))
            request = self._scope.narrowed(question, stores)
            result = await self._called(context, request)
            store = request.params.get("store")
            answer = answered(params.name, result, self._link.known, time.time(), store)
        except (CollatedError, RequestError) as error:
            answer = refused(self._scope.told(error))
        return _as_result(answer)

    async def _called(self, context: Context, request: Asked) -> Any:
        if not context.meta or "progress_token" not in context.meta:
            return await self._link.call(request.method, request.params)
        result, failure = None, None
        sender, receiver = anyio.create_memory_object_stream[Partial](math.inf)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_report, context, receiver)
            with sender:
                try:
                    result = await self._link.call(request.method, request.params, sender.send_nowait)
                except CollatedError as error:  # which the task group would wrap
                    failure = error
        if failure is not None:
            raise failure
        return result

    async def list_resources(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[_INDEX])

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[_RECORD])

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        text = await self.instructions() if params.uri == INDEX else await self._record(params.uri)
        content = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[content])

    async def _record(self, address: str) -> str:
        ref = ref_of(address)
        if ref is None:
            raise MCPError(types.INVALID_PARAMS, f"no resource {address}; there are {INDEX} and {RECORD}")
        try:
            known = await self._link.stores()
            request = self._scope.narrowed(asked("read", {"id": ref}), list(known.values()))
            text: str = (await self._link.call(request.method, request.params)).text
        except (CollatedError, RequestError) as error:
            raise MCPError(types.INVALID_PARAMS, _in_words(self._scope.told(error))) from error
        return text

    async def with_instructions(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Give whoever begins a session, or asks again, the contents as they are now."""
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            return {**result, "instructions": await self.instructions()}
        return result

    async def instructions(self) -> str:
        """Return the discipline and the table of contents, or what to do where there is no daemon."""
        try:
            with anyio.fail_after(_REACH_S):
                await self._link.stores()
        except TimeoutError:
            return (
                f"{contents.instructions([], {})}\n\nThe daemon is still starting; call `stores` in a moment."
            )
        except CollatedError as error:
            return f"{contents.instructions([], {})}\n\n{_in_words(error)}"
        stores = self._visible()
        return contents.instructions(stores, await self._contents(stores), self._budget_tokens)

    def _visible(self) -> list[StoreStatus]:
        return list(self._scope.visible(list(self._link.known.values())))

    async def _contents(self, stores: list[StoreStatus]) -> dict[str, str]:
        """Return the contents of the first open stores, of those that answer in time."""
        found: dict[str, str] = {}
        limit = anyio.Semaphore(_CONTENTS_AT_ONCE)

        async def fetch(name: str) -> None:
            with suppress(CollatedError):
                async with limit:
                    found[name] = (await self._link.call("index", {"store": name})).text

        with anyio.move_on_after(_CONTENTS_S):
            async with anyio.create_task_group() as tasks:
                names = [store.name for store in stores if store.state == "open"]
                for name in names[:_CONTENTS_STORES]:
                    tasks.start_soon(fetch, name)
        return found


def _as_result(answer: Answer) -> dict[str, Any]:
    """Return a tool's result as the wire has it, which spares the SDK's models."""
    return {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": answer.structured,
        "isError": answer.is_error,
        "resultType": "complete",
    }


def _in_words(error: CollatedError | RequestError) -> str:
    told = refused(error).structured
    words = [told["error"], told["suggestion"]]
    return plain("; ".join(each for each in words if each).replace("\n", " "))


async def _report(context: Context, partials: MemoryObjectReceiveStream[Partial]) -> None:
    with partials:
        async for partial in partials:
            words = f"{partial.answered} of {partial.asked} stores answered"
            await context.session.report_progress(partial.answered, partial.asked, words)
