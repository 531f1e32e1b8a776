"""Whether a string looks like a secret, or like what code and documentation have in its place. Pure."""

from __future__ import annotations

import base64
import binascii
import re

__all__ = ["is_credentials", "is_noise", "is_placeholder", "is_wordy"]

_PLACEHOLDER = re.compile(
    r"<[^<>]*>?"  # <your-token>
    r"|(?:[$#@]?\{|\$\(|%\().*"  # ${TOKEN}, $(get token), {token}, %(token)s
    r"|[$!*%&][a-z]\w*%?"  # $TOKEN, !vault, *anchor, %TOKEN%, %s
    r"|.*(?:\.\.\.|…).*"
    r"|(?:your|change|replace|insert|enter|example|placeholder|dummy|todo|fixme|redacted)[a-z_.-]*+"
    r"|(?:password|passwd|passw|pass|pwd|pw|secret|token|none|null|true|false|undefined|required|optional)",
    re.IGNORECASE | re.ASCII,
)

# Names, versions, dates and paths: words that may end in a few digits, and short numbers.
_WORDY = re.compile(r"[$@.:/~-]*+(?:(?:[A-Za-z_]++[0-9]{0,3}+|[0-9]{1,4}+)(?:[._:/+-]++|\Z))+", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]++=*+")
_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+", re.ASCII)

_LONG = 16  # from here on, a fifth of digits is no name
_LONGEST_WORD = 15
_VERY_LONG = 32
_NAMES_RUN = 2.6  # letters or digits of one kind in a row, on average: names have more, base64 and hex fewer
_BASE64_RUN = 4.0  # where nothing else than base64 stands between them, which no long name is without


def is_placeholder(value: str) -> bool:
    """Tell whether *value* only stands for a secret that is not there."""
    return "<<redacted:" in value or len(set(value) - set("-_.")) <= 1 or bool(_PLACEHOLDER.fullmatch(value))


def is_wordy(value: str) -> bool:
    """Tell whether *value* is made like names, versions, dates and paths are."""
    return bool(_WORDY.fullmatch(value)) and max(map(len, _RUN.findall(value)), default=0) <= _LONGEST_WORD


def is_noise(value: str) -> bool:
    """Tell whether *value* changes between capitals, small letters and digits as no name does."""
    runs = _RUN.findall(value)
    letters = sum(map(len, runs))
    digits = sum(len(run) for run in runs if run.isdigit())
    if not runs or is_placeholder(value):
        return False
    if letters >= _LONG and (digits * 5 >= letters or max(map(len, runs)) > _LONGEST_WORD):
        return True
    most = _BASE64_RUN if letters >= _VERY_LONG and _BASE64.fullmatch(value) else _NAMES_RUN
    return letters < most * len(runs) and (digits > 0 or letters >= _LONG)


def is_credentials(value: str) -> bool:
    """Tell whether *value* is the base64 of `USER:PASSWORD`."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and plain.isascii() and plain.decode("ascii").isprintable()
