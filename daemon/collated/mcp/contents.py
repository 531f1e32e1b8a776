"""The server's instructions: how to use the tools, and the contents of all stores in a budget. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from collated.protocol import StoreStatus
from collated_readers import State

from . import BUDGET_TOKENS
from .plain import plain

__all__ = ["BUDGET_TOKENS", "instructions", "line_of", "plain"]

_CHARACTERS = 4  # of a token, as the contract estimates them

_DISCIPLINE = """\
collated answers from the knowledge stores on this machine: documents, code, data. Do not guess what they say.
Search for pointers, read for text, cite refs: `search` finds records in all stores and gives refs \
(STORE:ID) with snippets; `read` gives a ref's text; answer from what you read and cite it like \
[docs:guide.md#3].
Use `grep` for exact codes, flags and identifiers, `neighbours` for what stands before and after, in= and \
stores= to ask some documents or stores only. To compare, search each side and read both."""

_NOTHING = "No store is open yet. `collate add PATH` adds one; `stores` says how they are."

_PATH_CHARACTERS = 30
_FOLDER = re.compile(r"\d+ docs · ")


def instructions(
    stores: Sequence[StoreStatus], contents: Mapping[str, str], budget_tokens: int = BUDGET_TOKENS
) -> str:
    """Return the instructions for *stores*, whose tables of contents are in *contents* by name.

    They are as full as *budget_tokens* allow: every table as it is, or every document's path, or a line
    for each store, or as many of these lines as there is room for.
    """
    room = budget_tokens * _CHARACTERS
    for level in (_flat, _compact, _lines):
        text = f"{_DISCIPLINE}\n\n{level(stores, contents) or _NOTHING}"
        if len(text) <= room:
            return text
    return _cut(stores, room)


def line_of(store: StoreStatus) -> str:
    """Return *store* in one line: its name, its format, and how much it holds or why it is not open."""
    if store.state == State.OPEN:
        what = f"{store.documents} documents · {store.records} records"
    else:
        what = f"{store.state}: {store.reason.message if store.reason else ''}"
    return plain(f"{store.name:<30}  {store.format or '-'}  {what}")


def _flat(stores: Sequence[StoreStatus], contents: Mapping[str, str]) -> str:
    return "\n\n".join(
        "\n".join([line_of(store), *map(plain, _body(contents.get(store.name, "")).splitlines())])
        for store in stores
    )


def _body(contents: str) -> str:
    """Return a table of contents without the head that ContextPull writes: its own discipline."""
    head, gap, body = contents.strip().partition("\n\n")
    return body if gap else head


def _compact(stores: Sequence[StoreStatus], contents: Mapping[str, str]) -> str:
    return "\n".join(
        "\n".join([line_of(store), *(f"  {plain(path)}" for path in _paths(contents.get(store.name, "")))])
        for store in stores
    )


def _paths(contents: str) -> Iterator[str]:
    """Yield the paths of a table of contents (store-format: Index).

    A document's line is its path, padded to 30 characters, then a label and, in brackets, how much it
    holds; a folder's has instead how many documents there are below it.
    """
    for line in contents.splitlines():
        end = line.find("  ", _PATH_CHARACTERS)
        if end >= 0 and line.endswith(")"):
            yield line[:end].rstrip()
        elif folder := _FOLDER.search(line, _PATH_CHARACTERS):
            yield line[: folder.start()].rstrip()


def _lines(stores: Sequence[StoreStatus], _: Mapping[str, str]) -> str:
    return "\n".join(map(line_of, stores))


def _cut(stores: Sequence[StoreStatus], room: int) -> str:
    """Return as many lines as fit, and how many there are more; at the very least what fits of the rest."""
    text = f"{_DISCIPLINE}\n"
    for at, store in enumerate(stores):
        more = f"\n+{len(stores) - at} more; call stores"
        longer = f"{text}\n{line_of(store)}"
        if len(longer) + len(more) > room:
            return f"{text}{more}"[: max(room, 0)]
        text = longer
    return text[: max(room, 0)]
