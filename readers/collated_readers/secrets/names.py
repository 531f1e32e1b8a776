"""Secrets that are known by the name that they are assigned to. Pure.

What is quoted, and what an environment variable in capitals is set to, is a secret unless it is plainly
a word; what is bare may be code and must look like noise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .looks import is_noise, is_placeholder, is_wordy

__all__ = ["assigned_secrets"]

# Where a name may begin, in lower case. Looking for these strings is what most texts pay, and all they pay.
_STEMS = ("token", "secret", "pass", "pwd", "credential", "auth", "key")
_KEY_OWNERS = tuple(
    owner + joint
    for owner in (
        *("api", "access", "account", "app", "auth", "client", "deploy", "encryption", "master", "private"),
        *("secret", "service", "shared", "signing", "ssh", "storage", "webhook"),
    )
    for joint in ("", "_", "-", " ")
)
_LONGEST_OWNER = max(map(len, _KEY_OWNERS))

# A value is read in a bounded piece first, so that one that is refused costs no more than that.
_PIECE = 128
_ASSIGNED = re.compile(
    rf"""
    (?:token|secret
     |(?P<password>passw(?:or)?d|passphrase|pwd|(?-i:(?<![A-Za-z])(?<![a-z][ ])pass|Pass|(?<![A-Z])PASS))
     |credentials?|authorization|(?<![A-Za-z])auth(?!0)|key)
    (?:[_-]?(?:access|key|base|base64|value|string)){{0,3}} [0-9]?
    \\{{0,3}}["'`]? \]? [ \t]{{0,8}}
    (?: :[ ]?[A-Za-z_][A-Za-z0-9_.\[\]|?,]{{0,40}}[ ]=  # a type's name before the value
      | :=|=>|[!=]?={{1,2}}|:|[ \t]value=|(?P<tag>>)
    ) [ \t]{{0,8}}
    (?: [bBrRuU]{{0,2}}
        (?: \\{{1,3}}["'](?P<escaped>[^\s"'`\\]{{1,{_PIECE}}}+)
          | "{{1,3}}(?P<double>(?:[^"\\\s]|\\.){{1,{_PIECE}}}+)
          | '{{1,3}}(?P<single>(?:[^'\\\s]|\\.){{1,{_PIECE}}}+)
          | `(?P<tick>(?:[^`\\\s]|\\.){{1,{_PIECE}}}+)
        )
      | (?P<bare>[^\s"'`,;<>()\[\]{{}}&\\|]{{1,{_PIECE}}}+)
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_VALUES = ("escaped", "double", "single", "tick", "bare")
_REST = {
    "escaped": re.compile(r"[^\s\"'`\\]*+"),
    "double": re.compile(r"(?:[^\"\\\s]|\\.)*+"),
    "single": re.compile(r"(?:[^'\\\s]|\\.)*+"),
    "tick": re.compile(r"(?:[^`\\\s]|\\.)*+"),
    "bare": re.compile(r"[^\s\"'`,;<>()\[\]{}&\\|]*+"),
}
_CLOSING = {"escaped": ("\\",), "double": ('"',), "single": ("'",), "tick": ("`",)}

_DESCRIBING = re.compile("token|secret|passw|key|auth|credential", re.IGNORECASE)
_SHORTEST = 12
_SHORTEST_PASSWORD = 6
_SHORTEST_BARE_PASSWORD = 8
_LONG = 16
"""Characters: what is shorter is a word more often than a secret; the last is that of the seed's program."""


def assigned_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the secrets of *text* begin and end, in order."""
    done = 0
    for position in _names(text):
        if position < done:
            continue
        found = _ASSIGNED.match(text, position)
        if found and (secret := _secret(found)):
            yield secret
            done = secret[1]


def _names(text: str) -> list[int]:
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter that is two in lower case, and all positions behind it are off
        lowered = text.translate(_ASCII_LOWER)
    return sorted(position for stem in _STEMS for position in _places(lowered, stem))


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _places(lowered: str, stem: str) -> Iterator[int]:
    position = lowered.find(stem)
    while position >= 0:
        if stem != "key" or lowered.endswith(_KEY_OWNERS, max(0, position - _LONGEST_OWNER), position):
            yield position
        position = lowered.find(stem, position + 1)


def _secret(found: re.Match[str]) -> tuple[int, int] | None:
    """Return where the secret is in what a name is assigned, None if it is none."""
    group = next(name for name in _VALUES if found[name] is not None)
    value, text = found[group], found.string
    behind = text[found.end() : found.end() + 1]
    is_password = found["password"] is not None
    if is_placeholder(value) or "://" in value:
        return None
    if group in _CLOSING:
        literal = behind in ("", *_CLOSING[group]) or len(value) >= _PIECE
    elif found["tag"]:
        literal = text.startswith("</", found.end())
    else:
        literal = _is_environment(found, group) and (not behind or behind.isspace())
    looks = _is_literal_secret(value, is_password) if literal else _is_bare_secret(value, is_password)
    if not looks or (group == "bare" and not literal and behind in ("(", "[", "{") and behind):
        return None
    return found.start(group), _REST[group].match(text, found.end(group)).end()  # type: ignore[union-attr]


def _is_environment(found: re.Match[str], group: str) -> bool:
    assignment = found.string[found.start() : found.start(group)]
    return assignment.endswith("=") and " " not in assignment and assignment.isupper()


def _is_literal_secret(value: str, is_password: bool) -> bool:
    if len(value) >= _LONG:
        if not is_wordy(value) or any(map(str.isdigit, value)):
            return True
        describes = ("." in value or not is_password) and _DESCRIBING.search(value)
        return "/" not in value and not describes
    if is_password and len(value) >= _SHORTEST_PASSWORD:
        return (
            not value.replace("_", "").isalpha()
            and not value.replace("-", "").isalpha()
            and not value.isspace()
        )
    return len(value) >= _SHORTEST and not is_wordy(value)


def _is_bare_secret(value: str, is_password: bool) -> bool:
    if is_password and len(value) >= _SHORTEST_BARE_PASSWORD and not is_wordy(value):
        return any(map(str.isdigit, value))
    return len(value) >= _SHORTEST and is_noise(value)
