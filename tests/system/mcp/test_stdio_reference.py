"""The contract's five tools answer as the reference's own server does on one store.

What differs, and is all that does:

- Wherever the reference gives an `id`, the answer has `ref`, `store` and what else the wire says of it too.
- Every answer adds `freshness` and `next`; `search` and `grep` add how many `stores` answered.
- `neighbours` answers `records`, as the wire calls the reference's `sections`, without their `context`,
  which is always false there.
- An error has words of its own, since there may be several stores, and a stable `code`.
- What the reference answers as text alone, its index and unknown tools, is structured too.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from mcp import Client, StdioServerParameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.system.mcp.conftest import Agent, Call, Home

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LEFT_OUT = "left out"
SERVER = (
    "import asyncio, sys; from contextpull.server import serve_stdio; asyncio.run(serve_stdio(sys.argv[1]))"
)
CALLS: list[Call] = [
    ("index", {}),
    ("index", {"prefix": "api/"}),
    ("search", {"query": "refund window"}),
    ("search", {"query": "GW-10"}),
    ("search", {"query": "long enough section", "limit": 2}),
    ("search", {"query": "errors", "in": ["api/*"]}),
    ("search", {"query": "nothing of that sort"}),
    ("read", {"id": "guide.md#1"}),
    ("read", {"id": "guide.md#1", "context": 1}),
    ("grep", {"pattern": "GW-10"}),
    ("grep", {"pattern": "GW-[12]0", "regex": True, "limit": 1}),
    ("grep", {"pattern": "nowhere"}),
    ("neighbours", {"id": "guide.md#1"}),
    ("neighbours", {"id": "guide.md#0", "before": 3, "after": 0}),
]
WRONG: list[Call] = [
    ("read", {"id": "guide.md#99"}),
    ("neighbours", {"id": "nowhere.md#0"}),
    ("grep", {"pattern": "(", "regex": True}),
    ("nonsense", {}),
]


def content_of(answer: Any) -> Any:
    text = answer.content[0].text
    return json.loads(text) if text.startswith(("{", "[")) else text


def as_here(expected: Any) -> Any:
    """Return what the reference answered by the names that it has here."""
    if isinstance(expected, str) or "sections" not in expected:
        return expected
    records: list[dict[str, Any]] = expected["sections"]
    return {"records": [{**each, "context": LEFT_OUT} for each in records], "header": expected["header"]}


def common(ours: Any, theirs: Any) -> Any:
    """Return *ours* with the fields of *theirs* alone, at every depth."""
    if isinstance(theirs, dict):
        fields = cast("dict[str, Any]", theirs)
        return {key: common(ours.get(key, LEFT_OUT), value) for key, value in fields.items()}
    if isinstance(theirs, list):
        items = cast("Sequence[Any]", theirs)
        assert len(ours) == len(items)
        return [common(one, other) for one, other in zip(ours, items, strict=True)]
    return ours


async def test_the_answers_are_equal(home: Home, agent: Agent, mode: str) -> None:
    daemon = home.daemon.start()
    daemon.wait_state("docs", "open")
    reference = StdioServerParameters(
        command=sys.executable, args=["-c", SERVER, str(daemon.stores / "docs.sqlite")]
    )
    negotiation = "legacy" if mode == "legacy" else "auto"
    async with Client(reference, mode=negotiation) as theirs, agent(daemon, mode=mode) as ours:
        assert theirs.protocol_version == ours.protocol_version
        for call in CALLS:
            expected = as_here(content_of(await theirs.call_tool(*call)))
            found = content_of(await ours.call_tool(*call))
            assert common(found, expected) == expected, call
        for call in WRONG:
            refused, also = await theirs.call_tool(*call), await ours.call_tool(*call)
            assert refused.is_error
            assert also.is_error
            assert {*content_of(also)} == {*content_of(refused), "code"}
