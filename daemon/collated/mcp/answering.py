"""What an agent is answered: the wire's own fields, held to a size, and what to do next. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from collated.errors import CollatedError
from collated.protocol import StoreStatus
from collated_readers import RequestError

from .contents import line_of
from .following import following
from .freshness import freshness
from .model import Answer
from .plain import escaped, plain
from .schemas import Listed, Listing
from .shapes import is_list, is_object
from .tools import METHOD_OF

__all__ = ["answered", "refused"]

_TEXT = 100_000  # characters of all the texts in an answer
_LINE = 1_000  # of a line or a snippet

# What a person can type or set, and a model cannot.
_NOT_FOR_AGENTS = re.compile("`collate |max_response_bytes|deadline_ms")

_FOUND = frozenset({"hits", "matches", "records", "symbols", "references", "nodes", "files", "chunks"})
"""The lists of what is found, each of which names its store."""

_HALVES = re.compile("[\ud800-\udfff]")

_SUGGESTIONS: Mapping[str, str] = {
    "daemon_unreachable": "ask again in a moment; if that does not help, the person can run `collate doctor`",
    "ambiguous_id": "pass one of these refs as id",
    "deadline_exceeded": "ask again, or narrow with stores= or in=",
    "EnforceUnknownRelation": "tables(store) lists the tables that there are",
    "draining": "ask again in a moment",
    "overloaded": "ask again in a moment",
    "ReadResponseTooLarge": "ask for fewer columns, or for one table",
    "store_unavailable": "ask again in a moment; stores says how it is",
    "unknown_id": "search for it first; refs look like docs:guide.md#3",
    "unknown_store": "stores lists those that there are",
    "unsupported": "stores says which tools each store answers",
}
"""What a model can do where the error itself does not say so."""


def answered(
    name: str, result: Any, known: Mapping[str, StoreStatus], now: float, store: str | None = None
) -> Answer:
    """Return the answer of the tool *name*, of which *result* is the daemon's.

    *known* are the stores by name, whose freshness is told where something of theirs is in the answer;
    *store* is the one that was asked, for results that do not name it.
    """
    if name == "stores":
        return _answer({**_listing(result, now), "next": following(name, {})})
    structured = _contents(result) if name == "index" else msgspec.to_builtins(result)
    cut = _held(structured)
    among = {*_stores_of(structured), store or ""} & known.keys()
    if fresh := {each: phrase for each in sorted(among) if (phrase := freshness(known[each], now))}:
        structured["freshness"] = fresh
    said = [each for each in (following(name, structured), cut) if each]
    if said:
        structured["next"] = " ".join(said)
    return _answer(structured, lines=[structured["text"], *said] if name == "index" else None)


def refused(error: CollatedError | RequestError) -> Answer:
    """Return what is said of *error*: its message, its stable code, and what to do about it."""
    suggestion = getattr(error, "suggestion", None)
    if not suggestion or _NOT_FOR_AGENTS.search(suggestion):
        suggestion = _SUGGESTIONS.get(error.code, suggestion)
    return _answer({"error": str(error), "code": error.code, "suggestion": suggestion}, is_error=True)


def _contents(result: Any) -> dict[str, Any]:
    """Return a store's table of contents, or the list of stores as one."""
    listed = getattr(result, "stores", None)
    return {"text": result.text if listed is None else "\n".join(map(line_of, listed)) or "no stores"}


def _listing(result: Any, now: float) -> dict[str, Any]:
    tools = {method: name for name, method in METHOD_OF.items()}
    listed = [
        Listed(
            name=store.name,
            format=store.format,
            state=store.state,
            freshness=freshness(store, now),
            documents=store.documents,
            records=store.records,
            capabilities=sorted(tools[each] for each in store.capabilities if each in tools),
            reason=store.reason,
        )
        for store in result.stores
    ]
    structured: dict[str, Any] = msgspec.to_builtins(Listing(listed))
    return structured


def _answer(
    structured: dict[str, Any], *, lines: Sequence[str] | None = None, is_error: bool = False
) -> Answer:
    """Return the answer whose text is JSON, or *lines* as they are but for what is not plain."""
    try:
        encoded = msgspec.json.encode(structured)
    except UnicodeEncodeError:
        structured = _whole(structured)
        encoded = msgspec.json.encode(structured)
    text = escaped(encoded.decode()) if lines is None else "\n".join(map(plain, "\n".join(lines).split("\n")))
    return Answer(structured, text, is_error)


def _whole(value: Any) -> Any:
    """Return *value* with each half of a surrogate pair, which UTF-8 cannot hold, replaced."""
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if is_object(value):
        return {_whole(key): _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if is_list(value) else value


def _stores_of(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the stores whose records, places or reports are in *value*; what failed is not in it."""
    if isinstance(store := value.get("store"), str):
        yield store
    for key, each in value.items():
        if is_list(each) and key in _FOUND:
            yield from (found["store"] for found in each)


# ----------------------------------------------------------------------------- sizes


def _held(structured: dict[str, Any]) -> str | None:
    """Cut in *structured* what is too long, and return how to get on; None where nothing was.

    `cut` says how much of which text is shown, or which parts of a report are not.
    """
    for found, key in _lines_of(structured):
        if len(found[key]) > _LINE:
            found[key] = f"{found[key][: _LINE - 1]}…"
    if not (cut := [*_cut_texts(structured), *_cut_report(structured)]):
        return None
    structured["cut"] = cut
    on = (
        "grep(pattern, in=[doc]) finds a line"
        if "ref" in cut[0]
        else "index(prefix, stores=[NAME]) gives some"
    )
    return f"This is cut after {_TEXT:,} characters: {on} of the rest."


def _cut_texts(structured: dict[str, Any]) -> Iterator[dict[str, Any]]:
    room = _TEXT
    for record in _texts_of(structured):
        characters = len(record["text"])
        if characters > room:
            record["text"] = record["text"][:room]
            about = {"ref": record["ref"]} if "ref" in record else {}
            yield {**about, "shown": room, "characters": characters}
        room = max(room - characters, 0)


def _cut_report(structured: dict[str, Any]) -> Iterator[dict[str, Any]]:
    report: dict[str, Any] = structured.get("report") or {}
    room = _TEXT
    for part in list(report):
        characters = len(json.dumps(report[part]))
        if characters > room:
            del report[part]
            yield {"part": part, "shown": 0, "characters": characters}
        else:
            room -= characters


def _lines_of(structured: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    yield from ((hit, "snippet") for hit in structured.get("hits", ()))
    yield from ((match, "line") for match in structured.get("matches", ()))


def _texts_of(structured: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what has a text, the record that was asked for first."""
    if "text" in structured:
        yield structured
        yield from structured.get("context", ())
    yield from structured.get("records", ())
    if structured.get("header"):
        yield structured["header"]
    yield from structured.get("chunks", ())
