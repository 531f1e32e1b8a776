"""A tool's call as a request of the daemon, or an error that a model can act on. Pure.

What can mean but one thing is taken so: a string where a list of strings is wanted, an integer or a boolean
as a word, a list or an object as the JSON of one, null or no stores for what is left out, and a ref in the
brackets of a citation. Everything else that is wrong is an error. Numbers beyond a limit are the daemon's to
clamp.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from collated.protocol import METHODS, StoreStatus
from collated_readers import RequestError, State

from .model import Asked, Tool
from .shapes import is_list, is_object
from .tools import METHOD_OF, TOOLS

__all__ = ["asked"]

_RESPONSE_BYTES = 100_000
"""Tables are cut by their own store, in whole rows, before they fill a model's context."""

_ALIASES: Mapping[str, str] = {
    "directory": "prefix",
    "document": "in",
    "documents": "in",
    "k": "limit",
    "max_results": "limit",
    "n": "limit",
    "path": "in",
    "paths": "in",
    "q": "query",
    "ref": "id",
    "section": "id",
    "symbol": "name",
    "text": "query",
    "top_k": "limit",
}
"""What agents call some arguments; a tool that has an argument of that very name means that."""

_ALL: tuple[str, list[str]] = ("stores", [])  # as good as not given, as null is
_INTEGER = re.compile(r"[+-]?[0-9]{1,16}")
_CITED = re.compile(
    r"\[([a-z0-9._-]+:.+)\]", re.DOTALL
)  # no ref begins with a bracket: a store's name does not
_SHOWN = 60  # characters of a wrong value


def asked(name: str, arguments: Mapping[str, Any], stores: Sequence[StoreStatus] = ()) -> Asked:
    """Return what the tool *name* asks with *arguments*; *stores* are those that the caller may see.

    Raises:
        RequestError: `unknown_tool`, `invalid_params`; both suggest what to do instead.
    """
    tool = _tool(name)
    given = {key: value for key, value in arguments.items() if value is not None and (key, value) != _ALL}
    _check_names(tool, given)
    params = {
        key: _value(tool, key, given[key]) if key in given else schema["default"]
        for key, schema in tool.input_schema["properties"].items()
        if key in given or "default" in schema
    }
    return _checked(tool, _SHAPES.get(name, _plain)(METHOD_OF[name], params, stores))


# ------------------------------------------------------------------- tools and names of arguments


def _tool(name: str) -> Tool:
    if name in TOOLS:
        return TOOLS[name]
    by_method = {method: tool for tool, method in METHOD_OF.items()}
    close = by_method.get(name) or _closest(name.rpartition(".")[2], TOOLS)
    every = f"the tools are {', '.join(TOOLS)}"
    raise RequestError(
        "unknown_tool",
        f"there is no tool {_shown(name)}",
        f"did you mean {close}? {every}" if close else every,
    )


def _check_names(tool: Tool, given: Mapping[str, Any]) -> None:
    """Raise for arguments that the tool does not have, then for those that it lacks."""
    known = tool.input_schema["properties"]
    for key in given:
        if key not in known:
            raise _wrong(f"{tool.name} has no argument `{key[:_SHOWN]}`", _instead(key, known, given))
    if missing := [key for key in tool.input_schema.get("required", ()) if key not in given]:
        names = ", ".join(f"`{key}`" for key in missing)
        raise _wrong(f"{tool.name} needs {names}", _usage(tool))


def _instead(key: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    free = [each for each in known if each not in given]
    alias = _ALIASES.get(key.lower())
    close = alias if alias in free else _closest(key.lower(), free)
    every = f"its arguments are {', '.join(known)}"
    return f"did you mean `{close}`? {every}" if close else every


def _closest(name: str, among: Sequence[str] | Mapping[str, Any]) -> str | None:
    return next(iter(difflib.get_close_matches(name[:_SHOWN], among, n=1, cutoff=0.5)), None)


def _usage(tool: Tool) -> str:
    """Return how the tool is called, with all that it must have and the types of the rest."""
    required = tool.input_schema.get("required", ())
    shown = [
        f"{key}: {_kind(schema)}" + ("" if key in required else " (optional)")
        for key, schema in tool.input_schema["properties"].items()
    ]
    return f"{tool.name} takes {', '.join(shown)}"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f'"{each}"' for each in schema["enum"])
    if schema["type"] == "object":  # whose shape no model guesses
        return f"an object, {schema['description']}"
    return _KINDS[schema["type"]]


