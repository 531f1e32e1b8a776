"""What a format has to say of its stores (`StoreStatus.details`), in words. Pure.

Details are told apart by their names alone, whatever the format; one of another name is shown as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from collated.protocol import StoreStatus
from collated_readers import STORE_CODES

from .advice import advice

__all__ = ["Concern", "concerns", "facts", "warnings"]

_WORDS: Mapping[str, str] = {
    "built_at": "built {}",
    "updated_at": "updated {}",
    "ingested_at": "ingested {}",
    "committed_at": "committed {}",
    "head_commit": "commit {}",
    "symbols": "{} symbols",
    "languages": "languages {}",
    "dangling_edges": "{} dangling edges",
    "model": "model {}",
    "dimensions": "{} dimensions",
    "metric": "metric {}",
    "unindexed": "{} texts not indexed",
}
"""In the order in which they are told; what is not there, or is 0, is not."""

# Told as concerns or warnings, or in the store's own line already.
_ELSEWHERE = frozenset({"contract", "error", "files_changed", "message", "validation", "warnings"})
_COMMIT = 10  # characters that tell a project's commits apart
_MOST = 80  # characters of one value


class Concern(NamedTuple):
    """What a person wants to know of an open store unasked, and what to do about it.

    A problem is wrong with the store itself; anything else may pass, or is for a person to judge.
    """

    message: str
    advice: str
    is_problem: bool


def facts(store: StoreStatus) -> Iterator[str]:
    """Yield what is known of *store* beside its line: first what has words, then the rest by name."""
    details = store.details
    for key, words in _WORDS.items():
        if value := _short(key, details.get(key)):
            yield words.format(value)
    if details.get("files_changed") == 0:
        yield "no file changed since then"
    if details.get("validation") == "valid":
        yield "valid"
    for key in sorted(details.keys() - _WORDS.keys() - _ELSEWHERE - STORE_CODES.keys()):
        if value := _short(key, details[key]):
            yield f"{key}: {value}"


def concerns(store: StoreStatus) -> Iterator[Concern]:
    """Yield what needs attention: a store that moved on, lacks something or failed its validation."""
    details = store.details
    if changed := _short("files_changed", details.get("files_changed")):
        files = "1 file" if changed == "1" else f"{changed} files"
        yield Concern(
            f"{files} changed since it was indexed",
            f"index the project again with {store.format}",
            is_problem=False,
        )
    for key, (_, meaning) in STORE_CODES.items():
        if details.get(key) is True:
            yield Concern(f"{meaning} ({key})", advice(key), is_problem=True)
    if (validation := details.get("validation", "valid")) != "valid":
        yield _failed(validation, details["message"], is_problem=True)
    if error := details.get("error"):  # it is looked at again in a minute
        yield _failed(error["code"], error["message"], is_problem=False)


def warnings(store: StoreStatus) -> Iterator[str]:
    """Yield what is odd in *store*, though it can be used."""
    for each in store.details.get("warnings") or ():
        yield f"{each['message']} ({each['code']})"


def _failed(code: str, message: str, *, is_problem: bool) -> Concern:
    return Concern(f"{message} ({code})", advice(code), is_problem)


def _short(key: str, value: Any) -> str:
    """Return what is worth a line as text of some length at most; anything nested, and 0, is not."""
    values: list[Any] = value if type(value) in (list, tuple) else [value]
    text = ", ".join(f"{each}" for each in values if each and isinstance(each, str | int | float))
    if key == "head_commit":
        return text[:_COMMIT]
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
