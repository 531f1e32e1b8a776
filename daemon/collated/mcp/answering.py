"""What an agent is answered: the wire's own fields, held to a size, and what to do next. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
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

_HALVES = re.compile("[\ud800-\udfff]")

_SUGGESTIONS: Mapping[str, str] = {
    "daemon_unreachable": "ask again in a moment; if that does not help, the person can run `collate doctor`",
    "ambiguous_id": "pass one of these refs as id",
    "deadline_exceeded": "ask again, or narrow with stores= or in=",
    "draining": "ask again in a moment",
    "overloaded": "ask again in a moment",
    "ReadResponseTooLarge": "ask for fewer columns, or for one table",
    "store_unavailable": "ask again in a moment; stores says how it is",
    "unknown_id": "search for it first; refs look like docs:guide.md#3",
    "unknown_store": "stores lists those that there are",
    "unsupported": "stores says which tools each store answers",
}
"""What a model can do where the error itself does not say so."""


def answered(name: str, result: Any, known: Mapping[str, StoreStatus], now: float) -> Answer:
    """Return the answer of the tool *name*, of which *result* is the daemon's; *known* are stores by name."""
    if name == "index":
        return _index(result)
    structured = _listing(result, now) if name == "stores" else msgspec.to_builtins(result)
    cut = _held(structured)
    fresh = {
        store: phrase
        for store in sorted(set(_stores_of(structured)) & known.keys())
        if (phrase := freshness(known[store], now))
    }
    said = [following(name, structured), cut]
    if fresh and name != "stores":
        structured["freshness"] = fresh
    if any(said):
        structured["next"] = " ".join(each for each in said if each)
    return _answer(structured)


def refused(error: CollatedError | RequestError) -> Answer:
    """Return what is said of *error*: its message, its stable code, and what to do about it."""
    suggestion = getattr(error, "suggestion", None)
    if not suggestion or "`collate " in suggestion:  # a command is for a person to type
        suggestion = _SUGGESTIONS.get(error.code, suggestion)
    return _answer({"error": str(error), "code": error.code, "suggestion": suggestion}, is_error=True)


def _index(result: Any) -> Answer:
    """Return a store's table of contents, or the list of stores as one; as text it can go to a terminal."""
    listed = getattr(result, "stores", None)
    text = result.text if listed is None else "\n".join(map(line_of, listed)) or "no stores"
    return Answer(_whole({"text": text}), "\n".join(map(plain, text.split("\n"))))


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


def _answer(structured: dict[str, Any], *, is_error: bool = False) -> Answer:
    whole = _whole(structured)
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return Answer(whole, escaped(text), is_error)


def _whole(value: Any) -> Any:
    """Return *value* with each half of a surrogate pair, which UTF-8 cannot hold, replaced."""
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if is_object(value):
        return {_whole(key): _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if is_list(value) else value


def _stores_of(value: Any) -> Iterator[str]:
    """Yield the stores whose records, places or reports are in *value*; what failed is not in it."""
    if is_list(value):
        for each in value:
            yield from _stores_of(each)
    elif is_object(value):
        if isinstance(value.get("store"), str):
            yield value["store"]
        for key, each in value.items():
            if key != "stores":
                yield from _stores_of(each)


# ----------------------------------------------------------------------------- sizes


def _held(structured: dict[str, Any]) -> str | None:
    """Cut in *structured* what is too long, and return how to get on; None where nothing was.

    `cut` says how much of which text is shown, or which parts of a report are not.
    """
    for found, key in _lines_of(structured):
        if len(found[key]) > _LINE:
            found[key] = f"{found[key][: _LINE - 1]}…"
    if cut := [*_cut_texts(structured), *_cut_report(structured)]:
        structured["cut"] = cut
        return f"Texts are cut after {_TEXT:,} characters: grep(pattern, in=[doc]) finds lines of the rest."
    return None


def _cut_texts(structured: dict[str, Any]) -> Iterator[dict[str, Any]]:
    room = _TEXT
    for record in _texts_of(structured):
        characters = len(record["text"])
        if characters > room:
            record["text"] = record["text"][:room]
            yield {"ref": record["ref"], "shown": room, "characters": characters}
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
        yield from structured["context"]
    yield from structured.get("records", ())
    if structured.get("header"):
        yield structured["header"]
    yield from structured.get("chunks", ())
