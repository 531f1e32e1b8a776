"""The tools that agents see: the contract's five by its own names and arguments, and what formats add. Pure.

Descriptions are read by a model each time, so they are short and say when to use what.
"""

from collections.abc import Mapping, Sequence

from collated.protocol import (
    ArchitectureResult,
    ChunkResult,
    ContextAnswer,
    ContextTable,
    GrepResult,
    ImpactResult,
    IndexResult,
    NeighboursResult,
    ReadResult,
    ReferencesResult,
    SearchResult,
    StoreStatus,
    SymbolsResult,
)
from collated_readers import State

from .model import Tool
from .schemas import Listing, answer, arguments, choice, flag, integer, mapping, text, texts

__all__ = ["METHOD_OF", "TOOLS", "announced"]

_DISCIPLINE = "Search for pointers, read for text, cite refs like [docs:guide.md#3]."
_STORES = texts("Names of stores to ask; all where left out")
_STORE = text("Name of the store")
_IN = texts("Document paths or globs to restrict to, e.g. 'guides/*'")
_ID = text(
    "Ref (STORE:ID) of a record, as search, grep and the others give it; an id alone if one store has it"
)
_AS_OF = text("Instant (2030-01-31T00:00:00Z) or date: only what had landed by then")

_FIVE = (
    Tool(
        "index",
        "Table of contents",
        "Table of contents: of one store, a line for each document; of several, a line for each store. "
        f"With prefix, the documents of one store below a directory. {_DISCIPLINE}",
        arguments({"prefix": text("Path prefix to expand, e.g. 'guides/'"), "stores": _STORES}),
        answer(IndexResult),
    ),
    Tool(
        "search",
        "Search",
        "Find records by words or identifiers in every store at once. Returns refs, heading paths and short "
        f"snippets, never full text. Use in= and stores= to target documents and stores. {_DISCIPLINE}",
        arguments(
            {
                "query": text("Words, quoted phrases, or identifiers"),
                "in": _IN,
                "limit": integer(1, 50, 10),
                "mode": choice("lexical", "hybrid", about="hybrid adds meaning where stores have vectors"),
                "stores": _STORES,
            },
            "query",
        ),
        answer(SearchResult),
    ),
    Tool(
        "read",
        "Read",
        "Return one record verbatim by ref, with its heading path and the ids beside it. context=n also "
        f"returns n records before and after. {_DISCIPLINE}",
        arguments({"id": _ID, "context": integer(0, 5, 0), "stores": _STORES}, "id"),
        answer(ReadResult),
    ),
    Tool(
        "grep",
        "Grep",
        "Exact substring (or regex) match over all records. For error codes, flags, environment variables, "
        f"part numbers: anything search may blur. Returns the first matching line of each. {_DISCIPLINE}",
        arguments(
            {
                "pattern": text(maxLength=200),
                "in": _IN,
                "regex": flag(),
                "limit": integer(1, 100, 20),
                "stores": _STORES,
            },
            "pattern",
        ),
        answer(GrepResult),
    ),
    Tool(
        "neighbours",
        "Neighbours",
        "Records before and after one, in document order: the clause before a definition, the next step, or "
        f"a split table's header row (as 'header'). {_DISCIPLINE}",
        arguments(
            {"id": _ID, "before": integer(0, 5, 1), "after": integer(0, 5, 1), "stores": _STORES}, "id"
        ),
        answer(NeighboursResult),
    ),
)

_STORES_TOOL = Tool(
    "stores",
    "Stores",
    "List the stores: name, format, state, how fresh, how large, which tools it answers, and why one is "
    "not open.",
    arguments({"stores": _STORES}),
    answer(Listing),
)

