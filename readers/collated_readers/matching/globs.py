"""SQLite's GLOB over many paths at once (formats/contextpull.md §5; `patternCompare` in SQLite's func.c)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

__all__ = ["matcher_of"]

_WILD = re.compile(r"[*?[]")
_UNREADABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")
_NEVER, _ONE = "(?!)", "."

Span = tuple[str, str]
"""First and last character of a range in a set."""


def matcher_of(globs: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether a path matches any of *globs*, as SQLite would say."""
    every = {_as_read(glob) for glob in globs}
    names = {glob for glob in every if not _WILD.search(glob)}
    trees = {glob for glob in every if glob.endswith("/*") and not _WILD.search(glob[:-2])}
    folders = {glob[:-2] for glob in trees}
    others = sorted(every - names - trees)
    matches = re.compile("|".join(map(_expression, others)), re.DOTALL).fullmatch if others else None

    def accepts(path: str) -> bool:
        path = _as_read(path)
        return (
            path in names
            or (bool(folders) and _is_below(path, folders))
            or (matches is not None and matches(path) is not None)
        )

    return accepts


def _as_read(text: str) -> str:
    """Return *text* as GLOB sees it: to its first NUL, and these as one and the same character."""
    return _UNREADABLE.sub("\ufffd", text.split("\0", 1)[0])


def _is_below(path: str, folders: set[str]) -> bool:
    at = path.find("/")
    while at >= 0:
        if path[:at] in folders:
            return True
        at = path.find("/", at + 1)
    return False


def _expression(glob: str) -> str:
    """Return *glob* as a regular expression.

    What stands between two stars is of one length, so the first place where it fits is as good as any
    later one, and the expression never tries another: it takes no longer than SQLite.
    """
    first, *others = _parts(glob) or [_NEVER]
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}"


def _parts(glob: str) -> list[str] | None:
    """Return what stands between the stars of *glob*, as expressions; None for a set without an end."""
    parts, at = [""], 0
    while at < len(glob):
        character, at = glob[at], at + 1
        if character == "*":
            parts.append("")
        elif character == "[":
            found = _set(glob, at)
            if found is None:
                return None
            expression, at = found
            parts[-1] += expression
        else:
            parts[-1] += _ONE if character == "?" else re.escape(character)
    return parts


def _set(glob: str, at: int) -> tuple[str, int] | None:
    """Return the set that begins before *at*, and where it ends; None if it does not."""
    is_negated = glob.startswith("^", at)
    at += is_negated
    spans: list[Span] = []
    before = ""  # the character that a `-` would begin a range at
    if glob.startswith("]", at):
        spans.append(("]", "]"))
        at += 1
    while at < len(glob) and glob[at] != "]":
        is_range = glob[at] == "-" and before and glob[at + 1 : at + 2] not in ("", "]")
        at += bool(is_range)
        spans.append((before if is_range else glob[at], glob[at]))
        before = "" if is_range else glob[at]
        at += 1
    return (_class(spans, is_negated=is_negated), at + 1) if at < len(glob) else None


def _class(spans: Sequence[Span], *, is_negated: bool) -> str:
    inside = "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in spans if first <= last)
    if not inside:  # ranges from a later to an earlier character alone
        return _ONE if is_negated else _NEVER
    return f"[{'^' if is_negated else ''}{inside}]"