_KINDS: Mapping[str, str] = {
    "string": "a string",
    "integer": "an integer",
    "boolean": "true or false",
    "array": "a list of strings",
}

# ------------------------------------------------------------------------------- values


def _value(tool: Tool, key: str, value: Any) -> Any:
    schema = tool.input_schema["properties"][key]
    taken = _TAKEN[schema["type"]](value)
    if taken is None or ("enum" in schema and taken not in schema["enum"]):
        about = f"; {about}" if (about := schema.get("description")) and schema["type"] != "object" else ""
        raise _wrong(
            f"`{key}` is {_kind(schema)}, not {_shown(value)}", f"pass {key} as {_kind(schema)}{about}"
        )
    return taken


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _strings(value: Any) -> list[str] | None:
    if isinstance(value, str):
        listed = _decoded(value, '["', list)
        return [value] if listed is None else _strings(listed)
    if is_list(value) and all(isinstance(each, str) for each in value):
        return list(value)
    return None


def _object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        value = _decoded(value, "{", dict)
    return value if is_object(value) else None


def _decoded(value: str, start: str, kind: type[Any]) -> Any:
    """Return the JSON in a string that begins so, if it is of that *kind*."""
    if not value.lstrip().startswith(start):
        return None
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, kind) else None


_TAKEN: Mapping[str, Callable[[Any], Any]] = {
    "string": _string,
    "integer": _integer,
    "boolean": _boolean,
    "array": _strings,
    "object": _object,
}

# ----------------------------------------------------------------------- the daemon's words

_Shape = Callable[[str, dict[str, Any], Sequence[StoreStatus]], Asked]


def _plain(method: str, params: dict[str, Any], _: Sequence[StoreStatus]) -> Asked:
    return Asked(method, params)


def _search(method: str, params: dict[str, Any], _: Sequence[StoreStatus]) -> Asked:
    return Asked(method, {**params, "ranking": "default"})  # as a person is answered


def _by_ref(method: str, params: dict[str, Any], _: Sequence[StoreStatus]) -> Asked:
    ref = params.pop("id")
    cited = _CITED.fullmatch(ref)
    return Asked(method, {"ref": cited[1] if cited else ref, **params})


def _table(method: str, params: dict[str, Any], _: Sequence[StoreStatus]) -> Asked:
    return Asked(method, {**params, "max_response_bytes": _RESPONSE_BYTES})


def _index(method: str, params: dict[str, Any], stores: Sequence[StoreStatus]) -> Asked:
    """Return the question for the contents of the one store that is meant, or for a line of each."""
    named: list[str] = params.get("stores") or []
    chosen = list(dict.fromkeys(named)) or [store.name for store in stores if store.state == State.OPEN]
    prefix = params.get("prefix") or None
    if len(chosen) == 1:
        return Asked(method, {"store": chosen[0], **({"prefix": prefix} if prefix else {})})
    if prefix:
        raise _wrong(
            "`prefix` needs one store", "name it: index(prefix=…, stores=[NAME]); `stores` lists them"
        )
    return Asked("stores", {"stores": named} if named else {})


_SHAPES: Mapping[str, _Shape] = {
    "index": _index,
    "search": _search,
    "read": _by_ref,
    "neighbours": _by_ref,
    "query": _table,
    "retrieve": _table,
    "recall": _table,
    "tables": _table,
    "reference": _table,
}


def _checked(tool: Tool, question: Asked) -> Asked:
    """Return *question*, which the daemon can decode.

    Raises:
        RequestError: `invalid_params` for what only the wire's types know, and for text that is no UTF-8.
    """
    try:
        msgspec.json.encode(question.params)
        msgspec.convert(question.params, METHODS[question.method].params)
    except msgspec.ValidationError as error:
        raise _wrong(f"{tool.name}: {error!s:.200}", _usage(tool)) from error
    except UnicodeEncodeError as error:
        raise _wrong(f"{tool.name}: text holds half a surrogate pair", "send whole characters") from error
    except RecursionError as error:
        raise _wrong(f"{tool.name}: an argument is nested too deep", _usage(tool)) from error
    return question


def _wrong(message: str, suggestion: str) -> RequestError:
    return RequestError("invalid_params", message, suggestion)


def _shown(value: Any) -> str:
    shown = json.dumps(value, default=str)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