_CODE = (
    Tool(
        "symbols",
        "Symbols",
        "Find definitions (functions, classes, methods) by name in code stores: path, lines, signature. "
        "Use this rather than search when you know a name or how it begins.",
        arguments(
            {
                "name": text("A name, its beginning, or Owner.member"),
                "exact": flag("Only that very name"),
                "limit": integer(1, 1000, 20),
                "stores": _STORES,
            },
            "name",
        ),
        answer(SymbolsResult),
        frozenset({"symbols"}),
    ),
    Tool(
        "references",
        "References",
        "Find where a name is used or defined in code stores: path, line, kind, and who calls it.",
        arguments(
            {
                "name": text("A name, or Owner.member"),
                "kind": choice("all", "callers", "definitions"),
                "path": text("A file or folder to restrict to"),
                "limit": integer(1, 1000, 50),
                "stores": _STORES,
            },
            "name",
        ),
        answer(ReferencesResult),
        frozenset({"references"}),
    ),
    Tool(
        "impact",
        "Impact",
        "What depends on a file or symbol (direction up) or what it depends on (down). Ask before you "
        "change something.",
        arguments(
            {
                "target": text("A file, a symbol, Owner.member or a path's end"),
                "direction": choice("up", "down", "both"),
                "depth": integer(1, 10, 2),
                "limit": integer(1, 1000, 50),
                "stores": _STORES,
            },
            "target",
        ),
        answer(ImpactResult),
        frozenset({"impact"}),
    ),
    Tool(
        "chunk",
        "Chunk",
        "The indexed code around a line of a file, with the symbol it is in. Use it after symbols or "
        "references.",
        arguments(
            {
                "path": text("Path of a file in the project"),
                "line": integer(1, 2**31, about="Line number, from 1"),
                "store": text("Name of the store; any that has the file where left out"),
            },
            "path",
            "line",
        ),
        answer(ChunkResult),
        frozenset({"chunk"}),
    ),
    Tool(
        "architecture",
        "Architecture",
        "A code store's report on its project: modules, hubs, entry points.",
        arguments({"store": _STORE}, "store"),
        answer(ArchitectureResult),
        frozenset({"architecture"}),
    ),
)

_CONTEXT = (
    Tool(
        "tables",
        "Tables",
        "The tables of a data store, or with table the columns of one. Ask before you write a query.",
        arguments({"store": _STORE, "table": text("Name of a table; all where left out")}, "store"),
        answer(ContextAnswer),
        frozenset({"context.describe"}),
    ),
    Tool(
        "query",
        "Query",
        "Run one read-only SQL SELECT over a data store's tables. Ask for few columns, add LIMIT, count and "
        "sum in SQL.",
        arguments(
            {
                "store": _STORE,
                "sql": text("One SELECT; placeholders are $name"),
                "parameters": mapping(
                    'by name {"type": "integer|float|string|timestamp|boolean", "value": …}'
                ),
                "as_of": _AS_OF,
                "valid_as_of": text("Only what was true then"),
                "available_as_of": text("Only what could be known then"),
            },
            "store",
            "sql",
        ),
        answer(ContextTable),
        frozenset({"context.query"}),
    ),
    Tool(
        "retrieve",
        "Retrieve",
        "Ranked rows of a data store's tables by words, with all of their columns.",
        arguments(
            {
                "store": _STORE,
                "query": text("Words"),
                "tables": texts("Names of tables; all where left out"),
                "limit": integer(1, 100, 10),
                "as_of": _AS_OF,
            },
            "store",
            "query",
        ),
        answer(ContextTable),
        frozenset({"corpus.retrieve"}),
    ),
    Tool(
        "recall",
        "Recall",
        "What a data store remembers of one subject: claims that held at observed_at.",
        arguments(
            {
                "store": _STORE,
                "table": text("Name of the table of claims"),
                "subject": text("Whom or what the claims are about"),
                "observed_at": text("Instant or date at which they held; now where left out"),
                "limit": integer(1, 100, 20),
            },
            "store",
            "table",
            "subject",
        ),
        answer(ContextTable),
        frozenset({"memory.recall"}),
    ),
    Tool(
        "reference",
        "Reference",
        "One row of a data store by where it landed, to check or cite it.",
        arguments(
            {
                "store": _STORE,
                "table": text("Name of the table"),
                "run_id": text("The run that landed it"),
                "row_seq": integer(0, 2**53 - 1, about="Its number in that run"),
            },
            "store",
            "table",
            "run_id",
            "row_seq",
        ),
        answer(ContextAnswer),
        frozenset({"context.reference"}),
    ),
)

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (*_FIVE, _STORES_TOOL, *_CODE, *_CONTEXT)}
"""By name, in the order in which they are announced."""

METHOD_OF: Mapping[str, str] = {name: next(iter(tool.needs), name) for name, tool in TOOLS.items()}
"""The daemon's method that a tool asks; it is also the capability of the stores that answer it."""


def announced(stores: Sequence[StoreStatus]) -> list[Tool]:
    """Return the tools that some open one of *stores* can answer, and those that are always there."""
    capabilities = {each for store in stores if store.state == State.OPEN for each in store.capabilities}
    return [tool for tool in TOOLS.values() if not tool.needs or tool.needs & capabilities]
